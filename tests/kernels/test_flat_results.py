"""Results with columns in flat tiles, behind the reductions of rows without whole sectors."""

import functools

import numpy as np
import pytest
from iree.compiler import ir

from helpers import kernel_runner
from helpers.kernel_runner import TARGET, close, draw, needs_triton, planned, run
from helpers.linalg_text import Function
from mlirfuse.kernels.reduction import heuristics
from mlirfuse.kernels.reduction.family import REDUCTION
from mlirfuse.kernels.reduction.problem import ReductionConfig

SPLIT = ReductionConfig(64, 16, 32768, block_rows=4, block_columns=16, num_warps=1, splits=3)
FLAT = ["reduction_kernel", "reduction_kernel", "elementwise_kernel"]


@pytest.fixture(autouse=True)
def split(monkeypatch):
    """Has three CTAs share the columns of each row."""
    chosen = functools.partial(REDUCTION.plan, config=SPLIT)
    monkeypatch.setitem(kernel_runner.SUPPORTS, "rows", lambda op, target: chosen(op, target))


def entries(text):
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        return [step.program.entry for step in plan.kernels()]


def softmax(shape, axis, dtype):
    f = Function("main", shape)
    x = f.cast(f.argument(range(len(shape)), dtype), "f32")
    highest = f.reduce("arith.maximumf", x, [axis], init=-np.inf)
    power = f.apply("math.exp", f.apply("arith.subf", x, highest))
    total = f.reduce("arith.addf", power, [axis])
    return f.finish(f.cast(f.apply("arith.divf", power, total), dtype))


def exact_softmax(x, axis):
    power = np.exp(x.astype(np.float64) - x.astype(np.float64).max(axis, keepdims=True))
    return power / power.sum(axis, keepdims=True)


@needs_triton
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((6, 91), 1), ((3, 70, 5), 1), ((70, 11), 0), ((2, 50, 3, 7), 1)]
)
def test_softmax(interpreter, shape, axis, dtype):
    text = softmax(shape, axis, dtype)
    assert entries(text) == FLAT
    x = draw(shape, dtype, spread=4.0)
    (found,) = run(interpreter, text, "rows", [x], [shape])
    close(found, exact_softmax(x, axis), dtype)


@needs_triton
@pytest.mark.parametrize(("shape", "axis"), [((6, 96), 1), ((3, 70, 16), 1), ((70, 32), 0)])
def test_whole_vectors_and_sectors_stay_in_tiles_of_rows(shape, axis):
    assert entries(softmax(shape, axis, "f32")) == FLAT[:2]


@needs_triton
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_a_norm_over_two_axes_with_weights_and_two_results(interpreter, dtype):
    shape = (7, 3, 45)
    f = Function("main", shape)
    x = f.cast(f.argument((0, 1, 2), dtype), "f32")
    weight = f.cast(f.argument((1,), dtype), "f32")
    mean = f.apply("arith.divf", f.reduce("arith.addf", x, (0, 2)), 315.0)
    centered = f.apply("arith.subf", x, mean)
    squares = f.reduce("arith.addf", f.apply("arith.mulf", centered, centered), (0, 2))
    scale = f.apply("math.rsqrt", f.apply("arith.addf", squares, 1.0))
    y = f.apply("arith.mulf", f.apply("arith.mulf", centered, scale), weight)
    text = f.finish(f.cast(centered, dtype), f.cast(y, dtype))
    assert entries(text) == FLAT
    x, weight = draw(shape, dtype, spread=2.0), draw((3,), dtype, 1)
    found, normed = run(interpreter, text, "rows", [x, weight], [shape, shape])
    exact = x.astype(np.float64)
    exact -= exact.mean((0, 2), keepdims=True)
    close(found, exact, dtype)
    exact /= np.sqrt((exact * exact).sum((0, 2), keepdims=True) + 1)
    close(normed, exact * weight.astype(np.float64)[:, None], dtype)


@needs_triton
def test_a_number_of_each_row_among_the_results_keeps_tiles_of_rows(interpreter):
    shape = (6, 91)
    f = Function("main", shape)
    x = f.argument((0, 1), "f32")
    total = f.reduce("arith.addf", x, [1])
    text = f.finish(total, f.apply("arith.subf", x, total))
    assert entries(text) == FLAT[:2]
    x = draw(shape, "f32")
    sums, differences = run(interpreter, text, "rows", [x], [shape[:1], shape])
    close(sums, x.astype(np.float64).sum(1), "f32")
    close(differences, x - x.astype(np.float64).sum(1, keepdims=True), "f32")


@needs_triton
def test_loops_read_channels_of_odd_images(monkeypatch):
    """A row of several runs without vectors is not held in registers where it is long."""
    monkeypatch.setitem(kernel_runner.SUPPORTS, "rows", REDUCTION.plan)

    def problem(shape):
        f = Function("main", shape)
        x = f.argument((0, 1, 2), "f16")
        wide = f.cast(x, "f32")
        mean = f.apply("arith.mulf", f.reduce("arith.addf", wide, (0, 2)), 0.001)
        with ir.Context():
            text = f.finish(f.cast(f.apply("arith.subf", wide, mean), "f16"))
            _, (plan,) = planned(text, "rows")
            return plan.problem

    odd, even = problem((256, 512, 49)), problem((256, 512, 48))
    assert odd.scattered
    assert not even.scattered
    assert heuristics.choose_config(odd, TARGET).block_columns > 1
    assert not heuristics.choose_config(even, TARGET).block_columns
    assert not heuristics.choose_config(problem((64, 512, 49)), TARGET).block_columns
