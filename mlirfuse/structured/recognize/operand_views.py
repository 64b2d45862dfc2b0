"""Transposes and broadcasts of a contraction's operand that can be folded into its indexing map."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.structured.expr.expansion import step_through
from mlirfuse.structured.expr.nodes import Element, Index, Part
from mlirfuse.structured.ir import ops


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """The source that a contraction's operand is a view of.

    Attributes:
      source: the tensor in memory.
      index: its index in terms of the contraction's loops: loops, or digits of loops.
      moved: the ops that only move data, dead when the source is read directly.
    """

    source: ir.Value
    index: tuple[Index, ...]
    moved: tuple[ir.Operation, ...]


def view(contraction: ir.Operation, operand: int) -> View | None:
    """Looks through transposes, repeated heads and collapses that produce an operand.

    Args:
      contraction: the contraction.
      operand: index of the operand.

    Returns:
      The view through the outermost transpose or broadcast, or None without one.
    """
    index_map = ops.indexing_maps(contraction)[operand]
    if index_map is None or None in index_map:
        return None
    element = Element(contraction.operands[operand], tuple(index_map))
    moved: list[ir.Operation] = []
    best: View | None = None
    while True:
        op = ops.defining_op(element.value)
        step = step_through(element)
        if op is None or not isinstance(step, Element) or op.block != contraction.block:
            return best
        if not (op.name in ops.RESHAPES or ops.is_projection(op)) or ops.in_region(op):
            return best
        moved.append(op)
        repeats = ops.is_projection(op) and _repeats(element, step)
        shrinks = len(step.index) < len(element.index) and not repeats
        if shrinks or not all(map(_simple, step.index)):
            return best
        if ops.is_projection(op):
            best = View(step.value, step.index, tuple(moved))
        element = step


def _repeats(element: Element, source: Element) -> bool:
    """Whether a broadcast repeats its source over some digits of a loop and reads the others.

    Query groups share key heads this way. A broadcast over a whole loop is not looked through.
    """
    dropped = [index for index in element.index if index not in source.index]
    kept = {index.index for index in source.index if isinstance(index, Part)}
    return all(isinstance(index, Part) and index.index in kept for index in dropped)


def _simple(index: Index) -> bool:
    return isinstance(index, int) or (isinstance(index, Part) and isinstance(index.index, int))
