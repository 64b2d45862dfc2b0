"""lit set-up: `lit lit_tests`, with mlirfuse, lit and filecheck installed."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import lit.formats

HERE = Path(__file__).parent


def tool(name):
    """The quoted path of a command that is installed beside the interpreter, or on the path."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        lit_config.fatal(f"{name} is not installed beside {sys.executable}")
    return f'"{found}"'


config.name = "squared-relu"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = str(HERE)
config.test_exec_root = lit_config.params.get(
    "scratch", str(Path(tempfile.gettempdir()) / "squared-relu-lit")
)
config.environment["MLIRFUSE_CONFIG"] = ""
config.environment["MLIRFUSE_FLAGS"] = ""
config.environment["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")])
)
config.substitutions += [
    ("%mlirfuse-opt", tool("mlirfuse-opt")),
    ("%pass", "--load-pass=squared_relu.squared_relu_fusion:PASS"),
    ("%patterns", f"--load-pass={HERE.parent / 'reshapes.pdl.mlir'}"),
    (r"\bFileCheck\b", tool("filecheck")),
]
