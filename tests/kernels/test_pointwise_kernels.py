"""Kernels of elementwise groups against float64, run by Triton's interpreter on the CPU."""

import math

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import TARGET, close, draw, needs_triton, planned, run
from helpers.linalg_text import Function
from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.pointwise import heuristics
from mlirfuse.kernels.pointwise.family import POINTWISE
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.structured.ir import ops

erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu_text(sizes, dtype, bias=None):
    """gelu(x + bias) + residual, and x + bias as a second result."""
    f = Function("main", sizes)
    axes = range(len(sizes))
    x, b, r = f.argument(axes, dtype), f.argument(bias or axes[-1:], dtype), f.argument(axes, dtype)
    total = f.apply("arith.addf", x, b)
    part = f.apply("math.erf", f.apply("arith.mulf", total, math.sqrt(0.5)))
    active = f.apply("arith.mulf", total, f.apply("arith.addf", part, 1.0))
    return f.finish(f.apply("arith.addf", f.apply("arith.mulf", active, 0.5), r), total)


@needs_triton
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(
    ("shape", "bias"),
    [
        ((3, 5, 17), (2,)),
        ((9, 128), (1,)),
        ((1, 1), (1,)),
        ((3, 1031), (1,)),
        ((37, 40), (0,)),
        ((3, 7, 64), (0, 1)),
        ((4, 3, 16), (1,)),
        ((2, 2053), (0, 1)),
    ],
)
def test_gelu_of_a_sum(interpreter, shape, bias, dtype):
    arrays = [draw(shape, dtype, 1), draw([shape[a] for a in bias], dtype, 2)]
    arrays.append(draw(shape, dtype, 3))
    found = run(interpreter, gelu_text(shape, dtype, bias), "elementwise", arrays, [shape, shape])
    x, b, r = (a.astype(np.float64) for a in arrays)
    total = x + b.reshape([n if a in bias else 1 for a, n in enumerate(shape)])
    expected = total * (erf(total * math.sqrt(0.5)) + 1.0) * 0.5 + r
    for result in (expected, total):
        # Which result comes first is the group's choice.
        number = int(np.argmin([np.abs(f - result).max() for f in found]))
        close(found.pop(number), result, dtype)


@needs_triton
@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize(
    ("rest", "dynamic"), [((40,), 1), ((), 1), ((3, 17), 1), ((3, 17), 2), ((7, 2, 8), 2)]
)
def test_dynamic_rows(interpreter, count, rest, dynamic):
    shape = (count, *rest)
    arrays = [draw(shape, "f16", 1), draw(rest[-1:] or shape, "f16", 2), draw(shape, "f16", 3)]
    text = gelu_text((*[None] * dynamic, *shape[dynamic:]), "f16")
    found = run(interpreter, text, "elementwise", arrays, [shape] * 2)
    total = arrays[0].astype(np.float64) + arrays[1]
    expected = total * (erf(total * math.sqrt(0.5)) + 1.0) * 0.5 + arrays[2]
    number = int(np.argmin([np.abs(f - expected).max() for f in found]))
    close(found[number], expected, "f16")


@needs_triton
@pytest.mark.parametrize("shape", [(1, 3, 24), (5, 3, 24), (7, 2, 3, 8)])
def test_dynamic_sizes_that_are_first_where_they_are_read(interpreter, shape):
    """Slices of a packed projection: [?, 3, n] is written as [3, ?, n], as for static sizes."""
    inner = len(shape) - 2
    f = Function("main", (None,) * inner + shape[inner:])
    x = f.argument(range(len(shape)), "f16")
    axes = (inner, *range(inner), inner + 1)
    text = f.finish(f.apply("arith.mulf", x, 2.0, axes=axes))
    array = draw(shape, "f16")
    moved = array.transpose(axes)
    (found,) = run(interpreter, text, "elementwise", [array], [moved.shape])
    close(found, 2.0 * moved.astype(np.float64), "f16")
    problem = plan_of(text).problem
    assert (problem.trait, problem.result_bits, problem.several_results) == ("permuted", 16, False)


EQUAL = """
#id = affine_map<(m, n) -> (m, n)>
func.func @main(%x: tensor<MxNxT>, %highest: tensor<MxT>) -> tensor<MxNxi32> {
  %e = tensor.empty() : tensor<MxNxi32>
  %r = linalg.generic {indexing_maps = [#id, affine_map<(m, n) -> (m)>, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %highest : tensor<MxNxT>, tensor<MxT>) outs(%e : tensor<MxNxi32>) {
  ^bb0(%a: T, %b: T, %o: i32):
    %y = arith.mulf %a, %a : T
    %c = arith.cmpf oeq, %y, %b : T
    %i = arith.extui %c : i1 to i32
    linalg.yield %i : i32
  } -> tensor<MxNxi32>
  return %r : tensor<MxNxi32>
}
"""


@needs_triton
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_computed_numbers_equal_their_copies_in_memory(interpreter, dtype):
    x = draw((5, 130), dtype, 1)
    x[:, 7] = 8.0625  # Triton's interpreter truncates to bf16: the square is rounded down
    squares = (x.astype(np.float32) ** 2).astype(x.dtype)
    highest = squares.max(1)
    text = EQUAL.replace("T>", f"{dtype}>").replace(": T", f": {dtype}")
    text = text.replace("MxN", "5x130").replace("tensor<Mx", "tensor<5x")
    (found,) = run(interpreter, text, "elementwise", [x, highest], [(5, 130)])
    np.testing.assert_array_equal(found, squares == highest[:, None])


@needs_triton
def test_infinities(interpreter):
    x = draw((5, 33), "f32")
    x[0, 3], x[1, 5], x[2, :] = np.inf, -np.inf, np.nan
    bias, residual = np.zeros(33, np.float32), draw((5, 33), "f32", 3)
    found = run(
        interpreter, gelu_text(x.shape, "f32"), "elementwise", [x, bias, residual], [x.shape] * 2
    )
    with np.errstate(invalid="ignore"):
        expected = x * (erf(x * math.sqrt(0.5)) + 1.0) * 0.5 + residual
    gelu = next(f for f in found if f[0, 0] != x[0, 0])
    assert gelu[0, 3] == np.inf
    close(np.where(np.isinf(gelu), 0, gelu), np.where(np.isinf(expected), 0, expected), "f32")


@needs_triton
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(
    ("sizes", "axes"),
    [
        ((33, 65), (1, 0)),
        ((3, 40, 17), (0, 2, 1)),
        ((2, 16, 5, 7), (0, 2, 3, 1)),
        ((16, 3, 20), (2, 0, 1)),
        # Few columns, a power of two and not: a tile has all of them.
        ((2, 33, 3), (0, 2, 1)),
        ((2, 3, 5, 2, 7, 2), (0, 1, 3, 5, 2, 4)),
        # Rows of the operand that are apart in the result.
        ((2, 20, 3, 17), (2, 3, 1, 0)),
        ((2, 3, 9, 2, 2, 16), (0, 5, 1, 3, 2, 4)),
        # Few rows whose columns have divided indices.
        ((2, 3, 2, 9, 17), (0, 3, 1, 4, 2)),
    ],
)
def test_transposed_operand(interpreter, sizes, axes, dtype):
    f = Function("main", sizes)
    x, y = f.argument(axes, dtype), f.argument(range(len(sizes)), dtype)
    # Of another order than the operands, so that the result keeps that of `y`.
    scaled = f.apply("arith.mulf", y, 2.0)
    text = f.finish(f.apply("arith.addf", scaled, x, axes=range(len(sizes))))
    arrays = [draw([sizes[a] for a in axes], dtype, 1), draw(sizes, dtype, 2)]
    (found,) = run(interpreter, text, "elementwise", arrays, [sizes])
    turned = arrays[0].astype(np.float64).transpose([axes.index(n) for n in range(len(axes))])
    close(found, 2.0 * arrays[1].astype(np.float64) + turned, dtype)


def region_text(arguments, result, body, maps=""):
    """A function of one group, written out."""
    return f"""
{maps}
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#last = affine_map<(r, c) -> (c)>
func.func @main({arguments}) -> {result} {{
  %one = arith.constant 1 : index
  %y = flow.dispatch.region -> ({result}) {{
    %e = tensor.empty() : {result}
{body}
    flow.return %out : {result}
  }}
  return %y : {result}
}}
"""


PARALLEL = 'iterator_types = ["parallel", "parallel"]'


@needs_triton
@pytest.mark.parametrize(("rows", "columns"), [(5, 40), (3, 17), (1, 1)])
def test_halves(interpreter, rows, columns):
    whole, half = f"tensor<{rows}x{2 * columns}xf16>", f"tensor<{rows}x{columns}xf16>"
    body = f"""
    %a = tensor.extract_slice %x[0, 0] [{rows}, {columns}] [1, 1] : {whole} to {half}
    %b = tensor.extract_slice %x[0, {columns}] [{rows}, {columns}] [1, 1] : {whole} to {half}
    %out = linalg.generic {{indexing_maps = [#id, #id, #id], {PARALLEL}}}
        ins(%a, %b : {half}, {half}) outs(%e : {half}) {{
    ^bb0(%i: f16, %j: f16, %o: f16):
      %t = math.tanh %i : f16
      %n = arith.mulf %t, %j : f16
      linalg.yield %n : f16
    }} -> {half}"""
    x = draw((rows, 2 * columns), "f16")
    (found,) = run(
        interpreter, region_text(f"%x: {whole}", half, body), "elementwise", [x], [(rows, columns)]
    )
    gate, up = np.split(x.astype(np.float64), 2, axis=1)
    close(found, np.tanh(gate) * up, "f16")


@needs_triton
@pytest.mark.parametrize(("heads", "tokens", "half"), [(3, 5, 8), (1, 1, 1), (2, 33, 3)])
def test_rotation(interpreter, heads, tokens, half):
    """The swapped half is a gather whose indices are computed from the loops alone."""
    full, angles = f"tensor<{heads}x{tokens}x2x{half}xf16>", f"tensor<{tokens}x2x{half}xf16>"
    loops = 'iterator_types = ["parallel", "parallel", "parallel", "parallel"]'
    maps = (
        "#f = affine_map<(h, s, p, d) -> (h, s, p, d)>\n#g = affine_map<(h, s, p, d) -> (s, p, d)>"
    )
    body = f"""
    %s = linalg.generic {{indexing_maps = [#f], {loops}}} outs(%e : {full}) {{
    ^bb0(%o: f16):
      %i0 = linalg.index 0 : index
      %i1 = linalg.index 1 : index
      %i2 = linalg.index 2 : index
      %i3 = linalg.index 3 : index
      %other = arith.subi %one, %i2 : index
      %v = tensor.extract %x[%i0, %i1, %other, %i3] : {full}
      %n = arith.negf %v : f16
      %is = arith.cmpi eq, %other, %one : index
      %r = arith.select %is, %n, %v : f16
      linalg.yield %r : f16
    }} -> {full}
    %out = linalg.generic {{indexing_maps = [#f, #g, #f, #g, #f], {loops}}}
        ins(%x, %c, %s, %t : {full}, {angles}, {full}, {angles}) outs(%e : {full}) {{
    ^bb0(%i: f16, %j: f16, %k: f16, %l: f16, %o: f16):
      %a = arith.mulf %i, %j : f16
      %b = arith.mulf %k, %l : f16
      %r = arith.addf %a, %b : f16
      linalg.yield %r : f16
    }} -> {full}"""
    text = region_text(f"%x: {full}, %c: {angles}, %t: {angles}", full, body, maps)
    shape = (heads, tokens, 2, half)
    arrays = [draw(shape, "f16", 1), draw(shape[1:], "f16", 2), draw(shape[1:], "f16", 3)]
    (found,) = run(interpreter, text, "elementwise", arrays, [shape])
    x, cosine, sine = (a.astype(np.float64) for a in arrays)
    swapped = np.stack([-x[:, :, 1], x[:, :, 0]], axis=2)
    close(found, x * cosine + swapped * sine, "f16")


@needs_triton
@pytest.mark.parametrize("kind", ["i64", "i32"])
@pytest.mark.parametrize(("tokens", "columns"), [(7, 40), (1, 1), (5, 2053)])
def test_embedding(interpreter, tokens, columns, kind):
    """Rows of a table at the indices in a tensor, and an add of a bias."""
    out = f"tensor<{tokens}x{columns}xf16>"
    body = f"""
    %g = linalg.generic {{indexing_maps = [#row, #id], {PARALLEL}}}
        ins(%ids : tensor<{tokens}x{kind}>) outs(%e : {out}) {{
    ^bb0(%i: {kind}, %o: f16):
      %row = arith.index_cast %i : {kind} to index
      %d = linalg.index 1 : index
      %v = tensor.extract %table[%row, %d] : tensor<11x{columns}xf16>
      linalg.yield %v : f16
    }} -> {out}
    %out = linalg.generic {{indexing_maps = [#id, #last, #id], {PARALLEL}}}
        ins(%g, %bias : {out}, tensor<{columns}xf16>) outs(%e : {out}) {{
    ^bb0(%i: f16, %j: f16, %o: f16):
      %n = arith.addf %i, %j : f16
      linalg.yield %n : f16
    }} -> {out}"""
    arguments = f"%ids: tensor<{tokens}x{kind}>, %table: tensor<11x{columns}xf16>"
    text = region_text(f"{arguments}, %bias: tensor<{columns}xf16>", out, body)
    ids = (
        np.random.default_rng(0)
        .integers(0, 11, tokens)
        .astype({"i64": np.int64, "i32": np.int32}[kind])
    )
    table, bias = draw((11, columns), "f16", 1), draw((columns,), "f16", 2)
    (found,) = run(interpreter, text, "elementwise", [ids, table, bias], [(tokens, columns)])
    close(found, table.astype(np.float64)[ids] + bias, "f16")


@needs_triton
def test_quantization(interpreter):
    f = Function("main", (5, 130))
    x, scale = f.argument((0, 1), "f32"), f.argument((1,), "f32")
    rounded = f.apply("math.roundeven", f.apply("arith.mulf", x, scale))
    low = f.apply("arith.minimumf", f.apply("arith.maximumf", rounded, -128.0), 127.0)
    text = f.finish(f.cast(low, "i8", "arith.fptosi"))
    arrays = [draw((5, 130), "f32", 1), draw((130,), "f32", 2) * 99]
    (found,) = run(interpreter, text, "elementwise", arrays, [(5, 130)])
    exact = arrays[0].astype(np.float64) * arrays[1]
    assert np.abs(found - np.clip(np.round(exact), -128, 127)).max() <= 1
    assert {-128, 127} <= {*found.ravel()}


def plan_of(text):
    with ir.Context():
        _, (plan,) = planned(text, "elementwise")
        return plan


def scaled_text(sizes, axes, name):
    """x f(s), the scales along some of the axes."""
    f = Function("main", sizes)
    x, s = f.argument(range(len(sizes)), "f16"), f.argument(axes, "f16")
    return f.finish(f.apply("arith.mulf", x, f.apply(name, s)))


@pytest.mark.parametrize(
    ("name", "row"), [("math.exp", True), ("math.rsqrt", True), ("arith.negf", False)]
)
def test_functions_of_scales_are_computed_once_for_the_rows_of_a_tile(name, row):
    source = plan_of(scaled_text((4096, 96), (1,), name)).program.source
    assert ("tl.load(x0 + column)" in source) == ("row =" in source) == row
    assert ("tl.load(x0 + (column % 96))" in source) != row


def test_a_bias_has_vectors_in_flat_tiles():
    program = plan_of(gelu_text((4096, 4096), "f16")).program
    assert "tl.load(x1 + (column % 4096))" in program.source
    assert program.num_warps * 32 * heuristics.FUNCTION_ELEMENTS == 1024
    code = triton_compiler.build(program, "sm_90").code.decode()
    assert code.count("ld.global.v4.b32") == 6
    assert "ld.global.b16" not in code


def test_gathers_along_rows_have_flat_tiles():
    """In tiles of rows and columns Triton gives the lanes of a warp to the rows."""
    out = "tensor<512x32xf16>"
    body = f"""
    %out = linalg.generic {{indexing_maps = [#last, #id], {PARALLEL}}}
        ins(%ids : tensor<32xi64>) outs(%e : {out}) {{
    ^bb0(%i: i64, %o: f16):
      %row = linalg.index 0 : index
      %column = arith.index_cast %i : i64 to index
      %v = tensor.extract %x[%row, %column] : tensor<512x64xf16>
      linalg.yield %v : f16
    }} -> {out}"""
    text = region_text("%ids: tensor<32xi64>, %x: tensor<512x64xf16>", out, body)
    source = plan_of(text).program.source
    assert "(column // 32)" in source
    assert "row =" not in source


@needs_triton
def test_halves_of_a_row_are_vectors():
    whole, half = "tensor<64x2048xf16>", "tensor<64x1024xf16>"
    cut = f"[64, 1024] [1, 1] : {whole} to {half}"
    body = f"""
    %a = tensor.extract_slice %x[0, 0] {cut}
    %b = tensor.extract_slice %x[0, 1024] {cut}
    %out = linalg.generic {{indexing_maps = [#id, #id, #id], {PARALLEL}}}
        ins(%a, %b : {half}, {half}) outs(%e : {half}) {{
    ^bb0(%i: f16, %j: f16, %o: f16):
      %n = arith.mulf %i, %j : f16
      linalg.yield %n : f16
    }} -> {half}"""
    program = plan_of(region_text(f"%x: {whole}", half, body)).program
    code = triton_compiler.build(program, "sm_90").code.decode()
    assert code.count("ld.global.b32") == 2 * code.count("st.global.b32") > 0
    assert "ld.global.b16" not in code


def test_views_of_one_tensor_are_one_operand():
    text = """
#id = affine_map<(a, b) -> (a, b)>
func.func @main(%x: tensor<40xf16>) -> tensor<5x8xf16> {
  %a = tensor.expand_shape %x [[0, 1]] output_shape [5, 8] : tensor<40xf16> into tensor<5x8xf16>
  %b = tensor.expand_shape %x [[0, 1]] output_shape [5, 8] : tensor<40xf16> into tensor<5x8xf16>
  %y = flow.dispatch.region -> (tensor<5x8xf16>) {
    %e = tensor.empty() : tensor<5x8xf16>
    %z = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
        ins(%a, %b : tensor<5x8xf16>, tensor<5x8xf16>) outs(%e : tensor<5x8xf16>) {
    ^bb0(%i: f16, %j: f16, %o: f16):
      %n = arith.mulf %i, %j : f16
      linalg.yield %n : f16
    } -> tensor<5x8xf16>
    flow.return %z : tensor<5x8xf16>
  }
  return %y : tensor<5x8xf16>
}
"""
    with ir.Context():
        _, (plan,) = planned(text, "elementwise")
        assert len(plan.operands) == 1


def test_offsets_of_dynamic_rows_are_wide():
    assert "tl.program_id(0).to(tl.int64)" in plan_of(gelu_text((None, 8), "f16")).program.source


@pytest.mark.parametrize(
    ("axes", "rows", "kind"),
    [((1, 0), 64, "transpose"), ((0, 1), 64, "pointwise"), ((1, 0), 6, "pointwise")],
)
def test_tiles_of_a_transposition_have_their_own_kind(axes, rows, kind):
    """A transposition of few elements has none."""
    f = Function("main", (rows, 40))
    x, y = f.argument(axes, "f16"), f.argument((0, 1), "f16")
    plan = plan_of(f.finish(f.apply("arith.addf", f.apply("arith.mulf", y, 2.0), x, axes=(0, 1))))
    assert plan.problem.family == kind


@needs_triton
@pytest.mark.parametrize("sizes", [(20, 3), (3, 20), (2, 2), (1031, 3), (3, 1031)])
def test_narrow_transpositions(interpreter, sizes):
    f = Function("main", sizes)
    x, y = f.argument((1, 0), "f16"), f.argument((0, 1), "f16")
    text = f.finish(f.apply("arith.addf", f.apply("arith.mulf", y, 2.0), x, axes=(0, 1)))
    arrays = [draw(sizes[::-1], "f16", 1), draw(sizes, "f16", 2)]
    (found,) = run(interpreter, text, "elementwise", arrays, [sizes])
    close(found, arrays[0].astype(np.float64).T + 2.0 * arrays[1], "f16")


def transposed_text(sizes, axes):
    f = Function("main", sizes)
    x, y = f.argument(axes, "f16"), f.argument(range(len(sizes)), "f16")
    scaled = f.apply("arith.mulf", y, 2.0)
    return f.finish(f.apply("arith.addf", scaled, x, axes=range(len(sizes))))


@pytest.mark.parametrize(
    ("sizes", "axes", "rows", "columns"),
    [
        # The columns of a tile are all that there are, and its rows those of all images.
        ((64, 4000, 3), (0, 2, 1), 256, 4),
        ((8, 9, 66, 2, 66, 2), (0, 1, 3, 5, 2, 4), 512, 2),
        # Two rows next to each other in the operand are not enough: those of the next axis, too.
        ((2, 128, 22720), (2, 1, 0), 64, 64),
        ((64, 32, 32, 2, 2, 32), (0, 5, 1, 3, 2, 4), 64, 32),
        # The operand has few rows, and the columns are divided.
        ((8, 9, 2, 2, 66, 66), (0, 1, 4, 2, 5, 3), 1, 1024),
        # A flat tile has all rows, or not.
        ((248, 12, 64), (0, 2, 1), 1, 1024),
        ((8, 8, 4096), (0, 2, 1), 8, 128),
        # The operand has few elements of those of the result, or of one row.
        ((64, 4000, 3, 2), (3, 2), 1, 1024),
        ((4000, 3), (0, 1), 1, 512),
    ],
)
def test_tiles_of_transposed_operands(sizes, axes, rows, columns):
    source = plan_of(transposed_text(sizes, axes)).program.source
    assert f'"""Tiles of {rows} by {columns}."""' in source


@pytest.mark.parametrize(
    ("sizes", "axes", "dimensions"),
    [((5000,), (0,), 1), ((512, 4096), (1,), 1), ((512, 96), (1,), 2)],
)
def test_a_tile_of_one_row_has_one_dimension(sizes, axes, dimensions):
    source = plan_of(scaled_text(sizes, axes, "math.exp")).program.source
    assert ("[None, :]" in source) == (dimensions == 2)


def test_a_tile_has_two_dimensions_where_a_result_has_rows_alone(interpreter):
    sizes, out, of_rows = (8, 1024), "tensor<8x1024xf16>", "tensor<8xf16>"
    text = f"""
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#r = affine_map<(r) -> (r)>
func.func @main(%x: {of_rows}, %y: {out}) -> ({out}, {of_rows}) {{
  %z:2 = flow.dispatch.region -> ({out}, {of_rows}) {{
    %e = tensor.empty() : {of_rows}
    %n = linalg.generic {{indexing_maps = [#r, #r], iterator_types = ["parallel"]}}
        ins(%x : {of_rows}) outs(%e : {of_rows}) {{
    ^bb0(%i: f16, %o: f16):
      %two = arith.constant 2.0 : f16
      %d = arith.mulf %i, %two : f16
      linalg.yield %d : f16
    }} -> {of_rows}
    %f = tensor.empty() : {out}
    %s = linalg.generic {{indexing_maps = [#row, #id, #id], {PARALLEL}}}
        ins(%n, %y : {of_rows}, {out}) outs(%f : {out}) {{
    ^bb0(%i: f16, %j: f16, %o: f16):
      %d = arith.addf %i, %j : f16
      linalg.yield %d : f16
    }} -> {out}
    flow.return %s, %n : {out}, {of_rows}
  }}
  return %z#0, %z#1 : {out}, {of_rows}
}}
"""
    arrays = [draw((8,), "f16", 1), draw(sizes, "f16", 2)]
    whole, rows = run(interpreter, text, "elementwise", arrays, [sizes, (8,)])
    close(rows, 2.0 * arrays[0].astype(np.float64), "f16")
    close(whole, 2.0 * arrays[0].astype(np.float64)[:, None] + arrays[1], "f16")


@pytest.mark.parametrize(("columns", "together"), [(1 << 22, True), (1 << 12, False)])
def test_rows_that_share_a_large_operand_are_next_to_each_other(columns, together):
    """L2 has nothing left of it when the next row of all columns reads it."""
    f = Function("main", (6, columns))
    x, y = f.argument((1,), "f16"), f.argument((0, 1), "f16")
    source = plan_of(f.finish(f.apply("arith.mulf", x, y))).program.source
    assert ("row = pid % 6" in source) == together
    assert ("row =" in source) == together


def test_no_kernel_where_a_dynamic_dimension_is_inside():
    for sizes in ((3, None, 8), (None, 3, None), (8, None)):
        plan = plan_of(gelu_text(sizes, "f16"))
        assert isinstance(plan, NoMatch)
        assert plan.reason is Reason.STRUCTURE


@needs_triton
@pytest.mark.parametrize("arch", ["sm_80", "gfx942"])
def test_object_code(arch):
    with ir.Context():
        _, (plan,) = planned(gelu_text((None, 40), "f16"), "elementwise")
        kernel = triton_compiler.build(plan.program, arch)
    assert kernel.workgroup_size == (
        plan.program.num_warps * triton_compiler.ARCHITECTURES[arch].subgroup,
        1,
        1,
    )
    if arch == "gfx942":
        assert kernel.code.startswith(b"\x7fELF")
        assert kernel.code.count(b"global_buffer") == 5
    else:
        assert f".target {arch}" in kernel.code.decode()


PLAIN = "tensor<4x8xf16>"


def absolute(name, source, result=PLAIN):
    return f"""
    {name} = linalg.generic {{indexing_maps = [#id, #id], {PARALLEL}}}
        ins({source} : {result}) outs(%e : {result}) {{
    ^bb0(%i: f16, %o: f16):
      %n = math.absf %i : f16
      linalg.yield %n : f16
    }} -> {result}"""


@pytest.mark.parametrize(
    ("body", "result", "detail"),
    [
        (
            absolute("%out", "%z", "tensor<0x8xf16>"),
            "tensor<0x8xf16>",
            "an empty tensor<0x8xf16>",
        ),
        (
            absolute("%t", "%x")
            + f"\n%out = tensor.insert_slice %t into %x[0, 0] [4, 8] [1, 1] : {PLAIN} into {PLAIN}",
            PLAIN,
            "the kernel has no insertion into other memory",
        ),
        # A loop of JAX that has taken a scalar out of a tensor.
        (
            absolute("%out", "%x").replace("yield %n", "yield %s"),
            PLAIN,
            "a scalar from outside its op",
        ),
    ],
)
def test_no_kernel(body, result, detail):
    arguments = f"%x: {PLAIN}, %z: tensor<0x8xf16>, %ids: tensor<4xi32>, %s: f16"
    with ir.Context():
        module = ir.Module.parse(region_text(arguments, result, body))
        (function,) = ops.functions(module)
        regions = [o.operation for b in ops.blocks(function) for o in b.operations]
        region = next(r for r in regions if r.name == ops.REGION)
        plan = POINTWISE.plan(region, TARGET)
    assert isinstance(plan, NoMatch)
    assert detail in plan.detail


def test_no_kernel_where_nothing_is_elementwise():
    f = Function("main", (4, 8))
    text = f.finish(f.reduce("arith.addf", f.argument((0, 1), "f32"), (1,)))
    assert plan_of(text) is None


DEAD = """
#id = affine_map<(d0) -> (d0)>
func.func @f(%x: tensor<64xf32>) -> tensor<64xf32> {
  flow.dispatch.region {
    %e = tensor.empty() : tensor<64xf32>
    %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
        ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%i: f32, %o: f32):
      %a = math.exp %i : f32
      linalg.yield %a : f32
    } -> tensor<64xf32>
    flow.return
  }
  return %x : tensor<64xf32>
}
"""


def test_a_region_without_results_is_left_alone():
    options = FusionOptions(enable_feature=("kernels",))
    with ir.Context():
        module = ir.Module.parse(DEAD)
        _, report = engine.run(module, target=TARGET, options=options)
    assert not any("kernel" in name for name in report.counts())


def odd_text(sizes, dtype):
    f = Function("main", sizes)
    axes = range(len(sizes))
    return f.finish(f.apply("arith.mulf", f.argument(axes, dtype), f.argument(axes, dtype)))


@needs_triton
@pytest.mark.parametrize("sizes", [(4099,), (3, 1367), (None,), (None, 3)])
def test_the_last_tile_of_an_odd_size_is_masked_alone(interpreter, sizes):
    shape = tuple(1367 if size is None else size for size in sizes)
    arrays = [draw(shape, "f16", 1), draw(shape, "f16", 2)]
    text = odd_text(sizes, "f16")
    (found,) = run(interpreter, text, "elementwise", arrays, [shape])
    close(found, arrays[0].astype(np.float64) * arrays[1], "f16")


@needs_triton
@pytest.mark.parametrize("sizes", [((1 << 22) + 1,), (2049, 2049)])
def test_accesses_of_an_odd_size_are_vectorized(sizes):
    text = triton_compiler.build(plan_of(odd_text(sizes, "f16")).program, "sm_90").code.decode()
    assert text.count("ld.global.v4.b32") == text.count("st.global.v4.b32") * 2 > 0
