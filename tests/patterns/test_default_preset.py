"""The default preset takes the program of every pass's lit test, those without a match, too."""

from pathlib import Path

import pytest
from iree.compiler import ir

from mlirfuse import targets
from mlirfuse.errors import MlirfuseError
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine

FILES = sorted((Path(__file__).parents[2] / "lit_tests" / "patterns").glob("*.mlir"))


@pytest.mark.parametrize("target", ["cpu", "vulkan"])
def test_no_pass_fails(target):
    parsed, failed, taken = targets.parse(target), [], 0
    for file in FILES:
        for number, text in enumerate(file.read_text().split("// -----")):
            with ir.Context():
                try:
                    module = ir.Module.parse(text)
                except ir.MLIRError:
                    continue  # of another tool's input, or an error that the test expects
                try:
                    engine.run(module, target=parsed, options=FusionOptions())
                except MlirfuseError as error:
                    failed.append(f"{file.name}, program {number}: {error}")
                taken += 1
    assert failed == []
    assert taken > 500
