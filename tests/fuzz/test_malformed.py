"""Damaged models and hostile switches: one line of error, never a crash, a hang or a traceback."""

import io
import os
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from iree.compiler import ir
from mutations import mutated

from benchmarks.fuzz.graphs import graph
from mlirfuse.core import MlirfuseError
from mlirfuse.frontends import import_model
from mlirfuse.options import FusionOptions, switch_names
from mlirfuse.patterns import PASSES
from mlirfuse.pipelines import resolve

COUNT = int(os.environ.get("MLIRFUSE_FUZZ_EXAMPLES", "6")) * 4
"""Damaged files of each kind."""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_damaged_text_and_bytecode_are_refused():
    text = graph(7, 10)
    Path("text.mlir").write_text(text)
    with ir.Context(), Path("code.mlirbc").open("wb") as file:
        ir.Module.parse(text).operation.write_bytecode(file)
    script = Path(__file__).with_name("mutations.py")
    done = subprocess.run(
        [sys.executable, script, str(COUNT), "text.mlir", "code.mlirbc"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-2000:]


def refusal(call, *args, **kwargs):
    """What was said; nothing when it was taken."""
    try:
        call(*args, **kwargs)
    except MlirfuseError as error:
        return str(error)
    return ""


NETWORK = """
<ir_version: 8, opset_import: ["": 17]>
net (float[4, 8] x) => (float[4, 8] y) { z = Exp(x) y = Softmax(z) }
"""


def archive():
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.softmax(x, -1)

    written = io.BytesIO()
    torch.export.save(torch.export.export(Model(), (torch.ones(4, 8),)), written)
    return written.getvalue()


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("net.onnx", lambda: onnx.parser.parse_model(NETWORK).SerializeToString()),
        ("net.pt2", archive),
    ],
)
def test_damaged_models_are_refused(name, make):
    data = make()
    for seed in range(COUNT // 2):
        Path(name).write_bytes(mutated(data, seed))
        said = refusal(import_model, name)
        assert "\n" not in said


WORDS = st.text(st.sampled_from("abl_-@=,{}()%:.0123456789 \n\t\"'\\é\0"), max_size=30)
NAMES = st.one_of(WORDS, st.sampled_from(sorted(PASSES)), st.integers(), st.none(), st.booleans())


@settings(max_examples=300, deadline=None, derandomize=True)
@given(name=st.sampled_from(switch_names()), value=st.one_of(NAMES, st.lists(NAMES, max_size=3)))
def test_hostile_switches_are_refused(name, value):
    if name == "load_pass":  # it runs code by design
        return
    said = refusal(FusionOptions, **{name: value})
    assert "\n" not in said


@settings(max_examples=200, deadline=None, derandomize=True)
@given(text=WORDS)
def test_hostile_pipelines_are_refused(text):
    refusal(resolve, text)
