"""Contractions: what follows them elementwise, and what their operands are views of."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.structured import ops
from mlirfuse.structured.expressions import Element, Index, Part, step_through


ROOTS = ("linalg.generic", *sorted(ops.NAMED_CONTRACTIONS))
"""Names of the ops at which passes look for a contraction."""


def epilogue(contraction: ir.Operation) -> list[ir.Operation]:
    """The elementwise ops that follow the contraction one after the other, in order.

    Each is the only reader of the one before, has the same iteration space and reads it at its own
    loops, possibly permuted in the last op. The chain ends before anything else.
    """
    chain: list[ir.Operation] = []
    value = contraction.results[0]
    while True:
        readers = ops.users(value)
        if len(readers) != 1 or not _continues(readers[0], value):
            return chain
        chain.append(readers[0])
        if not _reads_in_place(readers[0], value):
            return chain
        value = readers[0].results[0]


def _continues(op: ir.Operation, value: ir.Value) -> bool:
    if not ops.is_elementwise(op) or len(op.results) != 1 or ops.in_region(op):
        return False
    if op.block != ops.defining_op(value).block:  # type: ignore[union-attr]
        return False
    if value not in ops.inputs(op) or ops.reads_index(op):
        return False
    return sorted(ops.shape(value), key=str) == sorted(ops.shape(op.results[0]), key=str)


def _reads_in_place(op: ir.Operation, value: ir.Value) -> bool:
    maps = ops.indexing_maps(op)
    result_map = maps[-1]
    reads = [m for v, m in zip(op.operands, maps, strict=True) if v == value]
    return all(m == result_map for m in reads)


def bias(op: ir.Operation, value: ir.Value) -> ir.Value | None:
    """The rank-1 addend when the op adds one to `value` along one dimension, else None."""
    names = [o.operation.name for o in ops.body(op).operations]
    if [n for n in names if n not in ("arith.extf", "arith.truncf")] not in (
        ["arith.addf", "linalg.yield"],
        ["arith.addi", "linalg.yield"],
    ):
        return None
    others = [
        (v, m) for v, m in zip(ops.inputs(op), ops.indexing_maps(op), strict=False) if v != value
    ]
    if len(others) != 1:
        return None
    addend, index_map = others[0]
    return addend if index_map is not None and len(index_map) == 1 else None


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """What a contraction's operand is a view of.

    Attributes:
      source: the tensor in memory.
      index: its indices in terms of the contraction's loops: a loop, or one digit of a loop.
      moved: the ops that only move data and need not run when the source is read directly.
    """

    source: ir.Value
    index: tuple[Index, ...]
    moved: tuple[ir.Operation, ...]


def view(contraction: ir.Operation, number: int) -> View | None:
    """Looks through transposes and collapsing reshapes that feed an operand.

    Returns:
      The view through the last transpose found, or None when there is none.
    """
    index_map = ops.indexing_maps(contraction)[number]
    if index_map is None or None in index_map:
        return None
    element = Element(contraction.operands[number], tuple(index_map))
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
        if len(step.index) < len(element.index) or not all(map(_simple, step.index)):
            return best
        if ops.is_projection(op):
            best = View(step.value, step.index, tuple(moved))
        element = step


def _simple(index: Index) -> bool:
    return isinstance(index, int) or (isinstance(index, Part) and isinstance(index.index, int))


def batch_loops(op: ir.Operation) -> frozenset[int]:
    """The loops that index both inputs and the result."""
    maps = [set(m or ()) for m in ops.indexing_maps(op)]
    return frozenset(d for d in set.intersection(*maps) if d is not None)
