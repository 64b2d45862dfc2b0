"""Where a block repeats itself: layer after layer of ops that differ in their weights only.

Two layers are alike when their ops are, one by one, and read the same things: a value made or read
equally far back, a weight that nothing has read before, or what all layers share.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.structured.ir import ops

CANDIDATES = 4
"""Distances between ops that are alike, the most frequent first, that are tried as a period."""

_SEEN = (ir.FloatAttr, ir.IntegerAttr, ir.BoolAttr, ir.DenseElementsAttr)

_UNSEEN = ("dense_resource<", "#flow.parameter.named<")
"""Starts of attributes that are data which is not written out."""

Place = tuple[int, int]
"""An op's index in the block and the number of the operand, nested ops' operands included."""


@dataclasses.dataclass(frozen=True, slots=True)
class Layers:
    """Layers that are alike.

    Attributes:
      start: index of the first one's first op in the block.
      size: ops of each.
      count: how many there are.
      before: ops before the first layer that are those of a layer too, and read other things.
      weights: constants that one op of the block was the first to read, by index, and where.
    """

    start: int
    size: int
    count: int
    before: int
    weights: dict[int, Place]

    @property
    def end(self) -> int:
        """Index of the op behind the last layer."""
        return self.start + self.count * self.size

    def number(self, index: int) -> int | None:
        """The layer of an op or of a weight; None for what is in no layer or shared."""
        index, _ = self.weights.get(index, (index, 0))
        inside = self.start <= index < self.end
        return (index - self.start) // self.size if inside else None


def find(held: Sequence[ir.Operation]) -> Layers | None:
    """The longest repetition in a block, of layers with a contraction; None without one.

    What a pass looks at ends at contractions: it does not reach far into the next layer.

    Args:
      held: the ops of the block in order. Constants at its head belong to who reads them.
    """
    reader = _Reader(held)
    kinds, head = reader.kinds, reader.head
    seen: dict[int, int] = {}
    distances: Counter[int] = Counter()
    for place, kind in enumerate(kinds):
        if kind in seen:
            distances[place - seen[kind]] += 1
        seen[kind] = place
    best = (0, 0, 0)
    for size, _ in distances.most_common(CANDIDATES):
        length = 0
        for place in range(len(kinds) - size):
            length = length + 1 if kinds[place] == kinds[place + size] else 0
            if length >= size:
                best = max(best, (length, -size, place + 1 - length))
    length, size, start = best[0], -best[1], best[2] + head
    if not length or not any(ops.is_contraction(op) for op in held[start : start + size]):
        return None
    before = 0
    while before < size and start - before > head and _same_form(held, start - before - 1, size):
        before += 1
    return Layers(start, size, length // size + 1, before, reader.weights)


def _same_form(held: Sequence[ir.Operation], place: int, size: int) -> bool:
    one, other = held[place], held[place + size]
    types = [[result.type for result in op.results] for op in (one, other)]
    return one.name == other.name and types[0] == types[1]


class _Reader:
    """Numbers for the ops of a block behind its head, the same for ops that are alike.

    Attributes:
      head: how many constants stand before the first other op.
      kinds: the numbers.
      weights: of the constants whose numbers are their data's secret, who reads them first.
    """

    def __init__(self, held: Sequence[ir.Operation]) -> None:
        others = (place for place, op in enumerate(held) if op.name not in ops.CONSTANT_OPS)
        self.head = next(others, len(held))
        self.weights: dict[int, Place] = {}
        self.constants = {op.results[0]: place for place, op in enumerate(held[: self.head])}
        self.held = held
        self.known: dict[tuple[object, ...], int] = {}
        self.last: dict[ir.Value, Place] = {}
        self.kinds = [self._kind(place, op) for place, op in enumerate(held) if place >= self.head]

    def _kind(self, place: int, op: ir.Operation) -> int:
        key: list[object] = []
        self._reads = 0
        self._look(place, op, key, {})
        for number, result in enumerate(op.results):
            self.last[result] = (place, -1 - number)
        return self.known.setdefault(tuple(key), len(self.known))

    def _look(
        self, place: int, op: ir.Operation, key: list[object], inside: dict[ir.Value, int]
    ) -> None:
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
                    self._look(place, nested, key, inside)
                    for result in nested.results:
                        inside[result] = len(inside)

    def _read(self, place: int, value: ir.Value) -> object:
        """How far back the value was made or read last, and by which part of that op."""
        self._reads += 1
        here = (place, self._reads)
        before = self.last.get(value)
        self.last[value] = here
        if before is not None:
            return place - before[0], before[1]
        constant = self.constants.get(value)
        if constant is None:
            return value
        attribute = self.held[constant].attributes["value"]
        # What is not written out can be a splat to nobody who looks at the program.
        if isinstance(attribute, _SEEN) or not str(attribute).startswith(_UNSEEN):
            return attribute
        self.weights[constant] = here
        return value.type
