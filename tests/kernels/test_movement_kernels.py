"""Kernels of paddings, concatenations, slices and flips, run by Triton's interpreter on the CPU."""

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import TARGET, close, draw, needs_triton, planned, run, to_torch
from mlirfuse.kernels.data_movement.analysis import analyze_chain
from mlirfuse.kernels.data_movement.family import plan_concat
from mlirfuse.structured.ir import ops

HEADER = """
#id = affine_map<(r, c) -> (r, c)>
#turned = affine_map<(r, c) -> (c, r)>
"""


def function(arguments, result, body):
    return (
        f"{HEADER}func.func @main({arguments}) -> {result} {{\n{body}\n  return %y : {result}\n}}\n"
    )


def unary(name, source, kind, op, reads="#id"):
    """A generic that applies an op to the elements of a tensor of type `kind`."""
    return f"""
  %e{name[1:]} = tensor.empty() : {kind}
  {name} = linalg.generic {{indexing_maps = [{reads}, #id],
      iterator_types = ["parallel", "parallel"]}}
      ins({source}) outs(%e{name[1:]} : {kind}) {{
  ^bb0(%i: f16, %o: f16):
    %n = {op} %i : f16
    linalg.yield %n : f16
  }} -> {kind}"""


def tensor(*shape):
    return f"tensor<{'x'.join(map(str, shape))}xf16>"


@needs_triton
@pytest.mark.parametrize("sizes", [(5, 3, 40), (1, 1, 1), (7, 64, 17)])
@pytest.mark.parametrize("axis", [0, 1])
def test_concatenation_of_computed_parts(interpreter, sizes, axis):
    """|cat(sin(x), z[:, 1::2] or z[1::2])| along either axis."""
    rows, a, b = sizes
    first, second = ((rows, a), (rows, b)) if axis else ((a, rows), (b, rows))
    whole = (rows, a + b) if axis else (a + b, rows)
    given = (rows, 2 * b + 1) if axis else (2 * b + 1, rows)
    starts = [
        f"[{0 if axis else 1}, {1 if axis else 0}]",
        f"[{1 if axis else 2}, {2 if axis else 1}]",
    ]
    start = f"[0, {a}]" if axis else f"[{a}, 0]"
    body = (
        unary("%s", f"%x : {tensor(*first)}", tensor(*first), "math.sin")
        + f"""
  %t = tensor.extract_slice %z{starts[0]} [{second[0]}, {second[1]}] {starts[1]}
      : {tensor(*given)} to {tensor(*second)}
  %w = tensor.empty() : {tensor(*whole)}
  %p = tensor.insert_slice %s into %w[0, 0] [{first[0]}, {first[1]}] [1, 1]
      : {tensor(*first)} into {tensor(*whole)}
  %q = tensor.insert_slice %t into %p{start} [{second[0]}, {second[1]}] [1, 1]
      : {tensor(*second)} into {tensor(*whole)}"""
        + unary("%y", f"%q : {tensor(*whole)}", tensor(*whole), "math.absf")
    )
    text = function(f"%x: {tensor(*first)}, %z: {tensor(*given)}", tensor(*whole), body)
    arrays = [draw(first, "f16", 1), draw(given, "f16", 2)]
    (found,) = run(interpreter, text, "elementwise", arrays, [whole])
    taken = arrays[1][:, 1::2] if axis else arrays[1][1::2]
    parts = [np.sin(arrays[0].astype(np.float64)), taken.astype(np.float64)]
    close(found, np.abs(np.concatenate(parts, axis)), "f16")


@needs_triton
@pytest.mark.parametrize(
    ("shape", "low", "high"), [((5, 40), (1, 2), (0, 3)), ((3, 1), (0, 1), (2, 0))]
)
@pytest.mark.parametrize("reads", ["#id", "#turned"])
def test_padding_of_a_computed_tensor(interpreter, shape, low, high, reads):
    """exp(x) or its transpose, with 0.5 around it."""
    given = shape if reads == "#id" else shape[::-1]
    whole = tuple(n + a + b for n, a, b in zip(shape, low, high, strict=True))
    body = (
        unary("%s", f"%x : {tensor(*given)}", tensor(*shape), "math.exp", reads)
        + f"""
  %half = arith.constant 0.5 : f16
  %y = tensor.pad %s low[{low[0]}, {low[1]}] high[{high[0]}, {high[1]}] {{
  ^bb0(%i: index, %j: index):
    tensor.yield %half : f16
  }} : {tensor(*shape)} to {tensor(*whole)}"""
    )
    text = function(f"%x: {tensor(*given)}", tensor(*whole), body)
    x = draw(given, "f16")
    (found,) = run(interpreter, text, "elementwise", [x], [whole])
    inner = np.exp((x if reads == "#id" else x.T).astype(np.float64))
    pads = list(zip(low, high, strict=True))
    close(found, np.pad(inner, pads, constant_values=0.5), "f16")


@needs_triton
@pytest.mark.parametrize("shape", [(5, 40), (3, 1031)])
def test_flip_of_a_concatenation(interpreter, shape):
    """roll(x, 1) as a concatenation of two slices, read backwards."""
    rows, columns = shape
    kind = tensor(*shape)
    body = f"""
  %last = arith.constant {columns - 1} : index
  %a = tensor.extract_slice %x[0, {columns - 1}] [{rows}, 1] [1, 1] : {kind} to {tensor(rows, 1)}
  %b = tensor.extract_slice %x[0, 0] [{rows}, {columns - 1}] [1, 1]
      : {kind} to {tensor(rows, columns - 1)}
  %c = tensor.concat dim(1) %a, %b : ({tensor(rows, 1)}, {tensor(rows, columns - 1)}) -> {kind}
  %e = tensor.empty() : {kind}
  %y = linalg.generic {{indexing_maps = [#id], iterator_types = ["parallel", "parallel"]}}
      outs(%e : {kind}) {{
  ^bb0(%o: f16):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %last, %j : index
    %n = tensor.extract %c[%i, %k] : {kind}
    linalg.yield %n : f16
  }} -> {kind}"""
    region = body.replace("  %a =", f"  %y = flow.dispatch.region -> ({kind}) {{\n  %a =", 1)
    region = region.replace("  %y = linalg", "  %g = linalg") + f"\n  flow.return %g : {kind}\n  }}"
    x = draw(shape, "f16")
    (found,) = run(interpreter, function(f"%x: {kind}", kind, region), "elementwise", [x], [shape])
    close(found, np.roll(x, 1, 1)[:, ::-1].astype(np.float64), "f16")


@needs_triton
def test_a_slice_and_a_gather_of_a_computed_tensor(interpreter):
    kind, part = tensor(6, 40), tensor(4, 7)
    body = (
        f"  %y = flow.dispatch.region -> ({part}) {{"
        + unary("%s", f"%x : {kind}", kind, "math.exp")
        + f"""
  %t = tensor.extract_slice %s[1, 3] [4, 7] [1, 5] : {kind} to {part}
  %e = tensor.empty() : {part}
  %g = linalg.generic {{indexing_maps = [affine_map<(r, c) -> (r)>, #id, #id],
      iterator_types = ["parallel", "parallel"]}}
      ins(%ids, %t : tensor<4xi32>, {part}) outs(%e : {part}) {{
  ^bb0(%i: i32, %v: f16, %o: f16):
    %row = arith.index_cast %i : i32 to index
    %c = linalg.index 1 : index
    %w = tensor.extract %s[%row, %c] : {kind}
    %n = arith.addf %v, %w : f16
    linalg.yield %n : f16
  }} -> {part}
  flow.return %g : {part}
  }}"""
    )
    text = function(f"%x: {kind}, %ids: tensor<4xi32>", part, body)
    x, ids = draw((6, 40), "f16"), np.array([5, 0, 3, 3], np.int32)
    (found,) = run(interpreter, text, "elementwise", [x, ids], [(4, 7)])
    exact = np.exp(x.astype(np.float64))
    close(found, exact[1:5, 3:38:5] + exact[ids, :7], "f16")


@needs_triton
@pytest.mark.parametrize("sizes", [(64, 32, 40), (9, 5, 1), (300, 7, 33)])
def test_gather_of_computed_elements(interpreter, sizes):
    """A sine at the indices that a gather reads."""
    rows, read, columns = sizes
    whole, kind = tensor(rows, columns), tensor(read, columns)
    indices = f"tensor<{read}x{columns}xi64>"
    body = (
        unary("%s", f"%x : {whole}", whole, "math.sin")
        + f"""
  %f = tensor.empty() : {kind}
  %y = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%places : {indices}) outs(%f : {kind}) {{
  ^bb0(%a: i64, %o: f16):
    %r = arith.index_cast %a : i64 to index
    %c = linalg.index 1 : index
    %v = tensor.extract %s[%r, %c] : {whole}
    linalg.yield %v : f16
  }} -> {kind}"""
    )
    text = function(f"%x: {whole}, %places: {indices}", kind, body)
    x, rng = draw((rows, columns), "f16"), np.random.default_rng(1)
    index = rng.integers(0, rows, (read, columns))
    (found,) = run(interpreter, text, "elementwise", [x, index], [(read, columns)])
    expected = np.take_along_axis(np.sin(x.astype(np.float64)), index, 0)
    close(found, expected, "f16")


@needs_triton
@pytest.mark.parametrize("shape", [(70, 9), (5, 300)])
def test_indices_from_outside_of_a_group_are_computed(interpreter, shape):
    """A triangular mask of rows and columns from `arange`, neither of which is loaded."""
    rows, columns = shape
    kind, mask = tensor(*shape), f"tensor<{rows}x{columns}xi1>"
    arange = "\n".join(
        f"""
  %{name}e = tensor.empty() : tensor<{size}xi64>
  %{name} = linalg.generic {{indexing_maps = [affine_map<(r) -> (r)>],
      iterator_types = ["parallel"]}} outs(%{name}e : tensor<{size}xi64>) {{
  ^bb0(%o: i64):
    %n = linalg.index 0 : index
    %r = arith.index_cast %n : index to i64
    linalg.yield %r : i64
  }} -> tensor<{size}xi64>"""
        for name, size in (("row", rows), ("column", columns))
    )
    body = f"""{arange}
  %me = tensor.empty() : {mask}
  %m = linalg.generic {{indexing_maps = [affine_map<(r, c) -> (r)>, affine_map<(r, c) -> (c)>,
      #id], iterator_types = ["parallel", "parallel"]}}
      ins(%row, %column : tensor<{rows}xi64>, tensor<{columns}xi64>) outs(%me : {mask}) {{
  ^bb0(%a: i64, %b: i64, %o: i1):
    %r = arith.cmpi sle, %b, %a : i64
    linalg.yield %r : i1
  }} -> {mask}
  %zero = arith.constant 0.0 : f16
  %ye = tensor.empty() : {kind}
  %y = linalg.generic {{indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%m, %x : {mask}, {kind}) outs(%ye : {kind}) {{
  ^bb0(%a: i1, %b: f16, %o: f16):
    %r = arith.select %a, %b, %zero : f16
    linalg.yield %r : f16
  }} -> {kind}"""
    x = draw(shape, "f16")
    text = function(f"%x: {kind}", kind, body)
    (found,) = run(interpreter, text, "elementwise", [x], [shape])
    assert np.array_equal(found, np.tril(x.astype(np.float64)))


def cut(name, source, given, starts, sizes, steps=(1, 1)):
    """A slice of a matrix."""
    return (
        f"  {name} = tensor.extract_slice {source}[{starts[0]}, {starts[1]}]"
        f" [{sizes[0]}, {sizes[1]}] [{steps[0]}, {steps[1]}]"
        f" : {tensor(*given)} to {tensor(*sizes)}\n"
    )


def put(name, source, sizes, into, whole, starts):
    """An insertion into a matrix."""
    return (
        f"  {name} = tensor.insert_slice {source} into {into}[{starts[0]}, {starts[1]}]"
        f" [{sizes[0]}, {sizes[1]}] [1, 1] : {tensor(*sizes)} into {tensor(*whole)}\n"
    )


def region_of_moves(given, whole, moves, last):
    """A region that returns the last of some moves, whose first reads %x."""
    body = f"""
  %y = flow.dispatch.region -> ({tensor(*whole)}) {{
  %e = tensor.empty() : {tensor(*whole)}
{moves}
  flow.return {last} : {tensor(*whole)}
  }}"""
    return function(f"%x: {tensor(*given)}", tensor(*whole), body)


@needs_triton
@pytest.mark.parametrize("shape", [(6, 40), (7, 1031)])
def test_roll_along_two_axes(interpreter, shape):
    """Two concatenations into one empty tensor."""
    m, n = shape
    moves = (
        cut("%a", "%x", shape, (m - 2, 0), (2, n))
        + cut("%b", "%x", shape, (0, 0), (m - 2, n))
        + put("%c", "%a", (2, n), "%e", shape, (0, 0))
        + put("%d", "%b", (m - 2, n), "%c", shape, (2, 0))
        + cut("%f", "%d", shape, (0, 5), (m, n - 5))
        + cut("%g", "%d", shape, (0, 0), (m, 5))
        + put("%h", "%f", (m, n - 5), "%e", shape, (0, 0))
        + put("%i", "%g", (m, 5), "%h", shape, (0, n - 5))
    )
    x = draw(shape, "f16")
    text = region_of_moves(shape, shape, moves, "%i")
    (found,) = run(interpreter, text, "elementwise", [x], [shape])
    close(found, np.roll(x, (2, -5), (0, 1)).astype(np.float64), "f16")


@needs_triton
def test_concatenation_of_strided_slices(interpreter):
    """The merged patches of a shifted-window transformer, in one dimension."""
    given, part, whole = (12, 40), (6, 40), (6, 80)
    moves = (
        cut("%a", "%x", given, (0, 0), part, (2, 1))
        + cut("%b", "%x", given, (1, 0), part, (2, 1))
        + put("%c", "%a", part, "%e", whole, (0, 0))
        + put("%d", "%b", part, "%c", whole, (0, 40))
    )
    x = draw(given, "f16")
    text = region_of_moves(given, whole, moves, "%d")
    (found,) = run(interpreter, text, "elementwise", [x], [whole])
    close(found, np.concatenate([x[::2], x[1::2]], 1).astype(np.float64), "f16")


SPACES = """
#three = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#outer = affine_map<(d0, d1, d2) -> (d0, d2)>
#swapped = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#id = affine_map<(r, c) -> (r, c)>
"""


def generic(name, source, kind, op, maps):
    """A generic of rank two or three that applies an op, or copies without one."""
    rank = kind.count("x")
    kinds = ", ".join(['"parallel"'] * rank)
    computed = f"%n = {op} %i : f16" if op else ""
    return f"""
  %e{name[1:]} = tensor.empty() : {kind}
  {name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
      ins({source}) outs(%e{name[1:]} : {kind}) {{
  ^bb0(%i: f16, %o: f16):
    {computed}
    linalg.yield {"%n" if op else "%i"} : f16
  }} -> {kind}"""


@needs_triton
@pytest.mark.parametrize("shape", [(7, 3, 17), (64, 2, 9), (5, 4, 64)])
def test_a_repetition_and_a_user_of_its_collapse(interpreter, shape):
    """|repeat_interleave(x)| over the rows, in one kernel."""
    rows, times, columns = shape
    wide, flat = tensor(*shape), tensor(rows * times, columns)
    body = (
        generic("%r", f"%x : {tensor(rows, columns)}", wide, "", "#outer, #three")
        + f"\n  %c = tensor.collapse_shape %r [[0, 1], [2]] : {wide} into {flat}"
        + generic("%y", f"%c : {flat}", flat, "math.absf", "#id, #id")
    )
    text = f"{SPACES}func.func @main(%x: {tensor(rows, columns)}) -> {flat} {{{body}\n"
    x = draw((rows, columns), "f16")
    (found,) = run(
        interpreter,
        text + f"  return %y : {flat}\n}}",
        "elementwise",
        [x],
        [[rows, times, columns]],
    )
    expected = np.abs(x.astype(np.float64)).repeat(times, 0)
    close(found.reshape(rows * times, columns), expected, "f16")


@needs_triton
@pytest.mark.parametrize("shape", [(7, 3, 17), (64, 2, 9), (5, 64, 33)])
def test_a_transpose_of_computed_and_split_dimensions(interpreter, shape):
    """|sin(x)| with two halves of its columns swapped, in one kernel."""
    rows, first, second = shape
    flat = tensor(rows, first * second)
    wide, turned = tensor(*shape), tensor(rows, second, first)
    body = (
        generic("%s", f"%x : {flat}", flat, "math.sin", "#id, #id")
        + f"\n  %v = tensor.expand_shape %s [[0], [1, 2]] output_shape [{rows}, {first}, {second}]"
        + f" : {flat} into {wide}"
        + generic("%y", f"%v : {wide}", turned, "math.absf", "#swapped, #three")
    )
    text = f"{SPACES}func.func @main(%x: {flat}) -> {turned} {{{body}\n  return %y : {turned}\n}}"
    x = draw((rows, first * second), "f16")
    (found,) = run(interpreter, text, "elementwise", [x], [[rows, second, first]])
    expected = np.abs(np.sin(x.astype(np.float64))).reshape(shape).swapaxes(1, 2)
    close(found, expected, "f16")


def padded_text(shape):
    """A padding of the last two of three dimensions, before which sines are taken."""
    rows, height, width = shape
    large = (rows, height + 4, width + 5)
    body = (
        generic("%s", f"%x : {tensor(*shape)}", tensor(*shape), "math.sin", "#three, #three")
        + f"""
  %zero = arith.constant 0.5 : f16
  %y = tensor.pad %s low[0, 2, 1] high[0, 2, 4] {{
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %zero : f16
  }} : {tensor(*shape)} to {tensor(*large)}"""
    )
    head = f"func.func @main(%x: {tensor(*shape)}) -> {tensor(*large)} {{"
    return f"{SPACES}{head}{body}\n  return %y : {tensor(*large)}\n}}", large


@needs_triton
@pytest.mark.parametrize("shape", [(37, 6, 6), (9, 60, 11), (5, 4, 3)])
def test_padding_of_two_inner_dimensions(interpreter, shape):
    text, large = padded_text(shape)
    x = draw(shape, "f16")
    (found,) = run(interpreter, text, "elementwise", [x], [large])
    expected = np.full(large, 0.5)
    expected[:, 2:-2, 1:-4] = np.sin(x.astype(np.float64))
    close(found, expected, "f16")


@needs_triton
@pytest.mark.parametrize(
    ("shape", "tile"), [((4870, 1526, 6), (4, 256)), ((4870, 1524, 7), (1, 1024))]
)
def test_rows_of_a_tile_share_the_divided_indices_of_columns(shape, tile):
    """A padding of every element had four divisions by its two inner sizes."""
    text, _ = padded_text(shape)
    with ir.Context():
        _, (plan,) = planned(text, "elementwise")
        assert f"Tiles of {tile[0]} by {tile[1]}." in plan.program.source
        assert "row //" not in plan.program.source
        assert "row %" not in plan.program.source


@needs_triton
@pytest.mark.parametrize(
    ("parts", "axis", "ctas"),
    [
        (((437, 2), (437, 1)), 1, 3),  # of several rows, the last one partial
        (((9, 3, 4), (9, 2, 4)), 1, 1),
        (((3, 700), (3, 901)), 1, 12),  # of parts of rows
        (((40, 7), (23, 7)), 0, 1),
    ],
)
def test_concatenation_of_tensors_in_memory(interpreter, parts, axis, ctas):
    whole = list(parts[0])
    whole[axis] = sum(part[axis] for part in parts)
    kinds = [tensor(*part) for part in parts]
    text = (
        f"func.func @main(%a: {kinds[0]}, %b: {kinds[1]}) -> {tensor(*whole)} {{\n"
        f"  %c = tensor.concat dim({axis}) %a, %b : ({kinds[0]}, {kinds[1]})"
        f" -> {tensor(*whole)}\n  return %c : {tensor(*whole)}\n}}"
    )
    arrays = [draw(part, "f16", seed) for seed, part in enumerate(parts)]
    with ir.Context():
        module = ir.Module.parse(text)
        (function,) = ops.functions(module)
        op = function.regions[0].blocks[0].operations[0].operation
        plan = plan_concat(analyze_chain([op]), TARGET)
        grid = tuple(extent.count(()) for extent in plan.grid)
    assert grid == (ctas, 1, 1)
    torch = interpreter.torch
    result = torch.full(tuple(whole), float("nan"), dtype=torch.float16)
    loaded = interpreter.load(plan.program.source, plan.program.entry)
    getattr(loaded, plan.program.entry)[grid](*(to_torch(torch, a) for a in arrays), result)
    assert np.array_equal(result.numpy(), np.concatenate(arrays, axis))
