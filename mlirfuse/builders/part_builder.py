"""Ops on the part of their results that a slice needs, in place of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders.slice_builder import extract_slice
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.demanded_parts import (
    Demand,
    Part,
    Progression,
    cut_of,
    kept_dims,
    whole,
)

_MEMOIZED = "linalg.memoized_indexing_maps"


def compute_parts(demand: Demand) -> ir.Operation:
    """Builds the members on their parts; the members and the slices are erased.

    Returns:
      The op that computes what the slices took.
    """
    parts = _Parts(demand)
    for op in demand.members:
        parts.build(op)
    source = demand.cuts[0].operands[0]
    made = parts.made[source]
    for cut in demand.cuts:
        with ir.InsertionPoint(cut), cut.location:
            groups = _kept_groups(demand.parts[source], cut)
            value = builders.collapse(made, groups)
        cut.results[0].replace_all_uses_with(value)
        cut.erase()
    for op in reversed(demand.members):
        op.erase()
    last: ir.Operation = made.owner.operation
    return last


def _kept_groups(part: Part, cut: ir.Operation) -> list[list[int]]:
    """The dimensions that a slice merges: each that it drops with a neighbor."""
    kept = kept_dims(part, len(ops.shape(cut.results[0])))
    return builders.groups_of_kept(kept, len(part))


class _Parts:
    """The parts that have been built.

    Attributes:
      made: result of a member -> the part of it.
    """

    def __init__(self, demand: Demand) -> None:
        self.made: dict[ir.Value, ir.Value] = {}
        self._demand = demand
        self._taken: dict[tuple[ir.Value, Part], ir.Value] = {}

    def build(self, op: ir.Operation) -> None:
        """Builds a member."""
        reads = iter(self._demand.reads[op])  # tensors, in the order of the operands
        with ir.InsertionPoint(op), op.location:
            operands = [
                v if ops.ranked(v) is None else self._part(*next(reads)) for v in op.operands
            ]
            self.made[op.results[0]] = self._built(op, operands)

    def _built(self, op: ir.Operation, operands: Sequence[ir.Value]) -> ir.Value:
        if op.name == "tensor.extract_slice":
            taken = cut_of(op)
            assert taken is not None
            return builders.collapse(operands[0], _kept_groups(taken, op))
        if op.name == "tensor.collapse_shape":
            return builders.collapse(operands[0], [list(g) for g in ops.reassociation(op)])
        if op.name == "tensor.expand_shape":
            sizes = [one.size for one in self._demand.parts[op.results[0]]]
            return builders.expand(operands[0], [list(g) for g in ops.reassociation(op)], sizes)
        new = ir.Operation.create(
            op.name,
            results=[operands[-1].type],
            operands=operands,
            attributes={n: op.attributes[n] for n in op.attributes if n != _MEMOIZED},
            regions=len(op.regions),
        )
        if not op.regions:
            return new.results[0]
        op.regions[0].blocks[0].append_to(new.regions[0])
        _shift(new, self._demand.loops.get(op, {}))
        return new.results[0]

    def _part(self, value: ir.Value, part: Part) -> ir.Value:
        """The part of a tensor: built, made anew, or cut out of it."""
        if value in self.made:
            return self.made[value]
        if part == whole(ops.shape(value)):
            return value
        if (value, part) not in self._taken:
            self._taken[value, part] = _cut(value, part)
        return self._taken[value, part]


def _cut(value: ir.Value, part: Part) -> ir.Value:
    """The part of a tensor that is no member's."""
    sizes, owner = [one.size for one in part], ops.defining_op(value)
    if owner is not None and owner.name == "tensor.empty":
        return builders.empty(sizes, ops.element_type(value))
    if owner is not None and owner.name == "linalg.fill":
        empty = builders.empty(sizes, ops.element_type(value))
        return builders.fill(owner.operands[0], empty)
    offsets, steps = [one.offset for one in part], [one.step for one in part]
    return extract_slice(value, offsets, sizes, steps).results[0]


def _shift(op: ir.Operation, loops: Mapping[int, Progression]) -> None:
    """Lets the body of an op have the indices that it had along loops that it runs in part."""
    for inner in [view.operation for view in ops.body(op).operations]:
        if inner.name != "linalg.index":
            continue
        one = loops.get(inner.attributes["dim"].value)
        if one is None:
            continue
        with ir.InsertionPoint.after(inner), inner.location:
            index = inner.results[0]
            step, offset = (builders.scalar_constant(n, "index") for n in (one.step, one.offset))
            scaled = builders.scalar("arith.muli", [index, step], "index")
            shifted = builders.scalar("arith.addi", [scaled, offset], "index")
        index.replace_all_uses_except(shifted, scaled.owner.operation)
