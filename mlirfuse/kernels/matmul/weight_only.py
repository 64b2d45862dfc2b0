"""Products with weights of i8 and i4 that go from memory straight to matrix units: which, and how.

What they do is in `triton/weights.py`; what comes before and after the sums is written by
`matmul.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.codegen.iteration_space import (
    MAX_INDEX,
    Axis,
    Group,
    Space,
    known_product,
    product_text,
)
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.kernels.matmul.tilings import LINE
from mlirfuse.structured.expr.expansion import step_through
from mlirfuse.structured.expr.expressions import CASTS, start
from mlirfuse.structured.expr.nodes import Apply, Const, Element, Expr
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target

BITS = {"i4": 4, "i8": 8}
"""Of a weight, by element type."""

LOADED = 16
"""Bytes of a column that a thread loads at once; they share a scale."""

LAYOUT = "layout"
"""Name of the layout of the tiles in an epilogue."""


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A tensor with a number for each column, each run of terms, or both.

    Attributes:
      value: the tensor; None where `number` is meant.
      loops: of the contraction, one for each dimension; None for its only element.
      number: the same one everywhere.
    """

    value: ir.Value | None
    loops: tuple[int | None, ...] = ()
    number: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Weights:
    """How an operand is dequantized: `(value - zero) * scale`.

    Attributes:
      value: the tensor of integers, in which the terms of a column lie side by side.
      zero: zero points; None without.
      scale: None without.
    """

    value: ir.Value
    zero: Part | None
    scale: Part | None

    @property
    def bits(self) -> int:
        """Of a weight."""
        return BITS[ops.element_type(self.value)]


def weights_of(
    value: ir.Value, loops: Sequence[int | None], inside: set[ir.Operation], expected: Sequence[int]
) -> Weights | None:
    """How an operand is dequantized; None where it is computed in another way.

    Args:
      value: the operand.
      loops: the contraction's loop along each of its dimensions.
      inside: the ops of the kernel.
      expected: the loops of columns, runs and terms, in the order of the tensor in memory.
    """
    walk = _Walk(inside, tuple(loops), frozenset(expected[:-1]))
    scale = zero = None
    expr = walk.uncast(start(value))
    if isinstance(expr, Apply) and expr.op == "arith.mulf":
        sides = [walk.part(side, ("f16", "bf16", "f32")) for side in expr.args]
        if (sides[0] is None) == (sides[1] is None):
            return None
        scale = sides[0] or sides[1]
        expr = walk.uncast(expr.args[sides.index(None)])
    if isinstance(expr, Apply) and expr.op == "arith.subf":
        zero = walk.whole(expr.args[1])
        if zero is None:
            return None
        expr = walk.uncast(expr.args[0])
    if not isinstance(expr, Apply) or expr.op != "arith.sitofp":
        return None
    expr = walk.settled(expr.args[0])
    if isinstance(expr, Apply) and expr.op == "arith.subi" and zero is None:
        zero = walk.whole(expr.args[1])
        if zero is None:
            return None
        expr = walk.settled(expr.args[0])
    expr = walk.unextended(expr)
    if not isinstance(expr, Element) or ops.element_type(expr.value) not in BITS:
        return None
    if walk.loops_of(expr) != tuple(expected):
        return None
    return Weights(expr.value, zero, scale)


class _Walk:
    """Looks through the ops of a kernel, and not further."""

    def __init__(
        self, inside: set[ir.Operation], loops: tuple[int | None, ...], allowed: frozenset[int]
    ) -> None:
        self.inside = inside
        self.loops = loops
        self.allowed = allowed

    def settled(self, expr: Expr) -> Expr:
        """What an element is computed by, as far as the kernel does it."""
        while isinstance(expr, Element) and ops.defining_op(expr.value) in self.inside:
            step = step_through(expr)
            if step is None:
                break
            expr = step
        return expr

    def uncast(self, expr: Expr) -> Expr:
        """The same without floating-point casts."""
        expr = self.settled(expr)
        while isinstance(expr, Apply) and expr.op in CASTS:
            expr = self.settled(expr.args[0])
        return expr

    def unextended(self, expr: Expr) -> Expr:
        """The same of integers."""
        while isinstance(expr, Apply) and expr.op == "arith.extsi":
            expr = self.settled(expr.args[0])
        return expr

    def loops_of(self, element: Element) -> tuple[int | None, ...] | None:
        """The contraction's loop along each dimension; None where an index is not one."""
        if any(i is not None and not isinstance(i, int) for i in element.index):
            return None
        return tuple(self.loops[i] if isinstance(i, int) else None for i in element.index)

    def part(self, expr: Expr, kinds: Sequence[str]) -> Part | None:
        """A tensor from outside of these element types, along columns and runs."""
        expr = self.uncast(expr)
        if not isinstance(expr, Element) or ops.element_type(expr.value) not in kinds:
            return None
        if ops.defining_op(expr.value) in self.inside:
            return None
        loops = self.loops_of(expr)
        if loops is None or not self.allowed.issuperset(n for n in loops if n is not None):
            return None
        return Part(expr.value, loops)

    def whole(self, expr: Expr) -> Part | None:
        """A zero point: integers from outside, or a whole number."""
        expr = self.uncast(expr)
        if isinstance(expr, Apply) and expr.op == "arith.sitofp":
            expr = self.settled(expr.args[0])
        expr = self.unextended(expr)
        if isinstance(expr, Const):
            whole = float(expr.number).is_integer()
            return Part(None, number=int(expr.number)) if whole else None
        return self.part(expr, tuple(BITS))


def supports(target: Target) -> bool:
    """Whether a target and the Triton that is installed have such kernels."""
    return target.name == "cuda" and triton_compiler.has_gluon()


def fits(weights: Weights, kind: str, depth: int, run: int) -> bool:
    """Whether such a kernel computes a product with these weights.

    Args:
      weights: the weights.
      kind: element type of the rows.
      depth: terms of a sum.
      run: terms that share a scale or a zero point; 0 where a column does.
    """
    bits = weights.bits
    return (
        kind in ("f16", "bf16")
        and depth % (32 // bits) == 0
        and run % (LOADED * 8 // bits) == 0
        and known_product(ops.shape(weights.value)) < MAX_INDEX
        and (weights.zero is None or _is_exact(weights.zero, bits, kind))
    )


def _is_exact(zero: Part, bits: int, kind: str) -> bool:
    """Whether a weight without its zero point is exact in the type of the rows."""
    if zero.value is None:
        return -(1 << bits - 1) <= zero.number < 1 << bits - 1
    return BITS[ops.element_type(zero.value)] <= bits and (kind == "f16" or bits == 4)


def placed(space: Space, rows: int, columns: int, tiling: MatmulConfig) -> list[str]:
    """The lines that say which rows and columns a workgroup has.

    Args:
      space: the iteration space.
      rows: number of its group of rows.
      columns: the same of the columns, which are static.
      tiling: the tile.
    """
    height, width = tiling.block_m, tiling.block_n
    bound = product_text(space.groups[rows].sizes)
    whole = known_product(space.groups[columns].sizes)
    return [
        f"row_tile, column_tile = library.tile_of(gl.program_id(0), tl.cdiv({bound}, {height}), "
        f"{-(-whole // width)}, {tiling.group_m})",
        "batch = 0",
        f"{LAYOUT}: gl.constexpr = matmul_weight_only.written({width}, {tiling.num_warps})",
        f"row = (row_tile * {height} + gl.arange(0, {height}, gl.SliceLayout(1, {LAYOUT})))"
        "[:, None]",
        f"column = (column_tile * {width} + gl.arange(0, {width}, gl.SliceLayout(0, {LAYOUT})))"
        "[None, :]",
        *space.inside(rows, columns),
    ]


def lines(
    tiling: MatmulConfig,
    given: tuple[str, str, str],
    sizes: tuple[int, int, int, int],
    weights: Weights,
    inside: bool,
) -> list[str]:
    """The lines that compute the sums of a tile.

    Args:
      tiling: the tile.
      given: names of the rows and of the weights, and what `offset` and `factor` are given.
      sizes: rows, columns, terms, and terms of a run.
      weights: the weights.
      inside: whether a run's scale is multiplied before the sums.
    """
    x, w, others = given
    rows, columns, depth, run = sizes
    bits = weights.bits
    share = tiling.block_k * bits // 8 // LINE // tiling.split_k
    numbers = (
        bits,
        columns,
        depth,
        run,
        inside,
        tiling.block_m,
        tiling.block_n,
        tiling.split_k,
        share,
    )
    shape = f"matmul_weight_only.shaped({', '.join(map(str, numbers))})"
    return [
        f"words = {w}.to(gl.pointer_type(gl.int32), bitcast=True)",
        f"total0 = matmul_weight_only.sums({x}, {depth}, {rows}, words, {others}, row_tile, "
        f"column_tile, offset, factor, {shape})",
        f"total0 = gl.convert_layout(total0.permute((1, 0)), {LAYOUT})",
    ]


def functions(
    tiles: Tiles, weights: Weights, sizes: Mapping[int, int | None], column: int
) -> tuple[str, str]:
    """The functions of columns and runs to zero points and to scales, and what they are given.

    Args:
      tiles: of the kernel.
      weights: the weights.
      sizes: of the contraction's loops.
      column: the loop of the columns; another one that numbers depend on is that of runs.

    Returns:
      Their text, and that of their first argument.
    """
    text, given = "", []
    for called, part in (("offset", weights.zero), ("factor", weights.scale)):
        lines = ["return column * 0 + run * 0"]
        if part is not None and part.value is None:
            lines = [f"{lines[0]} + {part.number}"]
        elif part is not None and part.value is not None:
            name = tiles.pointer(part.value)
            given.append(name)
            lines = _read(tiles, part.value, part.loops, sizes, column)
            lines[:0] = [f"{name} = others[{len(given) - 1}]"]
            kind = "int32" if called == "offset" else "float32"
            lines[-1] = f"return {lines[-1]}.to(tl.{kind})"
        body = "".join(f"    {line}\n" for line in lines)
        text += f"@gluon.jit\ndef {called}(others, column, run):\n{body}\n\n"
    return text, f"({', '.join(given)}{',' if given else ''})"


def _read(
    tiles: Tiles,
    value: ir.Value,
    loops: Sequence[int | None],
    sizes: Mapping[int, int | None],
    column: int,
) -> list[str]:
    """The lines that read a tensor where columns and runs are; the last is the tile's name."""
    runs = tuple(sizes[n] for n in loops if n is not None and n != column)
    space = Space((Group("column", (sizes[column],)), Group("run", runs or (1,))))
    reader = Tiles(space, {})
    reader.operands = tiles.operands
    axes: list[Axis | None] = [None if n is None else (int(n != column), 0) for n in loops]
    name = reader.read(value, tuple(axes))
    return [*reader.body.lines, name]


IMPORTED = """\
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from mlirfuse.kernels.device import library, matmul_weight_only


"""
"""Import statements of a kernel's text."""
