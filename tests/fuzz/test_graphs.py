"""Random programs with random switches: fused equals unfused, or IREE fails on both."""

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from iree.compiler import ir

from benchmarks.fuzz.__main__ import HEADER
from benchmarks.fuzz.check import Outcome, check, switches
from benchmarks.fuzz.graphs import graph
from benchmarks.fuzz.page import REGRESSIONS

EXAMPLES = int(os.environ.get("MLIRFUSE_FUZZ_EXAMPLES", "6"))
"""Programs that are compiled; each takes about two seconds."""

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=SEEDS, steps=st.integers(1, 12))
def test_every_program_is_valid_and_the_same_each_time(seed, steps):
    text = graph(seed, steps)
    assert text == graph(seed, steps)
    with ir.Context():
        ir.Module.parse(text)


KINDS = (
    *(f"x{t}>" for t in ("f64", "f32", "f16", "bf16", "i8", "i32", "i64", "i1")),
    *("tensor<f32>", "tensor<0x", "tensor<1x", "x0x", "tensor<?x", "5xf32>) -> (", "_other("),
    *("scf.if", "scf.for", "scf.while", "util.global.load", "linalg.index", "math.erf"),
    *("linalg.matmul", "linalg.batch_matmul", "linalg.transpose", "tensor.concat", "tensor.pad"),
    *("tensor.extract_slice", "tensor.collapse_shape", "tensor.expand_shape", "tensor.extract %"),
    *('"reduction"', "math.rsqrt", "0xFF800000", "arith.select", "arith.truncf", "arith.extf"),
)
"""What programs are to be made of: types, ranks, sizes, control flow, ops."""


def test_every_kind_comes_up():
    texts = [graph(seed, 10) for seed in range(400)]
    missing = [kind for kind in KINDS if sum(kind in text for text in texts) < 4]
    assert missing == []
    ranks = {len(shape.split("x")) - 1 for t in texts for shape in re.findall(r"tensor<(.*?)>", t)}
    assert set(range(6)) <= ranks
    chosen = [switches(seed) for seed in range(400)]
    assert sum(not given for given in chosen) > 100
    assert {name for given in chosen for name in given} == {
        *("disable_pass", "enable_pass", "fusion_limit", "numerics"),
        *("single_op_groups", "skip_op_kind"),
    }


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(seed=SEEDS, steps=st.integers(4, 12))
def test_fused_equals_unfused(seed, steps):
    found = check(graph(seed, steps), switches(seed), seed)
    assert found.outcome.ok, found.message


KEPT = sorted(REGRESSIONS.glob("*.mlir"))

if KEPT:

    @pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
    def test_what_failed_once_does_not_again(path):
        first, text = Path(path).read_text(encoding="utf-8").split("\n", 1)
        given = json.loads(first.removeprefix(HEADER))
        found = check(text, given["switches"], target=given["target"])
        assert found.outcome is Outcome.EQUAL, found.message
