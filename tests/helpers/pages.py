"""The generator of the documents, docs/generate.py, as a module."""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
generate = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = generate  # its dataclasses look their module up
spec.loader.exec_module(generate)
