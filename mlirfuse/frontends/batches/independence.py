"""Whether the samples of a batch are computed independently of each other.

The analysis follows the dimension of the samples through a module of static sizes. A tensor without
samples may repeat along a dimension that samples are combined with, as a bias does that was written
for each of them. A sample may be read by its own number.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
from iree.compiler import ir

from mlirfuse.frontends.batches.own_samples import counted_axis, own_samples, read_indices
from mlirfuse.frontends.batches.states import Access, Dependent, State, accesses
from mlirfuse.structured.ir import ops

COMPARED_ELEMENTS = 1 << 20
"""Largest constant whose rows are compared, in elements."""

_BARRIER = "util.optimization_barrier"


def small_array(attribute: ir.Attribute) -> np.ndarray | None:
    """The elements of a constant tensor; None where they are many, or not in the module's text."""
    if not isinstance(attribute, ir.DenseElementsAttr):
        return None
    if not attribute.is_splat and len(attribute) > COMPARED_ELEMENTS:
        return None
    try:
        return np.array(attribute.get_splat_value().value if attribute.is_splat else attribute)
    except (AttributeError, TypeError, ValueError):  # an element type without an equivalent
        return None


@dataclasses.dataclass(slots=True)
class Work:
    """Multiplications with weights.

    Attributes:
      total: of one sample.
      few_rows: those of products that have `FEW_ROWS` rows a sample or fewer.
    """

    total: float = 0
    few_rows: float = 0


FEW_ROWS = 4


def analyze(function: ir.Operation, axes: Sequence[bool]) -> Work:
    """Follows the samples from the arguments to the results.

    Args:
      function: the function, of static sizes and without named structured ops.
      axes: whether the first dimension of an argument is that of the samples.

    Raises:
      Dependent: the samples of a result are not independent, or not its first dimension.
    """
    return _Analysis(function, axes).run()


class _Analysis:
    def __init__(self, function: ir.Operation, axes: Sequence[bool]) -> None:
        self.block = function.regions[0].blocks[0]
        self.states: dict[ir.Value, State] = {
            argument: State(0)
            for argument, has in zip(self.block.arguments, axes, strict=True)
            if has
        }
        self.work = Work()
        self.rules: dict[str, Callable[[ir.Operation], State]] = {
            "tensor.empty": self._same,
            "arith.constant": self._constant,
            "tensor.cast": self._kept,
            "tensor.pad": self._pad,
            "tensor.concat": self._concat,
            "tensor.extract_slice": self._extract_slice,
            "tensor.insert_slice": self._insert_slice,
            "tensor.expand_shape": self._expand,
            "tensor.collapse_shape": self._collapse,
            "linalg.softmax": self._softmax,
        }

    def run(self) -> Work:
        for view in self.block.operations:
            op = view.operation
            if op.name.endswith(".return"):
                if any(self._of(value) != State(0) for value in op.operands):
                    raise Dependent("a result is no batch of samples")
            elif "indexing_maps" in op.attributes:
                self._generic(op)
            elif op.name == _BARRIER:
                for operand, result in zip(op.operands, op.results, strict=True):
                    self.states[result] = self._of(operand)
            elif op.name in self.rules:
                for result in op.results:
                    self.states[result] = self.rules[op.name](op)
            elif any(self._of(value).axis is not None for value in ops.external_operands(op)):
                raise Dependent(f"{op.name} of samples")
        return self.work

    def _of(self, value: ir.Value) -> State:
        return self.states.get(value, State())

    @staticmethod
    def _same(op: ir.Operation) -> State:
        return State(periods=dict.fromkeys(range(len(ops.shape(op.results[0]))), 1))

    @staticmethod
    def _constant(op: ir.Operation) -> State:
        attribute, rank = op.attributes["value"], len(ops.shape(op.results[0]))
        if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
            return State(periods=dict.fromkeys(range(rank), 1))
        array = small_array(attribute)
        if array is None:
            return State()
        return State(periods={d: n for d in range(rank) if (n := _period(array, d))})

    def _kept(self, op: ir.Operation) -> State:
        return self._of(op.operands[0])

    def _softmax(self, op: ir.Operation) -> State:
        found, axis = self._of(op.operands[0]), ops.softmax_axis(op)
        if found.axis == axis:
            raise Dependent("softmax over samples")
        kept = {d: n for d, n in found.periods.items() if d != axis}
        return State(found.axis, found.rows, kept)

    def _pad(self, op: ir.Operation) -> State:
        found, amounts = self._of(op.operands[0]), ops.padding_amounts(op)
        if len(op.operands) > 1 or amounts is None or ops.padding_value(op) is None:
            if found.axis is not None:
                raise Dependent("padding of samples by computed amounts or values")
            return State()
        if found.axis is not None and any(amounts[found.axis]):
            raise Dependent("padding between samples")
        kept = {d: n for d, n in found.periods.items() if not any(amounts[d])}
        return State(found.axis, found.rows, kept)

    def _concat(self, op: ir.Operation) -> State:
        return self._joined(list(op.operands), int(op.attributes["dim"].value))

    def _joined(self, parts: Sequence[ir.Value], axis: int | None) -> State:
        """Tensors beside each other along an axis; in one another for None."""
        found = [self._of(part) for part in parts]
        shared = set.intersection(*(set(state.periods) for state in found)) - {axis}
        batched = {(s.axis, s.rows) for s in found if s.axis is not None}
        if not batched:
            return State(periods={d: math.lcm(*(s.periods[d] for s in found)) for d in shared})
        ((position, rows),) = batched if len(batched) == 1 else ((None, 0),)
        if position is None or position == axis:
            raise Dependent("samples beside others")
        if any(s.axis is None and not _repeats(s, position, rows) for s in found):
            raise Dependent("samples beside other tensors")
        return State(position, rows)

    def _extract_slice(self, op: ir.Operation) -> State:
        source, result = op.operands[0], op.results[0]
        found, sizes = self._of(source), ops.shape(source)
        kept = _whole_axes(op, sizes)
        if found.axis is not None and found.axis not in kept:
            raise Dependent("a part of the samples")
        places = _places(list(op.attributes["static_sizes"]), ops.shape(result))
        axis = None if found.axis is None else places[found.axis]
        periods = {
            place: n
            for d, n in found.periods.items()
            if d in kept and (place := places[d]) is not None
        }
        return State(axis, found.rows, periods)

    def _insert_slice(self, op: ir.Operation) -> State:
        part, whole = op.operands[0], op.operands[1]
        if self._of(part).axis is None and self._of(whole).axis is None:
            return State()
        if len(ops.shape(part)) != len(ops.shape(whole)):
            raise Dependent("samples as a part of lower rank")
        state = self._joined([part, whole], None)
        if state.axis not in _whole_axes(op, ops.shape(whole)):
            raise Dependent("a part of the samples")
        return State(state.axis, state.rows)

    def _expand(self, op: ir.Operation) -> State:
        found, sizes = self._of(op.operands[0]), ops.shape(op.results[0])
        groups = ops.reassociation(op)
        periods: dict[int, int] = {}
        for group, period in found.periods.items():
            for axis in groups[group]:
                inner = math.prod(sizes[d] or 0 for d in groups[group] if d > axis)
                if inner % period == 0:
                    periods[axis] = 1
                elif period % inner == 0 and period // inner < (sizes[axis] or 0):
                    periods[axis] = period // inner
                else:
                    break
        if found.axis is None:
            counted = None
            if found.counted is not None:
                wide = [d for d in groups[found.counted] if sizes[d] != 1]
                counted = wide[0] if len(wide) == 1 else None
            return State(periods=periods, counted=counted)
        rows = found.rows
        for axis in groups[found.axis]:
            size = sizes[axis] or 0
            if size == 1:
                continue
            inner = math.prod(sizes[d] or 0 for d in groups[found.axis] if d > axis)
            if rows % inner:
                raise Dependent("a dimension of parts of samples")
            return State(axis, rows // inner, periods)
        raise Dependent("no dimension of samples")

    def _collapse(self, op: ir.Operation) -> State:
        found, sizes = self._of(op.operands[0]), ops.shape(op.operands[0])
        groups = ops.reassociation(op)
        periods: dict[int, int] = {}
        for number, group in enumerate(groups):
            wide = [d for d in group if sizes[d] != 1]
            if all(found.periods.get(d) == 1 for d in wide):
                periods[number] = 1
            elif wide and wide[0] in found.periods:
                inner = math.prod(sizes[d] or 0 for d in wide[1:])
                periods[number] = found.periods[wide[0]] * inner
        if found.axis is None:
            return State(periods=periods)
        position = next(n for n, group in enumerate(groups) if found.axis in group)
        if any(sizes[d] != 1 for d in groups[position] if d < found.axis):
            raise Dependent("samples inside of a dimension")
        inner = math.prod(sizes[d] or 0 for d in groups[position] if d > found.axis)
        return State(position, found.rows * inner, periods)

    def _generic(self, op: ir.Operation) -> None:
        maps = [accesses(attribute) for attribute in op.attributes["indexing_maps"]]
        states = [self._of(value) for value in op.operands]
        batched = {
            (access[state.axis][0], state.rows)
            for access, state in zip(maps, states, strict=True)
            if state.axis is not None
        }
        chosen = own_samples(op, maps, states, self._of)
        batched |= {(loop, 1) for loop in chosen.values()}
        indices = read_indices(op, chosen)
        if not batched:
            self._without_samples(op, maps, states, indices)
            return
        ((loop, rows),) = batched if len(batched) == 1 else ((None, 0),)
        if loop is None or loop in indices or ops.iterator_types(op)[loop] != "parallel":
            raise Dependent("samples that meet in a loop")
        for number, (access, state) in enumerate(zip(maps, states, strict=True)):
            for position, (plain, used) in enumerate(access):
                if loop not in used or position == state.axis or number in chosen:
                    continue
                if state.axis is not None or plain != loop or not _repeats(state, position, rows):
                    raise Dependent("samples and a dimension of another tensor")
        first = ops.num_inputs(op)
        for access, result in zip(maps[first:], op.results, strict=True):
            axes = [n for n, (plain, _) in enumerate(access) if plain == loop]
            if len(axes) != 1:
                raise Dependent("a result without a dimension of samples")
            self.states[result] = State(axes[0], rows)
        self._count(op, maps, states, loop, rows)

    def _without_samples(
        self,
        op: ir.Operation,
        maps: Sequence[Access],
        states: Sequence[State],
        indices: set[int],
    ) -> None:
        for access, result in zip(maps[ops.num_inputs(op) :], op.results, strict=True):
            periods = {}
            for position, (loop, _) in enumerate(access):
                if loop is None or loop in indices:
                    continue
                read = [
                    state.periods.get(place, 0) if plain == loop else 0
                    for other, state in zip(maps, states, strict=True)
                    for place, (plain, used) in enumerate(other)
                    if loop in used
                ]
                if all(read):
                    periods[position] = math.lcm(1, *read)
            self.states[result] = State(periods=periods, counted=counted_axis(op, access))

    def _count(
        self,
        op: ir.Operation,
        maps: Sequence[Access],
        states: Sequence[State],
        loop: int,
        rows: int,
    ) -> None:
        """Counts the multiplications of a product with weights."""
        kinds, sizes = ops.iterator_types(op), ops.loop_sizes(op)
        weights = [
            {d for _, used in access for d in used}
            for access, state in zip(maps[: ops.num_inputs(op)], states, strict=False)
            if state.axis is None and any(state.periods.get(d) != 1 for d in range(len(access)))
        ]
        if "reduction" not in kinds or not weights:
            return
        number = math.prod(n or 1 for d, n in enumerate(sizes) if d != loop) * rows
        used = set().union(*weights)
        if not any(kinds[d] == "reduction" for d in used):
            return
        free = [d for d, kind in enumerate(kinds) if kind == "parallel" and d not in used]
        times = math.prod(sizes[d] or 1 for d in free if d != loop) * rows
        self.work.total += number
        if times <= FEW_ROWS:
            self.work.few_rows += number


def _period(array: np.ndarray, axis: int) -> int:
    """The number of elements after which those along an axis repeat; 0 where they do not."""
    size = array.shape[axis]
    for period in (1, size // 2):
        if size and period and size % period == 0 and period < max(size, 2):
            parts = np.split(array, size // period, axis)
            if all((part == parts[0]).all() for part in parts):
                return period
    return 0


def _repeats(state: State, axis: int, rows: int) -> bool:
    """Whether a tensor is the same for each sample of so many rows along an axis."""
    return axis in state.periods and rows % state.periods[axis] == 0


def _whole_axes(op: ir.Operation, sizes: Sequence[int | None]) -> set[int]:
    """The axes of a tensor that a slice has all of."""
    offsets, lengths, strides = (
        list(op.attributes[f"static_{name}"]) for name in ("offsets", "sizes", "strides")
    )
    return {
        axis
        for axis, size in enumerate(sizes)
        if (offsets[axis], lengths[axis], strides[axis]) == (0, size, 1)
    }


def _places(sizes: Sequence[int], kept: Sequence[int | None]) -> list[int | None]:
    """For each dimension its place among those that are kept; None for one of size 1 that is not.

    Args:
      sizes: of all dimensions.
      kept: sizes of those that are kept, in order.
    """
    places: list[int | None] = []
    left = list(kept)
    for index, size in enumerate(sizes):
        dropped = len(sizes) - index > len(left)
        if left and left[0] == size and not (size == 1 and dropped):
            places.append(len(kept) - len(left))
            left.pop(0)
        else:
            places.append(None)
    return places
