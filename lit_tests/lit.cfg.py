"""lit set-up: runs the RUN lines of every .mlir file with the tools beside the interpreter."""

import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path

import lit.formats

COMMAND_SECONDS = 180
"""Time limit of one mlirfuse command, where `timeout` is installed."""


def tool(name):
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        lit_config.fatal(f"{name} is not installed beside {sys.executable}; pip install '.[test]'")
    return f'"{found}"'


limit = f"timeout {COMMAND_SECONDS} " if shutil.which("timeout") else ""

config.name = "mlirfuse"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Inputs"]
config.test_source_root = str(Path(__file__).parent)
config.test_exec_root = lit_config.params.get(
    "scratch", str(Path(tempfile.gettempdir()) / "mlirfuse-lit")
)
# Switches of the user's own configuration would change what the tests see.
config.environment["MLIRFUSE_CONFIG"] = ""
config.environment["MLIRFUSE_FLAGS"] = ""
config.environment["MLIRFUSE_RATES"] = "off"
config.environment["COLUMNS"] = "100"
# The tools of another checkout than the installed one.
config.environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
# Kernels are built only where their provider is installed: `%if triton %{ ... %}`.
if importlib.util.find_spec("triton"):
    config.available_features.add("triton")
config.substitutions += [
    ("%mlirfuse-opt", limit + tool("mlirfuse-opt")),
    (r"\bFileCheck\b", tool("filecheck")),
]
