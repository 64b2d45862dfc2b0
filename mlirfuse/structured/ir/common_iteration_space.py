"""One iteration space for ops that are separated by reshapes.

A group norm computes its statistics over (batch, group, rest) and scales over (batch, channel,
height, width). Both group the same row-major digits, here (batch, group, channel of the group,
space). Over these digits every op reads its operands through projected permutations, and the
reshapes between the ops fold away.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import ops, slices

Digits = tuple[tuple[int, ...], ...]
"""Per tensor dimension or loop: the digits that make it up; none for a unit size."""


@dataclasses.dataclass(frozen=True, slots=True)
class Space:
    """An iteration space of digits that make up all values and loops of a group.

    Attributes:
      sizes: size of each digit; None for a dynamic one, which can only be the first.
      values: digits of each tensor that the group reads or writes.
      loops: digits of the loops of each `linalg.generic`.
    """

    sizes: tuple[int | None, ...]
    values: dict[ir.Value, Digits]
    loops: dict[ir.Operation, Digits]

    def reduced(self) -> frozenset[int]:
        """The digits over which the group reduces."""
        return frozenset(
            digit
            for op, loops in self.loops.items()
            for digits, kind in zip(loops, ops.iterator_types(op), strict=True)
            if kind == "reduction"
            for digit in digits
        )


def common_space(group: Sequence[ir.Operation]) -> Space | NoMatch:
    """The coarsest space for a group: its last op and the ops that compute its operands.

    Args:
      group: ops in block order; a region comes after the ops in it.

    Returns:
      The space, or a refusal: sizes that do not divide each other, a dynamic size that is not the
      first, an indexing map that is no projected permutation, an init whose data is read.
    """
    root = group[-1]
    for op in group:
        refusal = _refusal(op)
        if refusal is not None:
            return refusal
    total = ops.num_elements(root.results[0])
    shapes = [ops.shape(root.results[0])]
    for op in group:
        values = (op.operands[0], op.results[0]) if op.name in ops.RESHAPES else ()
        shapes += [ops.shape(v) for v in values if ops.num_elements(v) == total]
    sizes = _refined(shapes)
    if isinstance(sizes, NoMatch):
        return sizes
    return _Search(group, sizes).space()


def _refusal(op: ir.Operation) -> NoMatch | None:
    if op.name in ops.RESHAPES or op.name == ops.REGION:
        return None
    if None in ops.indexing_maps(op):
        return NoMatch(Reason.INDEXING_MAP, op.name)
    if any(_holds_data(v) for v in ops.inits(op)):
        return NoMatch(Reason.STRUCTURE, f"{op.name} reads its init")
    return None


def _holds_data(init: ir.Value) -> bool:
    op = ops.defining_op(init)
    return op is None or not slices.is_clonable(op)


def _refined(shapes: Iterable[tuple[int | None, ...]]) -> tuple[int | None, ...] | NoMatch:
    """The coarsest digits of which every one of the shapes of the same elements is a grouping."""
    dynamic = {shape[0] is None for shape in shapes if shape}
    cuts: set[int] = set()
    for shape in shapes:
        rest = shape[1:] if dynamic == {True} else shape
        if len(dynamic) != 1 or None in rest:
            return NoMatch(Reason.DYNAMIC_SHAPE, "a dimension other than the first is dynamic")
        cuts.update(itertools.accumulate(reversed(rest), lambda a, b: a * (b or 1), initial=1))
    ordered = sorted(cuts)
    digits = [large // small for small, large in itertools.pairwise(ordered)]
    if any(large % small for small, large in itertools.pairwise(ordered)):
        return NoMatch(Reason.SHAPE_MISMATCH, f"{sorted(shapes, key=str)} have no common digits")
    return (*((None,) if dynamic == {True} else ()), *reversed(digits))


class _Search:
    """Propagates digits from the root's result to every dimension and loop."""

    def __init__(self, group: Sequence[ir.Operation], sizes: tuple[int | None, ...]) -> None:
        self.group = group
        self.sizes = sizes
        self.values: dict[ir.Value, Digits] = {}
        self.loops: dict[ir.Operation, list[tuple[int, ...] | None]] = {}
        self.consistent = True

    def space(self) -> Space | NoMatch:
        refusal = NoMatch(Reason.STRUCTURE, "an op reads an operand in another element order")
        root = self.group[-1].results[0]
        digits = self.regroup(range(len(self.sizes)), ops.shape(root))
        if digits is None:
            return refusal
        self.values[root] = digits
        before = -1
        # Each round but the last finds the digits of a value or a loop.
        while before != (before := self.known()):
            for op in reversed(self.group):
                if op.name in ops.RESHAPES:
                    self.through_reshape(op)
                elif op.name == ops.REGION:
                    self.through_region(op)
                else:
                    self.through_generic(op)
        tensors = {v for op in self.group for v in self.tensors(op)}
        loops = {op: tuple(d for d in found if d is not None) for op, found in self.loops.items()}
        complete = all(None not in found for found in self.loops.values())
        # A reduction over unit sizes would become a copy.
        unit = any(
            kind == "reduction" and not digits
            for op, found in loops.items()
            for digits, kind in zip(found, ops.iterator_types(op), strict=False)
        )
        if not self.consistent or not complete or unit or tensors - set(self.values):
            return refusal
        if any(ops.shape(v) and not any(d) for v, d in self.values.items()):
            return NoMatch(Reason.STRUCTURE, "a tensor of one element")
        return _merged(Space(self.sizes, self.values, loops))

    def known(self) -> int:
        loops = sum(d is not None for found in self.loops.values() for d in found)
        return len(self.values) + loops

    @staticmethod
    def tensors(op: ir.Operation) -> list[ir.Value]:
        if op.name == ops.REGION:
            return list(op.results)
        operands = ops.inputs(op) if ops.is_generic(op) else [op.operands[0]]
        return [*operands, *op.results]

    def regroup(self, digits: Iterable[int], shape: Sequence[int | None]) -> Digits | None:
        """Distributes the digits over the dimensions, in order."""
        left = list(digits)
        grouped: list[tuple[int, ...]] = []
        for size in shape:
            taken: list[int] = []
            if size is None:
                if not left or self.sizes[left[0]] is not None:
                    return None
                taken.append(left.pop(0))
            else:
                count = 1
                while count < size and left:
                    # A dynamic digit makes the product zero, which equals no size.
                    count *= self.sizes[left[0]] or 0
                    taken.append(left.pop(0))
                if count != size:
                    return None
            grouped.append(tuple(taken))
        return None if left else tuple(grouped)

    def learn(self, value: ir.Value, digits: Digits | None) -> None:
        if digits is None or self.values.setdefault(value, digits) != digits:
            self.consistent = False

    def through_reshape(self, op: ir.Operation) -> None:
        source, result = op.operands[0], op.results[0]
        if source in self.values and result in self.values:
            # An operand of the reshape that another op reads along other loops.
            before, after = (itertools.chain(*self.values[v]) for v in (source, result))
            self.consistent &= list(before) == list(after)
        for known, other in ((source, result), (result, source)):
            if known in self.values and other not in self.values:
                flat = itertools.chain.from_iterable(self.values[known])
                self.learn(other, self.regroup(flat, ops.shape(other)))

    def through_region(self, op: ir.Operation) -> None:
        for result in op.results:
            inside = ops.yielded_value(result)
            for known, other in ((result, inside), (inside, result)):
                if known in self.values:
                    self.learn(other, self.values[known])

    def through_generic(self, op: ir.Operation) -> None:
        maps = ops.plain_maps(op)
        loops = self.loops.setdefault(op, [None] * len(ops.iterator_types(op)))
        values = [*ops.inputs(op), *op.results]
        for value, index_map in zip(values, maps, strict=True):
            for loop, digits in zip(index_map, self.values.get(value, ()), strict=False):
                if loop is None:
                    self.consistent &= not digits
                elif loops[loop] is None:
                    loops[loop] = digits
                else:
                    self.consistent &= loops[loop] == digits
        for value, index_map in zip(values, maps, strict=True):
            found = [() if loop is None else loops[loop] for loop in index_map]
            if value not in self.values and None not in found:
                self.learn(value, tuple(d for d in found if d is not None))


def _merged(space: Space) -> Space:
    """Merges adjacent digits that no value or loop separates."""
    used = [tuple(itertools.chain.from_iterable(d)) for d in space.values.values()]
    used += [tuple(itertools.chain.from_iterable(d)) for d in space.loops.values()]
    # A loop whose index is read keeps digits of its own.
    used += [d for op, loops in space.loops.items() if ops.reads_index(op) for d in loops]
    starts = [0]
    for digit in range(1, len(space.sizes)):
        mergeable = all(_are_adjacent(digit - 1, digit, flat) for flat in used)
        if not mergeable or space.sizes[digit - 1] is None:
            starts.append(digit)
    spans = [range(a, b) for a, b in zip(starts, [*starts[1:], len(space.sizes)], strict=True)]
    sizes: list[int | None] = []
    for span in spans:
        size = space.sizes[span[0]]
        for digit in span[1:]:
            size = None if size is None else size * (space.sizes[digit] or 1)
        sizes.append(size)
    merged = {
        digit: (index, digit == span[0]) for index, span in enumerate(spans) for digit in span
    }

    def renumber(digits: Digits) -> Digits:
        return tuple(tuple(merged[d][0] for d in group if merged[d][1]) for group in digits)

    return Space(
        tuple(sizes),
        {value: renumber(digits) for value, digits in space.values.items()},
        {op: renumber(digits) for op, digits in space.loops.items()},
    )


def _are_adjacent(first: int, second: int, flat: tuple[int, ...]) -> bool:
    if first not in flat and second not in flat:
        return True
    return (first, second) in itertools.pairwise(flat)
