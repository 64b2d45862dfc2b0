"""Damaged models and hostile switches: one line of error, never a crash, a hang or a traceback."""

import json
import os
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from mlirfuse.core import MlirfuseError
from mlirfuse.options import FusionOptions, switch_names
from mlirfuse.patterns import PASSES
from mlirfuse.pipelines.resolve import resolve

COUNT = int(os.environ.get("MLIRFUSE_FUZZ_EXAMPLES", "3"))
"""Damaged inputs of each kind; of whole models a quarter."""


def test_damaged_inputs_are_refused_in_one_line(tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.fuzz", f"--damaged={COUNT}", "--seed=0"),
            f"--results={tmp_path / 'fuzz.json'}",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert all(kind["refused"] for kind in json.loads(done.stdout).values())


TRANSPOSE = """
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %z = linalg.transpose ins(%x : tensor<2x3xf32>) outs(%y : tensor<3x2xf32>) permutation = [1< 0]
  return %z : tensor<3x2xf32>
}
"""


def test_input_that_crashes_the_parser_is_an_error(tmp_path):
    path = tmp_path / "damaged.mlir"
    path.write_text(TRANSPOSE)
    command = "from mlirfuse.tools.opt import main; raise SystemExit(main())"
    done = subprocess.run(
        [sys.executable, "-c", command, path], capture_output=True, text=True, check=False
    )
    message = "error: MLIR died with SIGSEGV on its input\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"mlirfuse-opt: {message}")


def refusal(call, *args, **kwargs):
    """The message of the refusal; empty where the value was accepted."""
    try:
        call(*args, **kwargs)
    except MlirfuseError as error:
        return str(error)
    return ""


WORDS = st.text(st.sampled_from("abl_-@=,{}()%:.0123456789 \n\t\"'\\é\0"), max_size=30)
NAMES = st.one_of(WORDS, st.sampled_from(sorted(PASSES)), st.integers(), st.none(), st.booleans())


@settings(max_examples=300, deadline=None, derandomize=True)
@given(name=st.sampled_from(switch_names()), value=st.one_of(NAMES, st.lists(NAMES, max_size=3)))
def test_hostile_switches_are_refused(name, value):
    if name == "load_pass":  # it runs code by design
        return
    message = refusal(FusionOptions, **{name: value})
    assert "\n" not in message


@settings(max_examples=200, deadline=None, derandomize=True)
@given(text=WORDS)
def test_hostile_pipelines_are_refused(text):
    refusal(resolve, text)
