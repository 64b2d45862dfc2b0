"""Kernels of flips, gathered rows and concatenations agree with numpy and IREE bit by bit."""

import numpy as np
import pytest

from helpers.linalg_text import Function
from helpers.scan_text import flip
from helpers.spread import Runs
from helpers.vector_cases import case, draw

PASS, CONCAT = "movement_vector_kernel", "concat_vector_kernel"
TARGETS = ("cpu:host", "cpu:x86-64-v3")
"""This machine, and AVX2: vectors of 32 bytes."""


def flipped(name, shape, axis, dtype="f32"):
    """A copy that is reversed along an axis."""
    kind = f"tensor<{'x'.join(map(str, shape))}x{dtype}>"
    body = flip("%y", "%x", kind, dtype, shape, axis)
    text = f"func.func @{name}(%x: {kind}) -> {kind} {{\n{body}\n  return %y : {kind}\n}}\n"
    inputs = draw(dtype, shape, special=1)
    return case(name, text, inputs, lambda x: (np.flip(x, axis),), {PASS: 1}, 1, dtype)


ROWS = """
func.func @rows_at_indices(%x: tensor<9x21xf32>, %n: tensor<6xi64>) -> tensor<6x21xf32> {
  %e = tensor.empty() : tensor<6x21xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r)>, affine_map<(r, c) -> (r, c)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%n : tensor<6xi64>) outs(%e : tensor<6x21xf32>) {
  ^bb0(%i: i64, %o: f32):
    %r = arith.index_cast %i : i64 to index
    %c = linalg.index 1 : index
    %v = tensor.extract %x[%r, %c] : tensor<9x21xf32>
    linalg.yield %v : f32
  } -> tensor<6x21xf32>
  return %g : tensor<6x21xf32>
}
"""


def rows_at_indices():
    """Rows at computed indices."""
    x = draw("f32", (9, 21), special=1)
    rows = np.array([8, 0, 3, 3, 7, 1])
    inputs = {name: (values, rows) for name, (values,) in x.items()}
    return case("rows_at_indices", ROWS, inputs, lambda x, n: (x[n],), {PASS: 1}, 1)


COLUMN = """\
  %s = tensor.extract_slice %n[0, 2] [6, 1] [1, 1] : tensor<6x4xi64> to tensor<6xi64>
  %size = arith.constant 9 : i64
"""

WITHIN = """\
    %within = arith.cmpi slt, %i, %size : i64
    cf.assert %within, "index must be smaller than dim size"
"""

TABLE = (
    ROWS.replace("@rows_at_indices", "@embedding")
    .replace("%n: tensor<6xi64>", "%n: tensor<6x4xi64>")
    .replace("  %e =", f"{COLUMN}  %e =")
    .replace("ins(%n", "ins(%s")
    .replace("    %r =", f"{WITHIN}    %r =")
)


def embedding():
    """Rows of a table at a column of indices, as importers of PyTorch's write them."""
    x = draw("f32", (9, 21), special=1)
    rows = np.arange(24).reshape(6, 4) * 5 % 9
    inputs = {name: (values, rows) for name, (values,) in x.items()}
    return case("embedding", TABLE, inputs, lambda x, n: (x[n[:, 2]],), {PASS: 1}, 1)


LANES = """
func.func @elements_at_indices(%x: tensor<9x21xf32>, %n: tensor<INDICESxi64>) -> tensor<9x19xf32> {
  %e = tensor.empty() : tensor<9x19xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(r, c) -> MAP>, affine_map<(r, c) -> (r, c)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%n : tensor<INDICESxi64>) outs(%e : tensor<9x19xf32>) {
  ^bb0(%i: i64, %o: f32):
    %k = arith.index_cast %i : i64 to index
    %r = linalg.index 0 : index
    %c = linalg.index 1 : index
    %v = tensor.extract %x[PLACE] : tensor<9x21xf32>
    %d = arith.addf %v, %v : f32
    linalg.yield %d : f32
  } -> tensor<9x19xf32>
  return %g : tensor<9x19xf32>
}
"""


def elements_at_indices(name, index_map, place, reference, dtype="f32"):
    """Elements at an index that each lane computes, of a table of indices of one or two axes."""
    columns, whole = np.arange(19) * 8 % 21, np.arange(171).reshape(9, 19) * 5 % 9
    table = columns if index_map == "(c)" else whole
    text = (
        LANES.replace("INDICES", "x".join(map(str, table.shape)))
        .replace("MAP", index_map)
        .replace("PLACE", place)
        .replace("elements_at_indices", name)
        .replace("f32", dtype)
    )
    x = draw(dtype, (9, 21), special=1)
    inputs = {kind: (values, table) for kind, (values,) in x.items()}
    return case(name, text, inputs, lambda x, n: (2 * reference(x, n),), {PASS: 1}, 1, dtype)


TABLES = 18
"""More operands and results than a dispatch of IREE's has."""


def stacked_rows():
    """Rows of many tables, each at a column of indices, one after the other, and one other part."""
    kinds = "".join(f", %t{n}: tensor<7x32xf32>" for n in range(TABLES))
    whole = f"tensor<5x{TABLES + 1}x32xf32>"
    body, last = "", "%e"
    for n in range(TABLES + 1):
        part = f"%g{n}"
        if n < TABLES:
            body += f"""
  %s{n} = tensor.extract_slice %n[0, {n}] [5, 1] [1, 1] : tensor<5x{TABLES}xi64> to tensor<5xi64>
  %g{n} = linalg.generic {{
      indexing_maps = [affine_map<(r, c) -> (r)>, affine_map<(r, c) -> (r, c)>],
      iterator_types = ["parallel", "parallel"]}}
      ins(%s{n} : tensor<5xi64>) outs(%p : tensor<5x32xf32>) {{
  ^bb0(%i: i64, %o: f32):
    %r = arith.index_cast %i : i64 to index
    %c = linalg.index 1 : index
    %v = tensor.extract %t{n}[%r, %c] : tensor<7x32xf32>
    linalg.yield %v : f32
  }} -> tensor<5x32xf32>"""
        else:
            part = "%x"
        body += f"""
  %i{n} = tensor.insert_slice {part} into {last}[0, {n}, 0] [5, 1, 32] [1, 1, 1]
    : tensor<5x32xf32> into {whole}"""
        last = f"%i{n}"
    text = f"""
func.func @stacked_rows(%x: tensor<5x32xf32>, %n: tensor<5x{TABLES}xi64>{kinds}) -> {whole} {{
  %e = tensor.empty() : {whole}
  %p = tensor.empty() : tensor<5x32xf32>{body}
  return {last} : {whole}
}}
"""
    rows = np.arange(5 * TABLES).reshape(5, TABLES) * 5 % 7
    drawn = draw("f32", (5, 32), *[(7, 32)] * TABLES, special=1)
    inputs = {kind: (x, rows, *tables) for kind, (x, *tables) in drawn.items()}

    def reference(x, n, *tables):
        return (np.stack([*(t[n[:, k]] for k, t in enumerate(tables)), x], 1),)

    return case("stacked_rows", text, inputs, reference, {"movement_fusion": 1, PASS: 1}, 1)


FIRST = """
func.func @first_columns(%x: tensor<6x5x27xf32>) -> tensor<6x5x20xf32> {
  %e = tensor.empty() : tensor<6x5x20xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>],
      iterator_types = ["parallel", "parallel", "parallel"]} outs(%e : tensor<6x5x20xf32>) {
  ^bb0(%o: f32):
    %a = linalg.index 0 : index
    %b = linalg.index 1 : index
    %c = linalg.index 2 : index
    %v = tensor.extract %x[%a, %b, %c] : tensor<6x5x27xf32>
    linalg.yield %v : f32
  } -> tensor<6x5x20xf32>
  return %g : tensor<6x5x20xf32>
}
"""


def first_columns():
    """The first elements of each row: the rows of the operand are longer."""
    inputs = draw("f32", (6, 5, 27), special=1)
    return case("first_columns", FIRST, inputs, lambda x: (x[..., :20],), {PASS: 1}, 1)


def concatenated(name, sizes, inner, dtype="f32"):
    """Parts of some sizes along the second of three dimensions."""
    shapes, total = [(5, size, inner) for size in sizes], sum(sizes)
    whole = f"tensor<5x{total}x{inner}x{dtype}>"
    body, last, start = f"  %e = tensor.empty() : {whole}\n", "%e", 0
    for n, size in enumerate(sizes):
        body += (
            f"  %i{n} = tensor.insert_slice %x{n} into {last}[0, {start}, 0] [5, {size}, {inner}]"
            f" [1, 1, 1] : tensor<5x{size}x{inner}x{dtype}> into {whole}\n"
        )
        last, start = f"%i{n}", start + size
    kinds = [f"%x{n}: tensor<5x{size}x{inner}x{dtype}>" for n, size in enumerate(sizes)]
    text = (
        f"func.func @{name}({', '.join(kinds)}) -> {whole} {{\n{body}"
        f"  return {last} : {whole}\n}}\n"
    )
    inputs = draw(dtype, *shapes, special=1)
    return case(
        name, text, inputs, lambda *parts: (np.concatenate(parts, 1),), {CONCAT: 1}, 1, dtype
    )


def joined(name, shape, sizes, axis, dtype="f32", *, vector=None):
    """Parts of some sizes along an axis: one is negated before, all of them are halved after.

    Args:
      name: of the case.
      shape: of the result, but for the axis.
      sizes: of the parts.
      axis: the axis.
      dtype: the element type.
      vector: another axis, or the same, along which the result is scaled.
    """
    rank, total = len(shape), sum(sizes)
    extents = [*shape[:axis], total, *shape[axis + 1 :]]
    f = Function(name, (*extents, *sizes))
    shapes, parts = [], []
    for number, size in enumerate(sizes):
        axes = [n if n != axis else rank + number for n in range(rank)]
        part = f.argument(axes, dtype)
        parts.append(f.apply("arith.negf", part, axes=axes) if number == 1 else part)
        shapes.append([*shape[:axis], size, *shape[axis + 1 :]])
    y = f.apply("arith.mulf", f.concat(parts, axis, list(range(rank))), 0.5)
    if vector is not None:
        y = f.apply("arith.mulf", y, f.argument([vector], dtype))
        shapes.append([extents[vector]])

    def reference(*values):
        held = [-v if n == 1 else v for n, v in enumerate(values[: len(sizes)])]
        found = np.concatenate(held, axis) * 0.5
        if vector is None:
            return (found,)
        return (found * values[-1].reshape([-1] + [1] * (rank - 1 - vector)),)

    fires = {"movement_fusion": 1, PASS: 1}
    return case(name, f.finish(y), draw(dtype, *shapes, special=1), reference, fires, 2, dtype)


def cases():
    """Flips along the contiguous dimension and along others, of even and odd sizes."""
    found = [
        flipped("last", (5, 77), 1),
        flipped("last_short", (5, 17), 1),
        flipped("last_long", (2, 5003), 1),
        flipped("first", (9, 40), 0),
        flipped("middle", (3, 4, 6, 7), 1),
        flipped("middle_of_size_one", (3, 1, 5, 20), 2),
        flipped("one_dimension", (1001,), 0),
        flipped("last_bf16", (5, 83), 1, "bf16"),
        flipped("last_f16", (5, 83), 1, "f16"),
        rows_at_indices(),
        embedding(),
        elements_at_indices("elements_of_rows", "(c)", "%r, %k", lambda x, n: x[:, n]),
        elements_at_indices(
            "elements_of_rows_f16", "(c)", "%r, %k", lambda x, n: x[:, n], dtype="f16"
        ),
        elements_at_indices(
            "elements_of_columns",
            "(r, c)",
            "%k, %c",
            lambda x, n: np.take_along_axis(x[:, :19], n, 0),
        ),
        stacked_rows(),
        first_columns(),
        concatenated("cache_and_one_key", (127, 1), 64),
        concatenated("cache_and_one_key_bf16", (40, 1), 80, "bf16"),
        concatenated("short_parts", (1, 3, 6), 1),
        concatenated("short_and_long_parts_f16", (5, 1001), 3, "f16"),
        joined("joined_first", (0, 5, 21), (3, 4), 0),
        joined("joined_middle", (3, 0, 7, 9), (2, 5, 1), 1),
        joined("joined_last", (4, 3, 0), (33, 64), 2),
        joined("joined_last_bf16", (40, 0), (16, 83), 1, "bf16"),
        joined("joined_scaled", (2, 0, 5, 40), (3, 1), 1, vector=1),
        joined("joined_scaled_columns", (2, 0, 37), (3, 4), 1, vector=2),
        joined("joined_long_f16", (0, 3), (1000, 2000), 0, "f16"),
    ]
    return {one.name: one for one in found}


CASES = cases()


RUNS = Runs(CASES, TARGETS, pipeline=f"movement_fusion,{PASS},{CONCAT}")


@pytest.mark.parametrize(("target", "name"), RUNS.parameters)
def test_numerics(target, name):
    RUNS.outcome(target, name).check()
