"""Whether the samples of a batch are computed independently of each other.

The analysis follows the dimension of the samples through a module of static sizes. A tensor without
samples may be the same along a dimension that samples are combined with, as a bias is that was
repeated for each of them.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Sequence

import numpy as np
from iree.compiler import ir

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
      uniform: dimensions along which all elements are the same.
    """

    axis: int | None = None
    rows: int = 1
    uniform: frozenset[int] = frozenset()


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
        return _State(uniform=frozenset(range(len(ops.shape(op.results[0])))))

    @staticmethod
    def _constant(op: ir.Operation) -> _State:
        attribute, rank = op.attributes["value"], len(ops.shape(op.results[0]))
        if isinstance(attribute, ir.DenseElementsAttr) and ir.DenseElementsAttr(attribute).is_splat:
            return _State(uniform=frozenset(range(rank)))
        array = small_array(attribute)
        if array is None:
            return _State()
        same = (d for d in range(rank) if (array == array.take([0], d)).all())
        return _State(uniform=frozenset(same))

    def _kept(self, op: ir.Operation) -> _State:
        return self._of(op.operands[0])

    def _softmax(self, op: ir.Operation) -> _State:
        found, axis = self._of(op.operands[0]), ops.softmax_axis(op)
        if found.axis == axis:
            raise Dependent("softmax over samples")
        return _State(found.axis, found.rows, found.uniform - {axis})

    def _pad(self, op: ir.Operation) -> _State:
        found, amounts = self._of(op.operands[0]), ops.padding_amounts(op)
        if len(op.operands) > 1 or amounts is None or ops.padding_value(op) is None:
            if found.axis is not None:
                raise Dependent("padding of samples by computed amounts or values")
            return _State()
        if found.axis is not None and any(amounts[found.axis]):
            raise Dependent("padding between samples")
        kept = frozenset(d for d in found.uniform if not any(amounts[d]))
        return _State(found.axis, found.rows, kept)

    def _concat(self, op: ir.Operation) -> _State:
        return self._joined(list(op.operands), int(op.attributes["dim"].value))

    def _joined(self, parts: Sequence[ir.Value], axis: int | None) -> _State:
        """Tensors beside each other along an axis; in one another for None."""
        found = [self._of(part) for part in parts]
        uniform = frozenset.intersection(*(state.uniform for state in found)) - {axis}
        batched = {(s.axis, s.rows) for s in found if s.axis is not None}
        if not batched:
            return _State(uniform=uniform)
        ((position, rows),) = batched if len(batched) == 1 else ((None, 0),)
        if position is None or position == axis:
            raise Dependent("samples beside others")
        if any(s.axis is None and position not in s.uniform for s in found):
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
        uniform = frozenset(p for d in found.uniform if (p := places[d]) is not None)
        return _State(axis, found.rows, uniform)

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
        uniform = frozenset(d for g in found.uniform for d in groups[g])
        if found.axis is None:
            return _State(uniform=uniform)
        rows = found.rows
        for axis in groups[found.axis]:
            size = sizes[axis] or 0
            if size == 1:
                continue
            inner = math.prod(sizes[d] or 0 for d in groups[found.axis] if d > axis)
            if rows % inner:
                raise Dependent("a dimension of parts of samples")
            return _State(axis, rows // inner, uniform)
        raise Dependent("no dimension of samples")

    def _collapse(self, op: ir.Operation) -> _State:
        found, sizes = self._of(op.operands[0]), ops.shape(op.operands[0])
        groups = ops.reassociation(op)
        uniform = frozenset(n for n, g in enumerate(groups) if found.uniform.issuperset(g))
        if found.axis is None:
            return _State(uniform=uniform)
        position = next(n for n, group in enumerate(groups) if found.axis in group)
        if any(sizes[d] != 1 for d in groups[position] if d < found.axis):
            raise Dependent("samples inside of a dimension")
        inner = math.prod(sizes[d] or 0 for d in groups[position] if d > found.axis)
        return _State(position, found.rows * inner, uniform)

    def _generic(self, op: ir.Operation) -> None:
        maps = [_accesses(attribute) for attribute in op.attributes["indexing_maps"]]
        states = [self._of(value) for value in op.operands]
        indices, captured = _body(op)
        if any(self._of(value).axis is not None for value in captured):
            raise Dependent("elements of samples by computed indices")
        batched = {
            (access[state.axis][0], state.rows)
            for access, state in zip(maps, states, strict=True)
            if state.axis is not None
        }
        if not batched:
            self._without_samples(op, maps, states, indices)
            return
        ((loop, rows),) = batched if len(batched) == 1 else ((None, 0),)
        if loop is None or loop in indices or ops.iterator_types(op)[loop] != "parallel":
            raise Dependent("samples that meet in a loop")
        for access, state in zip(maps, states, strict=True):
            for position, (plain, used) in enumerate(access):
                if loop not in used or position == state.axis:
                    continue
                if state.axis is not None or plain != loop or position not in state.uniform:
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
            uniform = {
                position
                for position, (loop, _) in enumerate(access)
                if loop is not None
                and loop not in indices
                and all(
                    plain == loop and place in state.uniform
                    for other, state in zip(maps, states, strict=True)
                    for place, (plain, used) in enumerate(other)
                    if loop in used
                )
            }
            self.states[result] = _State(uniform=frozenset(uniform))

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
            if state.axis is None and len(state.uniform) < len(access)
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


def _body(op: ir.Operation) -> tuple[set[int], list[ir.Value]]:
    """The loops whose indices the body of an op reads, and the tensors that it reads."""
    indices: set[int] = set()
    for inner in op.regions[0].blocks[0].operations if len(op.regions) else ():
        if inner.operation.name == "linalg.index":
            indices.add(int(inner.operation.attributes["dim"].value))
    return indices, [v for v in _read(op) if v not in list(op.operands)]


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
