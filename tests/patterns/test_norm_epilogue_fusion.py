"""Matches and refusals of norm_epilogue_fusion beyond its lit file."""

import pytest
from iree.compiler import ir

from helpers.linalg_text import Function
from helpers.norm_text import layer_norm
from mlirfuse import targets
from mlirfuse.core import Reason
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.structured.ir import ops

PIPELINE = "layer_norm_fusion,softmax_fusion,norm_epilogue_fusion"


def fused(text: str, target: str = "cpu", **switches):
    """The decisions on epilogues, and the generics in each group."""
    with ir.Context():
        options = FusionOptions(pipeline=PIPELINE, **switches)
        module = ir.Module.parse(text)
        done, report = engine.run(module, target=targets.parse(target), options=options)
        (function,) = ops.functions(done)
        held = [o.operation for o in ops.body(function).operations]
        groups = [
            sum(ops.is_generic(inner) for inner in ops.nested_ops(o))
            for o in held
            if o.name == ops.REGION
        ]
    return [d for d in report.decisions if d.pass_name == "norm_epilogue_fusion"], groups


def sums(count: int, after: int = 0) -> str:
    """A norm, adds of other tensors, and functions of the last."""
    f = Function("f", (4, 8))
    y = layer_norm(f, f.argument((0, 1), "f32"), (1,), None, None, "f32")
    for _ in range(count):
        y = f.apply("arith.addf", y, f.argument((0, 1), "f32"))
    for _ in range(after):
        y = f.apply("math.tanh", y)
    return f.finish(y)


def test_as_much_as_a_dispatch_has_operands_for():
    (whole,), groups = fused(sums(30))
    assert whole.taken
    (part,), smaller = fused(sums(31))
    assert part.taken
    assert smaller == groups


def test_as_many_ops_as_a_group_takes():
    (found,), (size,) = fused(sums(0, after=80))
    assert found.taken
    assert size == 64


@pytest.mark.parametrize("skipped", ["linalg.generic", "math.tanh"])
def test_an_op_kind_that_is_kept_out_keeps_the_epilogue_out(skipped):
    found, _ = fused(sums(0, after=1), skip_op_kind=(skipped,))
    assert {d.reason for d in found} <= {Reason.SKIPPED_OP_KIND}
