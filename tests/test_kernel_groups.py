"""Passes that prepare ops for a kernel ask whether a provider of kernels is installed."""

from pathlib import Path

import pytest
from iree.compiler import ir

from mlirfuse import targets
from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels import triton_compiler
from mlirfuse.options import FusionOptions
from mlirfuse.patterns import PASSES
from mlirfuse.pipelines import engine
from mlirfuse.structured.ir import marks, ops

LIT = Path(__file__).parents[1] / "lit_tests" / "patterns"
TARGET = targets.parse("cuda:sm_90")
REFUSAL = NoMatch(Reason.TARGET_UNSUPPORTED, "triton is not installed")
FOR_KERNELS = sorted(
    name
    for name, fusion in PASSES.items()
    if fusion.feature == "kernels"
    and "cuda" in fusion.targets
    and not name.endswith(("_triton_kernel", "_vector_kernel"))
    # It moves kernels that exist, which another pass has made.
    and name != "recurrence_order_rewrite"
)


def runs(name):
    """The module before and after the pass, and its report, of each part of its lit file."""
    options = FusionOptions(
        pipeline=name, enable_feature=("kernels",), float32_conv_precision="high"
    )
    text = (LIT / f"{name}.mlir").read_text(encoding="utf-8")
    for part in text.split("// -----"):
        with ir.Context():
            module = ir.Module.parse(part)
            grouped, report = engine.run(module, target=TARGET, options=options)
            yield module, grouped, report


@pytest.mark.parametrize("name", FOR_KERNELS)
def test_nothing_is_grouped_without_a_provider(name, monkeypatch):
    monkeypatch.setattr(triton_compiler, "missing", lambda: REFUSAL)
    refused = 0
    for before, after, report in runs(name):
        assert str(after) == str(before)
        refused += sum(
            (d.reason, d.detail) == (REFUSAL.reason, REFUSAL.detail) for d in report.decisions
        )
    assert refused


@pytest.mark.parametrize("name", FOR_KERNELS)
def test_every_group_is_marked(name, monkeypatch):
    monkeypatch.setattr(triton_compiler, "missing", lambda: None)
    made = 0
    for before, after, report in runs(name):
        regions = [
            op for f in ops.functions(after) for op in ops.nested_ops(f) if op.name == ops.REGION
        ]
        given = str(before).count(ops.REGION)
        marked = [op for op in regions if marks.PASS_ATTRIBUTE in op.attributes]
        assert len(marked) == len(regions) - given == sum(d.made_group for d in report.decisions)
        made += sum(d.taken for d in report.decisions)
    assert made
