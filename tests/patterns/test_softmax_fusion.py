"""Decisions of `softmax_fusion` beyond its lit file."""

import pytest
from iree.compiler import ir

from helpers.attention_text import Graph, K, M
from helpers.linalg_text import Function, Tensor
from mlirfuse import targets
from mlirfuse.core import Reason
from mlirfuse.options import FusionOptions
from mlirfuse.patterns.softmax_fusion import tiles_of
from mlirfuse.pipelines import engine

BYTES = 4
SIZES = targets.parse("cpu:x86-64-v4").cpu_tiles
ROWS = SIZES.softmax_rows


@pytest.mark.parametrize("columns", [16, 100, 128, 197, 512, 1000, 1024, 2048, 4096, 8191, 50257])
def test_tiles_keep_rows_that_fit(columns):
    tiles = tiles_of(columns, SIZES)
    assert tiles.lanes == (columns % SIZES.softmax_lanes == 0)
    assert tiles.rows_per_workgroup % tiles.rows == 0
    assert tiles.rows <= tiles.rows_per_workgroup <= SIZES.max_softmax_workgroup_rows
    if tiles.keeps_power:
        assert tiles.rows * columns * BYTES <= SIZES.softmax_stack_bytes
        assert tiles.rows > 1
    else:
        assert 2 * columns * BYTES > SIZES.softmax_stack_bytes


def test_tiles_of_long_rows_take_few_rows_before_they_compute_again():
    rows = {n: tiles_of(n, SIZES) for n in (512, 1024, 2048, 4096)}
    assert [rows[n].rows for n in (512, 1024, 2048)] == [ROWS, ROWS // 2, ROWS // 4]
    assert not rows[4096].keeps_power
    assert rows[4096].rows == ROWS


def quotient(f: Function, x: Tensor, axis: int) -> Tensor:
    highest = f.reduce("arith.maximumf", x, (axis,), float("-inf"))
    power = f.apply("math.exp", f.apply("arith.subf", x, highest))
    return f.apply("arith.divf", power, f.reduce("arith.addf", power, (axis,)))


def decisions(text: str, target: str = "cpu", **switches):
    with ir.Context() as context:
        module = ir.Module.parse(text, context)
        options = FusionOptions(pipeline="softmax_fusion", **switches)
        _, report = engine.run(module, target=targets.parse(target), options=options)
    return report.decisions


def test_a_cast_of_a_refused_softmax_says_it_once():
    f = Function("f", (32, 64))
    x = f.argument((0, 1), "f32")
    (only,) = decisions(f.finish(f.cast(quotient(f, x, 0), "f16")))
    assert only.reason is Reason.WRONG_AXIS
    assert only.op_names == ("linalg.generic",)


def test_a_cast_of_a_softmax_is_one_match():
    f = Function("f", (32, 64))
    x = f.argument((0, 1), "f32")
    (only,) = decisions(f.finish(f.cast(quotient(f, x, 1), "f16")))
    assert only.taken
    assert len(only.op_names) == 6


def test_exact_numerics_leave_it_alone():
    f = Function("f", (32, 64))
    (only,) = decisions(f.finish(quotient(f, f.argument((0, 1), "f32"), 1)), numerics="exact")
    assert only.reason is Reason.NUMERICS_LIMIT


@pytest.mark.parametrize("addends", [14, 15])
def test_operands_count_for_both_of_their_shapes(addends):
    f = Function("f", (32, 64))
    total = f.argument((0, 1), "f32")
    for _ in range(addends):
        total = f.apply("arith.addf", total, f.argument((0, 1), "f32"))
    (only,) = decisions(f.finish(quotient(f, total, 1)))
    assert only.reason is (None if addends == 14 else Reason.TOO_MANY_OPERANDS)


def softmax_op(target: str, **switches):
    text = """
    func.func @f(%x: tensor<32x64xf32>) -> tensor<32x64xf32> {
      %e = tensor.empty() : tensor<32x64xf32>
      %y = linalg.softmax dimension(1) ins(%x : tensor<32x64xf32>)
        outs(%e : tensor<32x64xf32>) -> tensor<32x64xf32>
      return %y : tensor<32x64xf32>
    }"""
    (only,) = decisions(text, target, **switches)
    return only


def test_a_lone_op_is_rewritten_for_a_cpu_alone():
    assert softmax_op("cpu").taken
    assert softmax_op("cuda").reason is Reason.SINGLE_OP
    assert softmax_op("cuda", single_op_groups=True).taken


@pytest.mark.parametrize(("target", "guarded"), [("cpu", False), ("cuda", False), ("rocm", True)])
def test_a_maximum_that_skips_nans_is_guarded(target, guarded):
    f = Graph("f", (1, 1, 1, 32, 1, 1, 64))
    x = f.argument((M, K), "f32")
    with ir.Context() as context:
        module = ir.Module.parse(f.finish(f.safe(x, f.softmax(x))), context)
        options = FusionOptions(pipeline="softmax_fusion")
        fused, _ = engine.run(module, target=targets.parse(target), options=options)
        text = str(fused)
    assert "arith.ori" not in text
    assert ("arith.cmpf uno" in text) == guarded


@pytest.mark.parametrize("narrow", ["f16", "bf16"])
def test_a_contraction_writes_narrow_elements_that_the_softmax_widens(narrow):
    f = Function("f", (32, 64, 48))
    a, b = f.argument((0, 2), narrow), f.argument((2, 1), narrow)
    product = f.cast(f.contract(a, b, (0, 1), "f32"), narrow)
    (only,) = decisions(f.finish(quotient(f, f.cast(product, "f32"), 1)))
    assert only.taken
    assert len(only.op_names) == 6


def test_other_epilogues_of_a_contraction_are_its_own():
    f = Function("f", (32, 64, 48))
    product = f.contract(f.argument((0, 2), "f32"), f.argument((2, 1), "f32"), (0, 1))
    (only,) = decisions(f.finish(quotient(f, f.apply("math.tanh", product), 1)))
    assert only.taken
    assert len(only.op_names) == 5
