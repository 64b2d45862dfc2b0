"""Detection of repeated layers: ops that repeat in a block and differ in their weights only.

Two layers are equal when their ops are, one by one, and read the same: a value that was made or
read equally far before, a weight that no other op has read, or a value that all layers share.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.structured.ir import ops

MAX_PERIODS = 4
"""Distances between equal ops, the most frequent first, that are tried as the size of a layer."""

_NUMBERS = (ir.FloatAttr, ir.IntegerAttr, ir.BoolAttr)

_OPAQUE_DATA = ("dense_resource<", "#flow.parameter.named<")
"""Starts of attributes whose data is not written out."""

Place = tuple[int, int]
"""An op's index in the block and the ordinal of the operand, nested ops' operands included."""


@dataclasses.dataclass(frozen=True, slots=True)
class RepeatedLayers:
    """Equal layers in a block.

    Attributes:
      start: index of the first layer's first op in the block.
      size: number of ops of each layer.
      count: number of layers.
      before: number of ops before the first layer that have the form of a layer's last ops, and
        other operands.
      weights: index of each constant that is a weight -> the first place that reads it.
    """

    start: int
    size: int
    count: int
    before: int
    weights: dict[int, Place]

    @property
    def end(self) -> int:
        """Index of the op after the last layer."""
        return self.start + self.count * self.size

    def layer_of(self, index: int) -> int | None:
        """The layer of an op or of a weight; None for an op outside and for a shared value."""
        index, _ = self.weights.get(index, (index, 0))
        inside = self.start <= index < self.end
        return (index - self.start) // self.size if inside else None


def find(held: Sequence[ir.Operation]) -> RepeatedLayers | None:
    """The longest repetition in a block, of layers with a contraction; None without one.

    Most patterns end at contractions: they do not reach far into the next layer.

    Args:
      held: the ops of the block in order. Constants at its head belong to their first users.
    """
    kinds = _OpKinds(held)
    head = kinds.head
    seen: dict[int, int] = {}
    distances: Counter[int] = Counter()
    for place, kind in enumerate(kinds.kinds):
        if kind in seen:
            distances[place - seen[kind]] += 1
        seen[kind] = place
    best = (0, 0, 0)
    for size, _ in distances.most_common(MAX_PERIODS):
        length = 0
        for place in range(len(kinds.kinds) - size):
            length = length + 1 if kinds.kinds[place] == kinds.kinds[place + size] else 0
            if length >= size:
                best = max(best, (length, -size, place + 1 - length))
    length, size, start = best[0], -best[1], best[2] + head
    if not length or not any(ops.is_contraction(op) for op in held[start : start + size]):
        return None
    before = 0
    while before < size and start - before > head and _same_form(held, start - before - 1, size):
        before += 1
    return RepeatedLayers(start, size, length // size + 1, before, kinds.weights)


def _same_form(held: Sequence[ir.Operation], place: int, size: int) -> bool:
    one, other = held[place], held[place + size]
    types = [[result.type for result in op.results] for op in (one, other)]
    return one.name == other.name and types[0] == types[1]


class _OpKinds:
    """Integers for the ops of a block after its head, equal for equal ops.

    Attributes:
      head: number of constants before the first other op.
      kinds: the integers, in order of the ops.
      weights: index of each constant that is a weight -> the first place that reads it.
    """

    def __init__(self, held: Sequence[ir.Operation]) -> None:
        others = (place for place, op in enumerate(held) if op.name not in ops.CONSTANT_OPS)
        self.head = next(others, len(held))
        self.weights: dict[int, Place] = {}
        self._constants = {op.results[0]: place for place, op in enumerate(held[: self.head])}
        self._held = held
        self._known: dict[tuple[object, ...], int] = {}
        self._last: dict[ir.Value, Place] = {}
        self.kinds = [self._kind(place, op) for place, op in enumerate(held) if place >= self.head]

    def _kind(self, place: int, op: ir.Operation) -> int:
        key: list[object] = []
        self._reads = 0
        self._add(place, op, key, {})
        for index, result in enumerate(op.results):
            self._last[result] = (place, -1 - index)
        return self._known.setdefault(tuple(key), len(self._known))

    def _add(
        self, place: int, op: ir.Operation, key: list[object], inside: dict[ir.Value, int]
    ) -> None:
        """Adds name, attributes, types, operands and regions of an op to the key."""
        key += (op.name, *op.attributes.items(), *(result.type for result in op.results))
        for value in op.operands:
            key.append(inside[value] if value in inside else self._read(place, value))
        own = op.location
        for region in op.regions:
            for block in region.blocks:
                key.append("block")
                for argument in block.arguments:
                    inside[argument] = len(inside)
                    key += (argument.type, argument.location == own)
                for view in block.operations:
                    nested = view.operation
                    key.append(nested.location == own)
                    self._add(place, nested, key, inside)
                    for result in nested.results:
                        inside[result] = len(inside)

    def _read(self, place: int, value: ir.Value) -> object:
        """The distance to the last op that made or read the value, and the ordinal in that op."""
        self._reads += 1
        here = (place, self._reads)
        before = self._last.get(value)
        self._last[value] = here
        if before is not None:
            return place - before[0], before[1]
        constant = self._constants.get(value)
        if constant is None:
            return value
        attribute = self._held[constant].attributes["value"]
        if not _is_weight(attribute):
            return attribute
        self.weights[constant] = here
        return type(attribute), value.type


def _is_weight(attribute: ir.Attribute) -> bool:
    """Whether no pass looks at the data of a constant: floats that differ, or opaque data."""
    if isinstance(attribute, ir.DenseElementsAttr):
        return isinstance(attribute, ir.DenseFPElementsAttr) and not attribute.is_splat
    return not isinstance(attribute, _NUMBERS) and str(attribute).startswith(_OPAQUE_DATA)
