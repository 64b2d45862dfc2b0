"""Sums of squares around a mean, in the pass over the columns that gives the mean."""

import dataclasses
import functools

import numpy as np
import pytest
from iree.compiler import ir

from helpers import kernel_runner
from helpers.kernel_runner import TARGET, close, draw, needs_triton, planned, run
from helpers.linalg_text import Function
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.reduction.analysis import analyze_ops
from mlirfuse.kernels.reduction.family import REDUCTION
from mlirfuse.kernels.reduction.passes_over_columns import Levels
from mlirfuse.kernels.reduction.problem import ReductionConfig
from mlirfuse.structured.ir import ops

LOOP = {"block_rows": 4, "block_columns": 16, "num_warps": 1}
CONFIGS = {
    "loop": ReductionConfig(64, 16, 32768, **LOOP),
    "split": ReductionConfig(64, 16, 32768, splits=3, **LOOP),
}
SHAPES = [
    ((5, 48), (1,)),
    ((5, 37), (1,)),
    ((3, 7), (1,)),
    ((70, 6), (0,)),
    ((3, 5, 13), (0, 2)),
    ((2, 3, 4, 9), (0, 2, 3)),
    ((9, 16), (0, 1)),
]


@pytest.fixture(params=CONFIGS)
def strategy(monkeypatch, request):
    """Has kernels planned with loops, of one CTA for each row or of several."""
    chosen = functools.partial(REDUCTION.plan, config=CONFIGS[request.param])
    monkeypatch.setitem(kernel_runner.SUPPORTS, "rows", lambda op, target: chosen(op, target))
    return request.param


class Moments:
    """Mean, centered values and the sum of their squares, of one tensor of f32."""

    def __init__(self, f, x, axes, scale=None):
        count = float(np.prod([f.sizes[axis] for axis in axes]))
        total = f.reduce("arith.addf", x, axes)
        self.mean = f.apply("arith.divf", total, count)
        if scale is not None:
            self.mean = f.apply("arith.mulf", total, scale)
        self.centered = f.apply("arith.subf", x, self.mean)
        squares = f.apply("arith.mulf", self.centered, self.centered)
        self.squares = f.reduce("arith.addf", squares, axes)


def variance_text(shape, axes, dtype, correction=1):
    """The variance and the mean, in f32."""
    f = Function("main", shape)
    found = Moments(f, f.cast(f.argument(range(len(shape)), dtype), "f32"), axes)
    count = float(np.prod([shape[axis] for axis in axes]))
    return f.finish(f.apply("arith.divf", found.squares, count - correction), found.mean)


def run_variance(interpreter, array, axes, dtype, correction=1):
    """The variance and the mean that kernels compute; the region has them in the other order."""
    kept = [size for axis, size in enumerate(array.shape) if axis not in axes]
    text = variance_text(array.shape, axes, dtype, correction)
    mean, variance = run(interpreter, text, "rows", [array], [kept, kept])
    return variance, mean


def passes(text):
    """The loops over columns in each kernel, with those over a last, partial tile."""
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        return [step.program.source.count("tl.range(") for step in plan.kernels()]


@needs_triton
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_variance_and_mean(interpreter, strategy, shape, axes, dtype):
    array = draw(shape, dtype, spread=2.0)
    variance, mean = run_variance(interpreter, array, axes, dtype)
    exact = array.astype(np.float64)
    close(mean, exact.mean(axes), "f32")
    close(variance, exact.var(axes, ddof=1), "f32")


def test_one_pass(strategy):
    """A loop over whole tiles and one for the rest, in the kernel of the splits alone."""
    loops = passes(variance_text((5, 37), (1,), "f32"))
    assert loops == ([2, 0] if strategy == "split" else [2])


def two_pass(array, mean):
    """The variance of rows by the unfused program in f32, with a mean that is known."""
    centered = array - mean.astype(np.float32)[:, None]
    return (centered * centered).sum(1, dtype=np.float32) / np.float32(array.shape[1] - 1)


ROWS = {
    "large mean": lambda n: 1e4 + n,
    "small first value": lambda n: np.where(np.arange(n.shape[1]) == 0, 0.0, 1e4 + n),
    "large first value": lambda n: np.where(np.arange(n.shape[1]) == 0, 1e4, n),
    "trend": lambda n: 1e4 + np.linspace(-5.0, 5.0, n.shape[1]) + 0.1 * n,
    "two levels": lambda n: np.where(np.arange(n.shape[1]) < 500, 1e4, -1e4) + n,
    "constant": lambda n: np.full(n.shape, 1e4 + 1 / 3),
}


@needs_triton
@pytest.mark.parametrize("kind", ROWS)
def test_nothing_cancels(interpreter, strategy, kind):
    """As exact as the two passes of the unfused program within a small factor."""
    noise = np.random.default_rng(3).standard_normal((4, 2000))
    array = ROWS[kind](noise).astype(np.float32)
    variance, mean = run_variance(interpreter, array, (1,), "f32")
    exact = array.astype(np.float64).var(1, ddof=1)
    error, unfused = np.abs(variance - exact), np.abs(two_pass(array, mean) - exact)
    assert (error <= 4 * unfused + 2e-6 * exact).all(), (error, unfused, exact)


INF, NAN = np.inf, np.nan
PLACES = [
    ({0: INF}, (INF, NAN)),
    ({36: INF}, (INF, NAN)),
    ({20: -INF}, (-INF, NAN)),
    ({3: INF, 30: INF}, (INF, NAN)),
    ({3: INF, 30: -INF}, (NAN, NAN)),
    ({0: NAN}, (NAN, NAN)),
    ({33: NAN}, (NAN, NAN)),
    # Sums that overflow: the mean is infinite, and so is the difference from it.
    ({5: 3e38, 25: 3e38}, (INF, INF)),
    (dict.fromkeys(range(37), 1e38), (INF, INF)),
    # Squares that overflow.
    ({17: 1e25}, (1e25 / 37, INF)),
    ({0: -1e25}, (-1e25 / 37, INF)),
]


@needs_triton
def test_infinities_and_nan_as_in_the_unfused_program(interpreter, strategy):
    array = draw((len(PLACES), 37), "f32")
    for row, (values, _) in enumerate(PLACES):
        for column, value in values.items():
            array[row, column] = value
    variance, mean = run_variance(interpreter, array, (1,), "f32")
    with np.errstate(all="ignore"):
        unfused = two_pass(array, array.sum(1) / np.float32(37))
    assert np.array_equal(unfused, [e[1] for _, e in PLACES], equal_nan=True)
    np.testing.assert_allclose(variance, [e[1] for _, e in PLACES])
    np.testing.assert_allclose(mean, [e[0] for _, e in PLACES], rtol=1e-5)


@needs_triton
@pytest.mark.parametrize("correction", [0, 1])
def test_rows_of_one_value(interpreter, strategy, correction):
    array = draw((6, 1), "f32") + np.float32(100)
    variance, mean = run_variance(interpreter, array, (1,), "f32", correction)
    assert np.array_equal(mean, array[:, 0].astype(np.float64))
    assert np.array_equal(variance, np.full(6, NAN if correction else 0.0), equal_nan=True)


@needs_triton
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_further_levels(interpreter, strategy, dtype):
    """The squares of the first level are known to the kernels of the next ones."""
    shape, axes = (6, 44), (1,)
    f = Function("main", shape)
    found = Moments(f, f.cast(f.argument((0, 1), dtype), "f32"), axes)
    y = f.apply("arith.divf", found.centered, f.apply("arith.addf", found.squares, 1.0))
    y = f.apply("arith.mulf", y, f.reduce("arith.maximumf", y, axes, -INF))
    text = f.finish(f.apply("arith.divf", y, f.reduce("arith.addf", f.apply("math.absf", y), axes)))
    assert passes(text) == ([2, 2, 2, 2] if strategy == "split" else [8])
    array = draw(shape, dtype, spread=3.0)
    (result,) = run(interpreter, text, "rows", [array], [shape])
    y = array.astype(np.float64)
    y -= y.mean(1, keepdims=True)
    y /= (y * y).sum(1, keepdims=True) + 1
    y *= y.max(1, keepdims=True)
    close(result, y / np.abs(y).sum(1, keepdims=True), "f32")


@needs_triton
def test_values_computed_before(interpreter, strategy):
    """The values are a sum of two tensors, one of which all columns share, and a product."""
    shape, axes = (5, 7, 8), (1,)
    f = Function("main", shape)
    a, b, c = f.argument((0, 1, 2), "f16"), f.argument((0, 2), "f32"), f.argument((1,), "f32")
    x = f.apply("arith.mulf", f.apply("arith.addf", f.cast(a, "f32"), b), c)
    found = Moments(f, x, axes)
    y = f.apply("arith.mulf", found.centered, f.apply("math.rsqrt", found.squares))
    text = f.finish(y)
    assert passes(text) == ([1, 1] if strategy == "split" else [2])
    arrays = [draw(shape, "f16"), draw((5, 8), "f32", 1) + 10, draw((7,), "f32", 2)]
    (result,) = run(interpreter, text, "rows", arrays, [shape])
    a, b, c = (array.astype(np.float64) for array in arrays)
    exact = (a + b[:, None]) * c[:, None]
    exact -= exact.mean(1, keepdims=True)
    close(result, exact / np.sqrt((exact * exact).sum(1, keepdims=True)), "f32")


def in_one_body(difference, combine="arith.addf"):
    """The sum of the values %h and that of %p, which `difference` computes from them and a mean."""
    return f"""
#full = affine_map<(d0, d1) -> (d0, d1)>
#rows = affine_map<(d0, d1) -> (d0)>
func.func @main(%x: tensor<5x37xf16>, %y: tensor<5xf32>) -> tensor<5xf32> {{
  %zero = arith.constant 0.0 : f32
  %count = arith.constant 37.0 : f32
  %two = arith.constant 2.0 : f32
  %negative = arith.constant -37.0 : f32
  %e = tensor.empty() : tensor<5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5xf32>) -> tensor<5xf32>
  %s = linalg.generic {{indexing_maps = [#full, #rows, #rows],
      iterator_types = ["parallel", "reduction"]}}
      ins(%x, %y : tensor<5x37xf16>, tensor<5xf32>) outs(%f : tensor<5xf32>) {{
  ^bb0(%a: f16, %b: f32, %o: f32):
    %w = arith.extf %a : f16 to f32
    %h = {combine} %w, %b : f32
    %r = arith.addf %h, %o : f32
    linalg.yield %r : f32
  }} -> tensor<5xf32>
  %q = linalg.generic {{indexing_maps = [#full, #rows, #rows, #rows],
      iterator_types = ["parallel", "reduction"]}}
      ins(%x, %y, %s : tensor<5x37xf16>, tensor<5xf32>, tensor<5xf32>) outs(%f : tensor<5xf32>) {{
  ^bb0(%a: f16, %b: f32, %c: f32, %o: f32):
    %w = arith.extf %a : f16 to f32
    %h = {combine} %w, %b : f32
    %m = arith.divf %c, %count : f32
    {difference}
    %r = arith.addf %p, %o : f32
    linalg.yield %r : f32
  }} -> tensor<5xf32>
  return %q : tensor<5xf32>
}}"""


@needs_triton
@pytest.mark.parametrize(
    ("difference", "factor", "fused"),
    [
        ("%d = arith.subf %h, %m : f32\n    %p = arith.mulf %d, %d : f32", (1, 1), True),
        ("%d = arith.subf %h, %m : f32\n    %p = math.powf %d, %two : f32", (1, 1), True),
        # The sum with a scale that is not positive: differences from it may be infinite, not NaN.
        (
            "%n = arith.divf %c, %negative : f32\n    %d = arith.subf %h, %n : f32\n"
            "    %p = arith.mulf %d, %d : f32",
            (1, -1),
            False,
        ),
        # The mean of other values: those of half the size.
        (
            "%g = arith.mulf %h, %two : f32\n    %d = arith.subf %g, %m : f32\n"
            "    %p = arith.mulf %d, %d : f32",
            (2, 1),
            False,
        ),
    ],
)
def test_one_body(interpreter, strategy, difference, factor, fused):
    text = in_one_body(difference)
    two = [2, 2, 0] if strategy == "split" else [4]
    one = [2, 0] if strategy == "split" else [2]
    assert passes(text) == (one if fused else two)
    arrays = [draw((5, 37), "f16"), draw((5,), "f32", 1) + np.float32(3)]
    (result,) = run(interpreter, text, "rows", arrays, [(5,)])
    exact = arrays[0].astype(np.float64) + arrays[1][:, None]
    away = exact * factor[0] - exact.mean(1, keepdims=True) * factor[1]
    close(result, (away * away).sum(1), "f32")


@needs_triton
def test_operands_of_rows_are_read_once(strategy):
    """Before the loops, and before the first values of each row: the sum reads them, too."""
    text = in_one_body("%d = arith.subf %h, %m : f32\n    %p = arith.mulf %d, %d : f32")
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        source = next(iter(plan.kernels())).program.source
    assert source.count("tl.load(x0 + row,") == 1


@needs_triton
def test_two_differences_in_one_body(interpreter, strategy):
    """The values are differences themselves: which of the two is squared is not read."""
    difference = "%d = arith.subf %h, %m : f32\n    %p = arith.mulf %d, %d : f32"
    text = in_one_body(difference, "arith.subf")
    assert passes(text) == ([2, 2, 0] if strategy == "split" else [4])
    arrays = [draw((5, 37), "f16"), draw((5,), "f32", 1) + np.float32(3)]
    (result,) = run(interpreter, text, "rows", arrays, [(5,)])
    close(result, arrays[0].astype(np.float64).var(1) * 37, "f32")


@needs_triton
@pytest.mark.parametrize("scale", [0.02, 1 / 36])
def test_another_center(interpreter, strategy, scale):
    """The sum has any positive scale: the squares are around that number, not around the mean."""
    shape = (5, 37)
    f = Function("main", shape)
    found = Moments(f, f.argument((0, 1), "f32"), (1,), scale)
    text = f.finish(found.squares)
    assert passes(text) == ([2, 0] if strategy == "split" else [2])
    array = draw(shape, "f32") + np.float32(5)
    (result,) = run(interpreter, text, "rows", [array], [(5,)])
    exact = array.astype(np.float64)
    close(result, ((exact - exact.sum(1, keepdims=True) * scale) ** 2).sum(1), "f32")


@needs_triton
def test_a_mean_that_is_broadcast(interpreter, strategy):
    """Each frontend writes the broadcast of the mean out or leaves it to an indexing map."""
    shape = (5, 37)
    f = Function("main", shape)
    x = f.argument((0, 1), "f32")
    mean = f.apply("arith.divf", f.reduce("arith.addf", x, (1,)), 37.0)
    centered = f.apply("arith.subf", x, f.apply("copy", mean, axes=(0, 1)))
    text = f.finish(f.reduce("arith.addf", f.apply("arith.mulf", centered, centered), (1,)))
    assert passes(text) == ([2, 0] if strategy == "split" else [2])
    array = draw(shape, "f32") + np.float32(5)
    (result,) = run(interpreter, text, "rows", [array], [(5,)])
    close(result, array.astype(np.float64).var(1) * 37, "f32")


@needs_triton
def test_values_that_all_rows_share(interpreter, strategy):
    f = Function("main", (5, 37))
    x = f.apply("copy", f.argument((1,), "f32"), axes=(0, 1))
    text = f.finish(Moments(f, x, (1,)).squares)
    assert passes(text) == ([2, 0] if strategy == "split" else [2])
    array = draw((37,), "f32") + np.float32(5)
    (result,) = run(interpreter, text, "rows", [array], [(5,)])
    close(result, np.full(5, array.astype(np.float64).var() * 37), "f32")


@needs_triton
def test_values_of_other_columns(interpreter, strategy):
    """The sum is of x[column], the squares are of x[row] less the mean: not the same values."""
    f = Function("main", (7, 7))
    x = f.argument((1,), "f32")
    total = f.reduce("arith.addf", f.apply("copy", x, axes=(0, 1)), (1,))
    mean = f.apply("arith.divf", total, 7.0)
    of_rows = dataclasses.replace(x, axes=(0,))
    centered = f.apply("arith.subf", of_rows, mean, axes=(0, 1))
    text = f.finish(f.reduce("arith.addf", f.apply("arith.mulf", centered, centered), (1,)))
    assert passes(text) == ([1, 1, 0] if strategy == "split" else [2])
    array = draw((7,), "f32")
    (result,) = run(interpreter, text, "rows", [array], [(7,)])
    exact = array.astype(np.float64)
    close(result, 7 * (exact - exact.mean()) ** 2, "f32")


@needs_triton
@pytest.mark.parametrize("wide", ["differences", "squares", "sums"])
def test_16_bits_are_rounded(interpreter, strategy, wide):
    """Differences, squares or sums of 16 bits are rounded as in the program, in another pass."""
    shape = (5, 37)
    f = Function("main", shape)
    x = f.argument((0, 1), "f16")
    y = f.apply("arith.subf", x, f.apply("arith.divf", f.reduce("arith.addf", x, (1,)), 37.0))
    y = f.cast(y, "f32") if wide == "differences" else y
    y = f.apply("arith.mulf", y, y)
    y = f.cast(y, "f32") if wide == "squares" else y
    text = f.finish(f.reduce("arith.addf", y, (1,)))
    assert passes(text) == ([2, 2, 0] if strategy == "split" else [4])


@needs_triton
def test_the_largest_square(interpreter, strategy):
    shape = (5, 37)
    f = Function("main", shape)
    mean = Moments(f, f.argument((0, 1), "f32"), (1,))
    squares = f.apply("arith.mulf", mean.centered, mean.centered)
    text = f.finish(f.reduce("arith.maximumf", squares, (1,)))
    array = draw(shape, "f32") + np.float32(5)
    (result,) = run(interpreter, text, "rows", [array], [(5,)])
    exact = array.astype(np.float64)
    close(result, ((exact - exact.mean(1, keepdims=True)) ** 2).max(1), "f32")
    assert passes(text) == ([2, 2, 0] if strategy == "split" else [4])


def test_a_mean_that_is_known():
    """Another region has computed it: nothing is saved, and two passes are as exact."""
    f = Function("main", (5, 37))
    text = f.finish(Moments(f, f.argument((0, 1), "f32"), (1,)).squares)
    with ir.Context():
        module = ir.Module.parse(text)
        found = [op for op in ops.nested_ops(module.operation) if op.name == "linalg.generic"]
        together, apart = (
            analyze_ops(group, [found[-1].results[0]]) for group in (found, found[1:])
        )
        assert [len(Levels(each).centered) for each in (together, apart)] == [1, 0]


@needs_triton
@pytest.mark.parametrize("shape", [(None, 300000), (1 << 26, 37), (3, 1 << 31), (4096, 4096)])
def test_object_code(shape):
    """Kernels of dynamic rows, of splits and of indices of 64 bits compile."""
    axes = (1,) if shape != (4096, 4096) else (0, 1)
    f = Function("main", shape)
    text = f.finish(Moments(f, f.argument((0, 1), "f32"), axes).squares)
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        for step in plan.kernels():
            assert triton_compiler.build(step.program, TARGET.arch).code
