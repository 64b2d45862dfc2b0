"""Sums of exponentials in the pass over the columns that gives the maximum."""

import functools

import numpy as np
import pytest
from iree.compiler import ir

from helpers import kernel_runner
from helpers.kernel_runner import TARGET, close, draw, needs_triton, planned, run
from helpers.linalg_text import Function
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.reduction.family import REDUCTION
from mlirfuse.kernels.reduction.problem import ReductionConfig

LOOP = {"block_rows": 4, "block_columns": 16, "num_warps": 1}
CONFIGS = {
    "loop": ReductionConfig(64, 16, 32768, **LOOP),
    "split": ReductionConfig(64, 16, 32768, splits=3, **LOOP),
    "five": ReductionConfig(64, 16, 32768, splits=5, **LOOP),
}
SHAPES = [((5, 48), 1), ((5, 37), 1), ((3, 7), 1), ((70, 6), 0), ((3, 85, 4), 1)]


@pytest.fixture(params=CONFIGS)
def strategy(monkeypatch, request):
    """Has kernels planned with loops, of one CTA for each row or of several."""
    chosen = functools.partial(REDUCTION.plan, config=CONFIGS[request.param])
    monkeypatch.setitem(kernel_runner.SUPPORTS, "rows", lambda op, target: chosen(op, target))
    return request.param


def sums(f, x, axis, *, guarded=False):
    """The maximum along an axis and the sum of exponentials around it, or around 0 for infinity."""
    highest = f.reduce("arith.maximumf", x, [axis], init=-np.inf)
    center = highest
    if guarded:
        # 0 where the maximum is infinite.
        finite = f.apply("arith.minimumf", f.apply("arith.maximumf", highest, -1e30), 1e30)
        center = f.apply("arith.mulf", finite, 1.0)
    total = f.reduce("arith.addf", f.apply("math.exp", f.apply("arith.subf", x, center)), [axis])
    return center, total


def text_of(shape, axis, dtype, *, whole=False, guarded=False):
    """The logarithm of the sum of exponentials in f32, or the softmax."""
    f = Function("main", shape)
    x = f.cast(f.argument(range(len(shape)), dtype), "f32")
    center, total = sums(f, x, axis, guarded=guarded)
    if not whole:
        return f.finish(f.apply("arith.addf", center, f.apply("math.log", total)))
    power = f.apply("math.exp", f.apply("arith.subf", x, center))
    return f.finish(f.cast(f.apply("arith.divf", power, total), dtype))


def exact(array, axis, *, whole=False):
    array = array.astype(np.float64)
    with np.errstate(all="ignore"):
        highest = array.max(axis, keepdims=True)
        powers = np.exp(array - highest)
        total = powers.sum(axis, keepdims=True)
        return powers / total if whole else (highest + np.log(total)).squeeze(axis)


def kept(shape, axis):
    return [size for number, size in enumerate(shape) if number != axis]


def loops(text):
    """The loops over columns in each kernel, with those over a last, partial tile."""
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        return [step.program.source.count("tl.range(") for step in plan.kernels()]


@needs_triton
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_logarithm_of_the_sum(interpreter, strategy, shape, axis, dtype):
    array = draw(shape, dtype, spread=5.0)
    text = text_of(shape, axis, dtype)
    (found,) = run(interpreter, text, "rows", [array], [kept(shape, axis)])
    close(found, exact(array, axis), "f32")


@needs_triton
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_softmax(interpreter, strategy, shape, axis, dtype):
    array = draw(shape, dtype, spread=5.0)
    text = text_of(shape, axis, dtype, whole=True)
    (found,) = run(interpreter, text, "rows", [array], [shape])
    close(found, exact(array, axis, whole=True), dtype)


def test_one_pass(strategy):
    """A loop over whole tiles and one for the rest; the softmax has two more for its results."""
    one = [2] if strategy == "loop" else [2, 0]
    assert loops(text_of((5, 40), 1, "f32")) == one
    two = [4] if strategy == "loop" else [2, 2]
    assert loops(text_of((5, 40), 1, "f32", whole=True)) == two


INF = np.inf
ROWS = {
    "numbers": [],
    "large": [1e38, -1e38, 3.4e38],
    "-infinity": [-INF, -INF],
    "infinity": [INF],
    "infinities": [INF, INF],
    "both": [INF, -INF],
    "NaN": [np.nan],
}


@needs_triton
@pytest.mark.parametrize("kind", [*ROWS, "-infinity alone"])
@pytest.mark.parametrize("place", [0, 16, 30])
def test_infinities_and_nan_as_in_the_unfused_program(interpreter, strategy, kind, place):
    array = draw((3, 37), "f32")
    values = ROWS.get(kind, [-INF] * 37)
    start = place if len(values) < 37 else 0
    array[1, start : start + len(values)] = values
    text = text_of((3, 37), 1, "f32")
    (found,) = run(interpreter, text, "rows", [array], [[3]])
    close(found, exact(array, 1), "f32")


@needs_triton
@pytest.mark.parametrize("values", [[INF], [INF, INF], [INF, -INF]])
def test_infinities_around_a_number(interpreter, strategy, values):
    """As PyTorch's logsumexp writes it: the sum is infinite, and no NaN."""
    array = draw((3, 37), "f32")
    array[1, : len(values)] = values
    text = text_of((3, 37), 1, "f32", guarded=True)
    assert loops(text)[0] == 2
    (found,) = run(interpreter, text, "rows", [array], [[3]])
    assert found[1] == INF
    close(found[::2], exact(array[::2], 1), "f32")


@needs_triton
def test_nothing_finite_around_a_number(interpreter, strategy):
    array = draw((3, 37), "f32")
    array[1] = -INF
    (found,) = run(interpreter, text_of((3, 37), 1, "f32", guarded=True), "rows", [array], [[3]])
    assert found[1] == -INF


@needs_triton
@pytest.mark.parametrize("shape", [(None, 300000), (3, 1 << 31), (4096, 128256)])
def test_object_code(shape):
    """Kernels of dynamic rows, of splits and of indices of 64 bits compile."""
    with ir.Context():
        _, (plan,) = planned(text_of(shape, 1, "f32", whole=True), "rows")
        for step in plan.kernels():
            assert triton_compiler.build(step.program, TARGET.arch).code
