"""Whether the samples of a batch are computed independently of each other.

The analysis follows the dimension of the samples through a module of static sizes. A tensor without
samples may repeat along a dimension that samples are combined with, as a bias does that was written
for each of them. A sample may be read by its own number.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from iree.compiler import ir

from mlirfuse.structured.expr.predicates import SLT
from mlirfuse.structured.ir import ops

COMPARED_ELEMENTS = 1 << 20
"""Largest constant whose rows are compared, in elements."""

_BARRIER = "util.optimization_barrier"

_DIM = re.compile(r"d(\d+)")


def small_array(attribute: ir.Attribute) -> np.ndarray | None:
    """The elements of a constant tensor; None where they are many, or not in the module's text."""
    if not isinstance(attribute, ir.DenseElementsAttr):
        return None
    dense = ir.DenseElementsAttr(attribute)
    if not dense.is_splat and len(dense) > COMPARED_ELEMENTS:
        return None
    try:
        return np.array(dense.get_splat_value().value if dense.is_splat else dense)
    except (AttributeError, TypeError, ValueError):  # an element type without an equivalent
        return None


class Dependent(Exception):
    """A sample depends on another one, or the analysis cannot tell that it does not."""


@dataclasses.dataclass(frozen=True, slots=True)
class _State:
    """A tensor.

    Attributes:
      axis: the dimension of the samples; None where it has none.
      rows: elements of that dimension that one sample has.
      periods: dimension -> the number of elements after which they repeat.
      counted: the dimension whose indices are the elements; None for others.
    """

    axis: int | None = None
    rows: int = 1
    periods: Mapping[int, int] = dataclasses.field(default_factory=dict)
    counted: int | None = None


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
        self.states: dict[ir.Value, _State] = {
            argument: _State(0)
            for argument, has in zip(self.block.arguments, axes, strict=True)
            if has
        }
        self.work = Work()
        self.rules: dict[str, Callable[[ir.Operation], _State]] = {
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
                if any(self._of(value) != _State(0) for value in op.operands):
                    raise Dependent("a result is no batch of samples")
            elif "indexing_maps" in op.attributes:
                self._generic(op)
            elif op.name == _BARRIER:
                for operand, result in zip(op.operands, op.results, strict=True):
                    self.states[result] = self._of(operand)
            elif op.name in self.rules:
                for result in op.results:
                    self.states[result] = self.rules[op.name](op)
            elif any(self._of(value).axis is not None for value in _read(op)):
                raise Dependent(f"{op.name} of samples")
        return self.work

    def _of(self, value: ir.Value) -> _State:
        return self.states.get(value, _State())

    @staticmethod
    def _same(op: ir.Operation) -> _State:
        return _State(periods=dict.fromkeys(range(len(ops.shape(op.results[0]))), 1))

    @staticmethod
    def _constant(op: ir.Operation) -> _State:
        attribute, rank = op.attributes["value"], len(ops.shape(op.results[0]))
        if isinstance(attribute, ir.DenseElementsAttr) and ir.DenseElementsAttr(attribute).is_splat:
            return _State(periods=dict.fromkeys(range(rank), 1))
        array = small_array(attribute)
        if array is None:
            return _State()
        return _State(periods={d: n for d in range(rank) if (n := _period(array, d))})

    def _kept(self, op: ir.Operation) -> _State:
        return self._of(op.operands[0])

    def _softmax(self, op: ir.Operation) -> _State:
        found, axis = self._of(op.operands[0]), ops.softmax_axis(op)
        if found.axis == axis:
            raise Dependent("softmax over samples")
        kept = {d: n for d, n in found.periods.items() if d != axis}
        return _State(found.axis, found.rows, kept)

    def _pad(self, op: ir.Operation) -> _State:
        found, amounts = self._of(op.operands[0]), ops.padding_amounts(op)
        if len(op.operands) > 1 or amounts is None or ops.padding_value(op) is None:
            if found.axis is not None:
                raise Dependent("padding of samples by computed amounts or values")
            return _State()
        if found.axis is not None and any(amounts[found.axis]):
            raise Dependent("padding between samples")
        kept = {d: n for d, n in found.periods.items() if not any(amounts[d])}
        return _State(found.axis, found.rows, kept)

    def _concat(self, op: ir.Operation) -> _State:
        return self._joined(list(op.operands), int(op.attributes["dim"].value))

    def _joined(self, parts: Sequence[ir.Value], axis: int | None) -> _State:
        """Tensors beside each other along an axis; in one another for None."""
        found = [self._of(part) for part in parts]
        shared = set.intersection(*(set(state.periods) for state in found)) - {axis}
        batched = {(s.axis, s.rows) for s in found if s.axis is not None}
        if not batched:
            return _State(periods={d: math.lcm(*(s.periods[d] for s in found)) for d in shared})
        ((position, rows),) = batched if len(batched) == 1 else ((None, 0),)
        if position is None or position == axis:
            raise Dependent("samples beside others")
        if any(s.axis is None and not _repeats(s, position, rows) for s in found):
            raise Dependent("samples beside other tensors")
        return _State(position, rows)

    def _extract_slice(self, op: ir.Operation) -> _State:
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
        return _State(axis, found.rows, periods)

    def _insert_slice(self, op: ir.Operation) -> _State:
        part, whole = op.operands[0], op.operands[1]
        if self._of(part).axis is None and self._of(whole).axis is None:
            return _State()
        if len(ops.shape(part)) != len(ops.shape(whole)):
            raise Dependent("samples as a part of lower rank")
        state = self._joined([part, whole], None)
        if state.axis not in _whole_axes(op, ops.shape(whole)):
            raise Dependent("a part of the samples")
        return _State(state.axis, state.rows)

    def _expand(self, op: ir.Operation) -> _State:
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
            return _State(periods=periods, counted=counted)
        rows = found.rows
        for axis in groups[found.axis]:
            size = sizes[axis] or 0
            if size == 1:
                continue
            inner = math.prod(sizes[d] or 0 for d in groups[found.axis] if d > axis)
            if rows % inner:
                raise Dependent("a dimension of parts of samples")
            return _State(axis, rows // inner, periods)
        raise Dependent("no dimension of samples")

    def _collapse(self, op: ir.Operation) -> _State:
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
            return _State(periods=periods)
        position = next(n for n, group in enumerate(groups) if found.axis in group)
        if any(sizes[d] != 1 for d in groups[position] if d < found.axis):
            raise Dependent("samples inside of a dimension")
        inner = math.prod(sizes[d] or 0 for d in groups[position] if d > found.axis)
        return _State(position, found.rows * inner, periods)

    def _generic(self, op: ir.Operation) -> None:
        maps = [_accesses(attribute) for attribute in op.attributes["indexing_maps"]]
        states = [self._of(value) for value in op.operands]
        batched = {
            (access[state.axis][0], state.rows)
            for access, state in zip(maps, states, strict=True)
            if state.axis is not None
        }
        chosen = self._own_samples(op, maps, states)
        batched |= {(loop, 1) for loop in chosen.values()}
        indices = _indices(op, chosen)
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
            self.states[result] = _State(axes[0], rows)
        self._count(op, maps, states, loop, rows)

    def _without_samples(
        self,
        op: ir.Operation,
        maps: Sequence[_Access],
        states: Sequence[_State],
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
            self.states[result] = _State(periods=periods, counted=_counted(op, access))

    def _own_samples(
        self, op: ir.Operation, maps: Sequence[_Access], states: Sequence[_State]
    ) -> dict[object, int]:
        """The loops whose index is the number of a sample that the body of an op reads.

        Returns:
          Operand, or op of the body, that is that index -> the loop.

        Raises:
          Dependent: the body reads samples by other numbers.
        """
        chosen: dict[object, int] = {}
        if not len(op.regions):
            return chosen
        block = op.regions[0].blocks[0]
        arguments = {argument: n for n, argument in enumerate(block.arguments)}
        for value in _captured(op):
            state = self._of(value)
            if state.axis is None:
                continue
            for user in ops.users(value):
                if user.block != block:
                    continue
                if user.name != "tensor.extract" or state.rows != 1:
                    raise Dependent("elements of samples by computed indices")
                source = _index_source(user.operands[1 + state.axis])
                number = arguments.get(source)
                if number is not None:
                    position = states[number].counted
                    loop = None if position is None else maps[number][position][0]
                    key: object = number
                else:
                    inner = ops.defining_op(source)
                    is_index = inner is not None and inner.name == "linalg.index"
                    loop = int(inner.attributes["dim"].value) if is_index and inner else None
                    key = inner
                if loop is None or not _only_chooses(source, state.axis, self._of):
                    raise Dependent("elements of samples by computed indices")
                chosen[key] = loop
        return chosen

    def _count(
        self,
        op: ir.Operation,
        maps: Sequence[_Access],
        states: Sequence[_State],
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


_Access = list[tuple[int | None, frozenset[int]]]
"""For each dimension of an operand: its loop, if its index is one, and the loops in its index."""


def _accesses(attribute: ir.Attribute) -> _Access:
    found: _Access = []
    for expression in ir.AffineMapAttr(attribute).value.results:
        text = str(expression)
        used = frozenset(map(int, _DIM.findall(text)))
        plain = next(iter(used)) if _DIM.fullmatch(text) else None
        found.append((plain, used))
    return found


def _indices(op: ir.Operation, chosen: Mapping[object, int]) -> set[int]:
    """The loops whose indices the body of an op reads, besides to choose a sample."""
    return {
        int(inner.operation.attributes["dim"].value)
        for inner in (op.regions[0].blocks[0].operations if len(op.regions) else ())
        if inner.operation.name == "linalg.index" and inner.operation not in chosen
    }


def _captured(op: ir.Operation) -> list[ir.Value]:
    """The tensors that the body of an op reads."""
    held = list(op.operands)
    found = (v for v in _read(op) if v not in held and ops.ranked(v) is not None)
    return list(dict.fromkeys(found))


_CHOOSING = frozenset({"arith.cmpi", "arith.addi", "arith.select", "arith.index_cast"})
"""Ops that turn an index, which may be negative, into that of an element."""


def _index_source(index: ir.Value) -> ir.Value:
    """The number that an index is, with the size added where it is negative."""
    op = ops.defining_op(index)
    if op is None or op.name not in ("arith.index_cast", "arith.select"):
        return index
    if op.name == "arith.index_cast":
        return _index_source(op.operands[0])
    condition, added = ops.defining_op(op.operands[0]), ops.defining_op(op.operands[1])
    number = op.operands[2]
    wraps = (
        condition is not None
        and added is not None
        and (condition.name, added.name) == ("arith.cmpi", "arith.addi")
        and condition.operands[0] == number
        and added.operands[0] == number
        and ops.predicate(condition) == SLT
        and ops.constant(condition.operands[1]) == 0
    )
    return _index_source(number) if wraps else index


def _only_chooses(number: ir.Value, axis: int, state: Callable[[ir.Value], _State]) -> bool:
    """Whether a number is used as the index of samples alone."""
    for user in ops.users(number):
        if user.name == "tensor.extract":
            places = [n for n, v in enumerate(user.operands) if v == number]
            if places != [1 + axis] or state(user.operands[0]).axis != axis:
                return False
        elif user.name not in _CHOOSING or not _only_chooses(user.results[0], axis, state):
            return False
    return True


def _counted(op: ir.Operation, access: _Access) -> int | None:
    """The dimension of a result whose indices are its elements."""
    if not len(op.regions):
        return None
    (value,) = list(op.regions[0].blocks[0].operations)[-1].operation.operands[:1] or (None,)
    source = None if value is None else ops.defining_op(value)
    if source is not None and source.name == "arith.index_cast":
        source = ops.defining_op(source.operands[0])
    if source is None or source.name != "linalg.index":
        return None
    loop = int(source.attributes["dim"].value)
    found = [position for position, (plain, _) in enumerate(access) if plain == loop]
    return found[0] if len(found) == 1 else None


def _period(array: np.ndarray, axis: int) -> int:
    """The number of elements after which those along an axis repeat; 0 where they do not."""
    size = array.shape[axis]
    for period in (1, size // 2):
        if size and period and size % period == 0 and period < max(size, 2):
            parts = np.split(array, size // period, axis)
            if all((part == parts[0]).all() for part in parts):
                return period
    return 0


def _repeats(state: _State, axis: int, rows: int) -> bool:
    """Whether a tensor is the same for each sample of so many rows along an axis."""
    return axis in state.periods and rows % state.periods[axis] == 0


def _read(op: ir.Operation) -> list[ir.Value]:
    """The operands of an op and of those in its regions."""
    found = list(op.operands)
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                found += _read(inner.operation)
    return found


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
