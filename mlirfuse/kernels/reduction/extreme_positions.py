"""Positions of the largest or smallest values of rows, in parts: lanes of a tile, or splits.

    m = max(x)
    i = min(position where x == m or x != x, else infinity)

By its operands `i` waits for `m`, and reads the columns again. In each lane, over its columns,

    new = max(extreme, x)
    first = min(first where new == extreme or extreme != extreme, position where x == new or x != x)
    extreme = new

A NaN is the extreme of its lane from then on, so that only NaN have positions there. The position
of a row is the first of the lanes whose extreme is that of the row, or NaN.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.combiners import COMBINERS, Combiner, neutral_tile
from mlirfuse.kernels.codegen.writer import Writer
from mlirfuse.kernels.reduction.analysis import ReductionAnalysis
from mlirfuse.kernels.reduction.body_values import BodyValue, body_value, value_of_rows
from mlirfuse.structured.expr import predicates
from mlirfuse.structured.ir import ops

_FIRST = {
    "f32": COMBINERS["arith.minimumf"],
    "i32": COMBINERS["arith.minsi"],
    "i64": COMBINERS["arith.minsi"],
}
"""Element type of positions -> how they are combined. Those of f32 are of up to 2^24 columns."""

_FLOATS = frozenset({"f16", "bf16", "f32"})


@dataclasses.dataclass(frozen=True, slots=True)
class ExtremePosition:
    """A reduction to the first position of the extreme values of a row.

    Attributes:
      value: the values.
      center: the extreme of the row, a reduction of the same values.
      position: the positions of the values.
      combiner: how the extreme is found.
      element: element type of the positions.
    """

    value: BodyValue
    center: BodyValue
    position: BodyValue
    combiner: Combiner
    element: str

    @property
    def first(self) -> Combiner:
        """How positions are combined."""
        return _FIRST[self.element]

    @property
    def squared(self) -> bool:
        """False: it is no sum of squares."""
        return False

    @property
    def of_columns(self) -> tuple[BodyValue, ...]:
        """The values that the pass over the columns reads."""
        return self.value, self.position


def extreme_position(analysis: ReductionAnalysis, op: ir.Operation) -> ExtremePosition | None:
    """Reads a reduction as such a position; None for another one."""
    reduction = analysis.reductions[op]
    chosen = ops.defining_op(reduction.term)
    kind = ops.element_type(op.results[0])
    first = _FIRST.get(kind)
    if first is None or reduction.combiner is not first:
        return None
    if chosen is None or chosen.name != "arith.select":
        return None
    condition, at, other = chosen.operands
    compared = _compared(condition)
    if compared is None or ops.constant(other) != first.neutral_number(kind):
        return None
    element, extreme = compared
    value, position = body_value(op, element), body_value(op, at)
    center = value_of_rows(analysis, op, extreme)
    if value is None or position is None or center is None:
        return None
    combiner = _combiner(analysis, value, center)
    return None if combiner is None else ExtremePosition(value, center, position, combiner, kind)


def _compared(condition: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """The value and the extreme of `value == extreme or value != value`; None for another one."""
    either = ops.defining_op(condition)
    if either is None or either.name != "arith.ori":
        return None
    comparisons = [ops.defining_op(operand) for operand in either.operands]
    found = {_predicate(each): each for each in comparisons if each is not None}
    equal, unequal = found.get(predicates.OEQ), found.get(predicates.UNE)
    if equal is None or unequal is None or unequal.operands[0] != unequal.operands[1]:
        return None
    value, extreme = equal.operands
    return (value, extreme) if unequal.operands[0] == value else None


def _predicate(op: ir.Operation) -> str:
    return str(op.attributes["predicate"]) if op.name == "arith.cmpf" else ""


def _combiner(analysis: ReductionAnalysis, value: BodyValue, center: BodyValue) -> Combiner | None:
    """How the region reduces the values to the center; None where it is something else."""
    if value.scalars or center.scalars or not (value.operands and center.operands):
        return None
    source = ops.defining_op(center.operands[0])
    if source not in analysis.reductions or ops.element_type(value.value) not in _FLOATS:
        return None
    reduction = analysis.reductions[source]
    term = body_value(source, reduction.term)
    if reduction.combine.name not in ("arith.maximumf", "arith.minimumf") or term is None:
        return None
    alike = not term.scalars and term.operands == value.operands
    return reduction.combiner if alike and _axes(analysis, term) == _axes(analysis, value) else None


def _axes(analysis: ReductionAnalysis, found: BodyValue) -> list[object]:
    """The axes of the operand that is a value of a body."""
    (number,) = found.arguments
    axes = analysis.loops[found.op]
    return [None if n is None else axes[n] for n in ops.indexing_maps(found.op)[number] or ()]


@dataclasses.dataclass(frozen=True, slots=True)
class Positions:
    """The extremes of parts of rows, as names or expressions of a kernel: tiles.

    Attributes:
      extreme: largest or smallest value of each part.
      first: its position; the largest number for none.
      combiner: how extremes are found.
      element: element type of the positions.
    """

    extreme: str
    first: str
    combiner: Combiner
    element: str

    def add(self, writer: Writer, value: str, position: str, mask: str) -> None:
        """Adds one value to each part.

        Args:
          writer: the lines of the kernel.
          value: the values.
          position: their positions.
          mask: the parts that a value is added to; empty for all.
        """
        value = writer.name(f"{value}.to(tl.float32)")
        neutral = neutral_tile(_FIRST[self.element], self.element)
        new = self.combiner.pair.format(self.extreme, value)
        if mask:
            new = f"tl.where({mask}, {new}, {self.extreme})"
        new = writer.name(new)
        hit = f"(({value} == {new}) | ({value} != {value}))" + (f" & {mask}" if mask else "")
        kept = f"({new} == {self.extreme}) | ({self.extreme} != {self.extreme})"
        kept = f"tl.where({kept}, {self.first}, {neutral})"
        writer.line(f"{self.first} = tl.minimum({kept}, tl.where({hit}, {position}, {neutral}))")
        writer.line(f"{self.extreme} = {new}")

    def around(self, writer: Writer, center: str) -> str:
        """The first position of a row's extreme, a number for each row."""
        has = f"({self.extreme} == {center}) | ({self.extreme} != {self.extreme})"
        first = _FIRST[self.element]
        found = f"tl.where({has}, {self.first}, {neutral_tile(first, self.element)})"
        return writer.name(first.tile.format(found))

    def whole(self, writer: Writer) -> Positions:
        """The extremes of all parts together."""
        extreme = writer.name(self.combiner.tile.format(self.extreme))
        return Positions(extreme, self.around(writer, extreme), self.combiner, self.element)

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """The names that splits store, and their types."""
        kind = _FIRST[self.element].accumulator(self.element)
        return (self.extreme, "tl.float32"), (self.first, kind)


def no_positions(writer: Writer, shape: Sequence[int], found: ExtremePosition) -> Positions:
    """The extremes of parts without values, in a tile of this shape."""
    text = f"{[*shape]}"
    return Positions(
        writer.name(neutral_tile(found.combiner, "f32", text)),
        writer.name(neutral_tile(found.first, found.element, text)),
        found.combiner,
        found.element,
    )
