"""Kernels of reductions over any dimensions: lanes along rows, loops over columns, splits."""

import functools

import numpy as np
import pytest
from iree.compiler import ir

from helpers import kernel_runner
from helpers.kernel_runner import close, draw, needs_triton, planned, run
from helpers.linalg_text import Function
from mlirfuse.kernels.reduction.family import REDUCTION
from mlirfuse.kernels.reduction.problem import ReductionConfig

LOOP = {"block_rows": 4, "block_columns": 16, "num_warps": 1}
CONFIGS = {
    "default": None,
    "loop": ReductionConfig(64, 16, 32768, **LOOP),
    "split": ReductionConfig(64, 16, 32768, splits=3, **LOOP),
    "unrolled": ReductionConfig(8, 1, 32768, block_rows=8, block_columns=1, num_warps=1),
}


@pytest.fixture(params=CONFIGS)
def strategy(monkeypatch, request):
    """Has kernels planned with each strategy."""
    config = CONFIGS[request.param]
    if config is not None:
        chosen = functools.partial(REDUCTION.plan, config=config)
        monkeypatch.setitem(kernel_runner.SUPPORTS, "rows", lambda op, target: chosen(op, target))
    return request.param


def softmax(f, x, axis):
    wide = f.cast(x, "f32")
    powers = f.apply(
        "math.exp",
        f.apply("arith.subf", wide, f.reduce("arith.maximumf", wide, axis, float("-inf"))),
    )
    y = f.apply("arith.divf", powers, f.reduce("arith.addf", powers, axis))
    return f.cast(y, x.dtype)


AXES = [
    ((3, 6, 7, 7), (1,)),
    ((5, 37, 9), (1,)),
    ((5, 37, 9), (0, 2)),
    ((70, 6), (0,)),
    ((3, 50), (0, 1)),
    ((4, 45), (1,)),
]


@needs_triton
@pytest.mark.parametrize(("shape", "axes"), AXES)
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_sum_and_mean(interpreter, strategy, shape, axes, dtype):
    f = Function("main", shape)
    x = f.argument(range(len(shape)), dtype)
    total = f.reduce("arith.addf", f.cast(x, "f32"), axes)
    text = f.finish(f.cast(f.apply("arith.mulf", total, 0.25), dtype))
    array = draw(shape, dtype)
    kept = [size for axis, size in enumerate(shape) if axis not in axes]
    (found,) = run(interpreter, text, "rows", [array], [kept])
    close(found, array.astype(np.float64).sum(axes) * 0.25, dtype)


@needs_triton
@pytest.mark.parametrize("axes", [(3, 2, 0), (3, 1), (2, 1)])
def test_one_dimension_after_the_other(interpreter, strategy, axes):
    """`nested_reduction_rewrite` makes one reduction of such a chain; it takes its producer."""
    shape = (3, 4, 5, 6)
    f = Function("main", shape)
    x = f.argument(range(4), "f32")
    y = f.apply("arith.mulf", x, x)
    for axis in axes:
        y = f.reduce("arith.minimumf", y, (axis,), float("inf"))
    array = draw(shape, "f32")
    array[1, 2, 3, 4], array[2, 3, 4, 5] = np.nan, np.inf
    kept = [size for axis, size in enumerate(shape) if axis not in axes]
    (found,) = run(interpreter, f.finish(y), "rows", [array], [kept])
    np.testing.assert_array_equal(found, np.square(array).min(axes))


@needs_triton
@pytest.mark.parametrize(("shape", "axes"), AXES)
def test_softmax(interpreter, strategy, shape, axes):
    f = Function("main", shape)
    text = f.finish(softmax(f, f.argument(range(len(shape)), "f16"), axes))
    array = draw(shape, "f16", spread=3.0)
    array[0, 0] = np.nan
    (found,) = run(interpreter, text, "rows", [array], [shape])
    exact = array.astype(np.float64)
    powers = np.exp(exact - exact.max(axes, keepdims=True))
    close(found, powers / powers.sum(axes, keepdims=True), "f16")


@needs_triton
@pytest.mark.parametrize(("shape", "axes"), AXES)
def test_two_results_of_a_norm(interpreter, strategy, shape, axes):
    """The mean is a result next to the centered values, which are scaled by row and by column."""
    f = Function("main", shape)
    x = f.argument(range(len(shape)), "f32")
    kept = tuple(axis for axis in range(len(shape)) if axis not in axes)
    by_column, by_row = f.argument(axes, "f32"), f.argument(kept, "f32")
    count = np.prod([shape[axis] for axis in axes])
    mean = f.apply("arith.divf", f.reduce("arith.addf", x, axes), float(count))
    centered = f.apply("arith.subf", x, mean)
    squares = f.reduce("arith.addf", f.apply("arith.mulf", centered, centered), axes)
    scaled = f.apply("arith.mulf", centered, f.apply("math.rsqrt", squares))
    y = f.apply("arith.addf", f.apply("arith.mulf", scaled, by_column), by_row)
    text = f.finish(y, mean)
    sizes = [[shape[n] for n in range(len(shape)) if n in given] for given in (axes, kept)]
    arrays = [np.asarray(draw(s, "f32", n)) for n, s in enumerate((shape, *sizes))]
    found = run(interpreter, text, "rows", arrays, [sizes[1], shape])
    a, c, r = (array.astype(np.float64) for array in arrays)
    b = a - a.mean(axes, keepdims=True)
    c = np.expand_dims(c, kept)
    r = np.expand_dims(r, axes)
    close(found[1], b / np.sqrt((b * b).sum(axes, keepdims=True)) * c + r, "f32")
    close(found[0], a.mean(axes), "f32")


FLOAT = [
    ("arith.mulf", 1.0, np.prod),
    ("arith.minimumf", float("inf"), np.min),
    ("arith.maxnumf", float("-inf"), np.fmax.reduce),
    ("arith.addf", 3.0, lambda x, axis: x.sum(axis) + 3.0),
    ("arith.maximumf", 0.5, lambda x, axis: np.maximum(x.max(axis), 0.5)),
]


@needs_triton
@pytest.mark.parametrize(("op", "init", "reference"), FLOAT)
def test_combiners_of_floats(interpreter, strategy, op, init, reference):
    f = Function("main", (7, 45, 5))
    text = f.finish(f.reduce(op, f.argument((0, 1, 2), "f32"), (1,), init))
    # A zero that a mask lets through would be the result, or make it zero.
    array = draw((7, 45, 5), "f32", spread=0.1) + np.float32(-1 if "max" in op else 1)
    array[0, 0, 0] = np.nan
    (found,) = run(interpreter, text, "rows", [array], [(7, 5)])
    close(found, reference(array.astype(np.float64), axis=1), "f32")


@needs_triton
def test_products_of_many_factors_near_one(interpreter, strategy):
    """Factors just below one would all round a product above one down, in f32."""
    f = Function("main", (2, 6000, 3))
    text = f.finish(f.reduce("arith.mulf", f.argument((0, 1, 2), "f32"), (1,), 1.0))
    array = np.float32(1) + draw((2, 6000, 3), "f32") / np.float32(24000)
    array[:, 0] = 1.5
    (found,) = run(interpreter, text, "rows", [array], [(2, 3)])
    close(found, array.astype(np.float64).prod(1), "f32")


def integers(shape, element, op, init, axes):
    """A module with one reduction of integers."""
    n = range(len(shape))
    sizes = "x".join(map(str, shape))
    kept = [axis for axis in n if axis not in axes]
    out = "".join(f"{shape[axis]}x" for axis in kept)
    loops = ", ".join(f"d{axis}" for axis in n)
    kinds = ", ".join('"reduction"' if axis in axes else '"parallel"' for axis in n)
    written = ", ".join(f"d{axis}" for axis in kept)
    return f"""
func.func @main(%x: tensor<{sizes}x{element}>) -> tensor<{out}{element}> {{
  %c = arith.constant {init}{"" if element == "i1" else f" : {element}"}
  %e = tensor.empty() : tensor<{out}{element}>
  %f = linalg.fill ins(%c : {element}) outs(%e : tensor<{out}{element}>) -> tensor<{out}{element}>
  %y = linalg.generic {{
      indexing_maps = [affine_map<({loops}) -> ({loops})>, affine_map<({loops}) -> ({written})>],
      iterator_types = [{kinds}]}}
      ins(%x : tensor<{sizes}x{element}>) outs(%f : tensor<{out}{element}>) {{
  ^bb0(%a: {element}, %o: {element}):
    %r = {op} %a, %o : {element}
    linalg.yield %r : {element}
  }} -> tensor<{out}{element}>
  return %y : tensor<{out}{element}>
}}"""


def unsigned(function):
    return lambda x, axis: function(x.view(f"u{x.dtype}"), axis=axis).view(x.dtype)


INTEGER = [
    ("arith.addi", 0, lambda x, axis: x.sum(axis, dtype=x.dtype)),
    ("arith.muli", 1, lambda x, axis: x.prod(axis, dtype=x.dtype)),
    ("arith.maxsi", -5, lambda x, axis: np.maximum(x.max(axis), -5)),
    ("arith.minsi", 127, lambda x, axis: np.minimum(x.min(axis), 127)),
    ("arith.maxui", 0, unsigned(np.max)),
    ("arith.minui", -1, unsigned(np.min)),
    ("arith.andi", -1, np.bitwise_and.reduce),
    ("arith.ori", 0, np.bitwise_or.reduce),
    ("arith.xori", 0, np.bitwise_xor.reduce),
]


@needs_triton
@pytest.mark.parametrize(("op", "init", "reference"), INTEGER)
@pytest.mark.parametrize("element", ["i8", "i32", "i64"])
def test_combiners_of_integers(interpreter, strategy, op, init, reference, element):
    shape, kind = (3, 40, 5), np.dtype(f"int{element[1:]}")
    drawn = np.random.default_rng(1).integers(-128, 128, shape)
    array = (drawn if element == "i8" else drawn * 977).astype(kind)
    (found,) = run(interpreter, integers(shape, element, op, init, (1,)), "rows", [array], [(3, 5)])
    assert np.array_equal(found, reference(array, axis=1).astype(np.float64))


@needs_triton
@pytest.mark.parametrize(("op", "init"), [("arith.andi", "true"), ("arith.ori", "false")])
def test_booleans(interpreter, strategy, op, init):
    array = np.random.default_rng(7).random((37, 6)) < (0.95 if op == "arith.andi" else 0.02)
    text = integers((37, 6), "i1", op, init, (0,))
    (found,) = run(interpreter, text, "rows", [array.astype(np.int8)], [(6,)])
    reference = array.all(0) if op == "arith.andi" else array.any(0)
    assert np.array_equal(found, reference.astype(np.float64))
    assert 0 < found.sum() < 6


@pytest.mark.parametrize(("rows", "wide"), [(80 << 20, True), (1 << 20, False)])
def test_local_offsets_of_more_than_31_bits(monkeypatch, rows, wide):
    """A tile of 32 columns, each of 40 million rows or more."""
    f = Function("main", (100, rows))
    text = f.finish(f.reduce("arith.maximumf", f.argument((0, 1), "f32"), (0,), float("-inf")))
    config = ReductionConfig(1024, 16, 32768, block_rows=32, block_columns=32, num_warps=2)
    chosen = functools.partial(REDUCTION.plan, config=config)
    monkeypatch.setitem(kernel_runner.SUPPORTS, "rows", lambda op, target: chosen(op, target))
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        source = plan.program.source
    assert ("column_local = tl.arange(0, 32)[None, :].to(tl.int64)" in source) == wide


def test_strided_columns_of_a_loop_have_constant_offsets():
    """The product of what the loop adds is a scalar; only a contiguous dimension needs none."""
    f = Function("main", (16, 4927, 365))
    text = f.finish(f.reduce("arith.maximumf", f.argument((0, 1, 2), "f32"), (1,), float("-inf")))
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        source = plan.kernels()[0].program.source
    assert " + start * (365) + column_local * (365) + " in source
    assert " column * " not in source


@pytest.mark.parametrize(("axes", "wide"), [((1,), True), ((2,), False)])
def test_offsets_of_more_than_31_bits(axes, wide):
    """Columns of outer dimensions have large offsets, innermost ones do not."""
    f = Function("main", (1, 1024, 3 << 20) if wide else (1, 3 << 20, 1024))
    text = f.finish(softmax(f, f.argument((0, 1, 2), "f16"), axes))
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        source = plan.program.source
    assert "row = tl.program_id(0).to(tl.int64)" in source
    assert ("[None, :].to(tl.int64)" in source) == wide


@needs_triton
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", ["f32", "i32"])
def test_first_index(interpreter, strategy, axis, largest, kind):
    """The value and the first index of the largest or smallest element; a NaN comes first."""
    shape = (6, 40, 7)
    kept = tuple(n for n in range(3) if n != axis)
    name, init = ("maximumf", "0xFF800000") if largest else ("minimumf", "0x7F800000")
    out = "x".join(str(shape[n]) for n in kept)
    kinds = ", ".join('"reduction"' if n == axis else '"parallel"' for n in range(3))
    written = ", ".join(f"d{n}" for n in kept)
    full = "affine_map<(d0, d1, d2) -> (d0, d1, d2)>"
    rows = f"affine_map<(d0, d1, d2) -> ({written})>"
    last, first, index = {
        "f32": ("0x7F800000", "minimumf", "arith.sitofp %m : i32 to f32"),
        "i32": ("2147483647", "minsi", "arith.addi %m, %zero : i32"),
    }[kind]
    text = f"""
func.func @main(%x: tensor<6x40x7xf32>) -> (tensor<{out}xf32>, tensor<{out}x{kind}>) {{
  %low = arith.constant {init} : f32
  %inf = arith.constant {last} : {kind}
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<{out}xf32>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<{out}xf32>) -> tensor<{out}xf32>
  %p = tensor.empty() : tensor<{out}x{kind}>
  %g = linalg.fill ins(%inf : {kind}) outs(%p : tensor<{out}x{kind}>) -> tensor<{out}x{kind}>
  %v = linalg.generic {{indexing_maps = [{full}, {rows}], iterator_types = [{kinds}]}}
      ins(%x : tensor<6x40x7xf32>) outs(%f : tensor<{out}xf32>) {{
  ^bb0(%a: f32, %o: f32):
    %r = arith.{name} %a, %o : f32
    linalg.yield %r : f32
  }} -> tensor<{out}xf32>
  %i = linalg.generic {{indexing_maps = [{full}, {rows}, {rows}], iterator_types = [{kinds}]}}
      ins(%x, %v : tensor<6x40x7xf32>, tensor<{out}xf32>) outs(%g : tensor<{out}x{kind}>) {{
  ^bb0(%a: f32, %b: f32, %o: {kind}):
    %n = linalg.index {axis} : index
    %m = arith.index_cast %n : index to i32
    %k = {index}
    %h = arith.cmpf oeq, %a, %b : f32
    %u = arith.cmpf une, %a, %a : f32
    %t = arith.ori %h, %u : i1
    %s = arith.select %t, %k, %inf : {kind}
    %r = arith.{first} %s, %o : {kind}
    linalg.yield %r : {kind}
  }} -> tensor<{out}x{kind}>
  return %v, %i : tensor<{out}xf32>, tensor<{out}x{kind}>
}}"""
    array = np.round(draw(shape, "f32") * 2)
    array[2, 3, 4] = array[4, 30, 1] = np.nan
    sizes = [[shape[n] for n in kept]] * 2
    value, index = run(interpreter, text, "rows", [array], sizes)
    exact = array.astype(np.float64)
    close(value, exact.max(axis) if largest else exact.min(axis), "f32")
    assert np.array_equal(index, exact.argmax(axis) if largest else exact.argmin(axis))
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        assert plan.problem.passes == 1  # over the columns, which the index would wait for


@needs_triton
@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 2), (0, 1)])
def test_columns_in_the_order_of_memory(interpreter, strategy, axes):
    f = Function("main", (3, 8, 21))
    x = f.apply("arith.negf", f.argument((2, 0, 1), "f32"), axes=(0, 1, 2))
    text = f.finish(f.reduce("arith.addf", x, axes))
    array = draw((21, 3, 8), "f32")
    kept = [size for axis, size in enumerate((3, 8, 21)) if axis not in axes]
    (found,) = run(interpreter, text, "rows", [array], [kept])
    close(found, -array.transpose(1, 2, 0).astype(np.float64).sum(axes), "f32")


@needs_triton
def test_all_of_a_permuted_tensor_is_read_in_order():
    f = Function("main", (3, 8, 21))
    x = f.apply("arith.negf", f.argument((2, 0, 1), "f32"), axes=(0, 1, 2))
    text = f.finish(f.reduce("arith.addf", x, (0, 1, 2)))
    with ir.Context():
        _, (plan,) = planned(text, "rows")
    source = plan.program.source
    assert "tl.load" in source
    assert "%" not in source


@needs_triton
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("weights", [(1,), (0, 1, 2)])
def test_weighted_sums(interpreter, dtype, weights):
    """A contraction of which an operand has all loops, with an epilogue."""
    shape = (3, 37, 20)
    f = Function("main", shape)
    x, w = f.argument((0, 1, 2), dtype), f.argument(weights, dtype)
    total = f.contract(x, w, (0, 2), "f32")
    text = f.finish(f.cast(f.apply("arith.maximumf", total, 0.0), dtype))
    given = [shape[axis] for axis in weights]
    arrays = [draw(shape, dtype, 1), draw(given, dtype, 2, 1 / 6)]
    (found,) = run(interpreter, text, "rows", arrays, [(3, 20)])
    letters = "".join("bks"[axis] for axis in weights)
    wide = [array.astype(np.float64) for array in arrays]
    close(found, np.maximum(np.einsum(f"bks,{letters}->bs", *wide), 0.0), dtype)
