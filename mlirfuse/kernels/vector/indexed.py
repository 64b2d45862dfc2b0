"""Elementwise ops on vectors whose operands are read at linear indices: flips and shifts.

body = Indexed(writer, lanes, members, sizes, merged=2)
body.vector(value, (0, Shifted((0, 1), -1, 99)), position)     99 minus the index of axis 1

The last axes of the kernel may be merged to one: the index of the last of them counts the elements
of all, as far as each operand has them whole as its last dimensions, or none of them. Of other
operands the elements of each lane are gathered, in a kernel that does so.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.indices import Index, Named, Shifted, of_scalar
from mlirfuse.kernels.vector import interleaving
from mlirfuse.kernels.vector.memory import MAX_SPACING
from mlirfuse.kernels.vector.pointwise import Axes, Pointwise, Position
from mlirfuse.kernels.vector.writer import Linear, Writer, linear
from mlirfuse.structured.expr.index_values import BodyValues
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.strided_views import strided_view


@dataclasses.dataclass(frozen=True, slots=True)
class EachLane:
    """An index that is computed for each lane.

    Attributes:
      vector: the name of the vector of them.
    """

    vector: str


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """An index that is known for each lane when the kernel is written.

    Attributes:
      indices: the index of each lane.
    """

    indices: tuple[int, ...]


Place = int | Shifted | Named | EachLane | Known | None
"""The index along a dimension of a tensor: an axis of the kernel, linear in one, the name of a
computed one that all lanes have in common, a vector of computed ones, known ones, or 0."""


def as_indices(places: Sequence[Place]) -> list[Index]:
    """Places as indices in axes of group 0, of which others are computed.

    Raises:
      Unsupported: one is a vector of computed indices.
    """
    found: list[Index] = []
    for place in places:
        if isinstance(place, EachLane | Known):
            raise Unsupported("an index that is computed from a computed index")
        found.append((0, place) if isinstance(place, int) else place)
    return found


def as_place(index: Index) -> Place:
    """An index in axes of group 0 as a place."""
    return index[1] if isinstance(index, tuple) else index


MAX_I32 = (1 << 31) - 1
"""The largest index that is an i32."""


class NotMerged(Unsupported):
    """An operand does not have the merged axes as its last dimensions."""


class Transposed(Unsupported):
    """Elements of adjacent lanes of an operand are not adjacent, but those along another axis are.

    Attributes:
      axis: that axis, of a vector of elements at least.
    """

    def __init__(self, axis: int) -> None:
        super().__init__("an operand whose channels are not contiguous")
        self.axis = axis


class _ComputedError(Exception):
    """An index is linear in no axis."""


def _refused(value: ir.Value) -> str:
    raise _ComputedError


class Indexed(Pointwise):
    """Writes the elementwise ops of one kernel.

    Args:
      writer: the lines of the kernel.
      lanes: elements of a vector.
      members: ops that the kernel computes.
      sizes: the sizes of the kernel's axes, each of several elements.
      merged: how many of the last ones are one.
      gathers: whether operands are gathered that do not have these as they are.

    Attributes:
      sizes: the sizes of the kernel's axes.
      num_gathers: vectors that were gathered for this.
      across: an axis whose elements are adjacent in operands that have those of the lanes at a
        distance: as many positions as there are lanes, with adjacent indices of it, begin their
        keys with their numbers; None where there are no such positions.
    """

    def __init__(
        self,
        writer: Writer,
        lanes: int,
        members: Collection[ir.Operation],
        sizes: Sequence[int],
        merged: int = 1,
        *,
        gathers: bool = False,
    ) -> None:
        super().__init__(writer, lanes, gathers=gathers)
        self.num_gathers = 0
        self.across: int | None = None
        self._tiles: dict[tuple[ir.Value, Axes, tuple[int | str, ...]], list[str]] = {}
        self._members = set(members)
        self._values: dict[ir.Operation, BodyValues] = {}
        self._indices: dict[tuple[int, ir.Value], tuple[ir.Operation, Any, Position]] = {}
        self.sizes = tuple(sizes)
        self._merged = list(range(len(sizes) - merged, len(sizes)))
        self._inner_sizes = list(sizes[len(sizes) - merged + 1 :])

    def forget(self) -> None:
        """Starts a part of the kernel in which earlier vectors are out of scope."""
        super().forget()
        self._tiles.clear()

    def place(self, index: Index) -> Any:
        """An index in axes of the kernel, all of group 0, as a place."""
        return as_place(index)

    def computes(self, op: ir.Operation) -> bool:
        """Whether the kernel computes the results of an op."""
        return op in self._members

    def apply_inner(
        self,
        op: ir.Operation,
        loops: Mapping[int, Any] | Sequence[Any],
        values: dict[ir.Value, str],
        position: Position,
    ) -> None:
        """Writes an op in the body of an elementwise op.

        Indices are written when an op reads them other than as an index of an element.
        """
        if op.results and ops.element_type(op.results[0]) == "index":
            self._indices[id(values), op.results[0]] = (op, loops, position)
        else:
            super().apply_inner(op, loops, values, position)

    def element(
        self,
        op: ir.Operation,
        loops: Mapping[int, Any] | Sequence[Any],
        values: dict[ir.Value, str],
        position: Position,
    ) -> str:
        """The lanes of an element of a tensor at linear, computed or known indices."""
        assert isinstance(loops, Mapping)
        known = as_indices([loops[n] for n in sorted(loops)])
        tensor, *indices = op.operands
        vectors: set[str] = set()

        def named(value: ir.Value) -> str:
            """The name of a computed index: a scalar where all lanes have it in common."""
            vector = self.scalar(value, values)
            if not axes_of(value, loops).isdisjoint(self._merged):
                vectors.add(vector)
                return vector
            return self.of_first_lane(vector, "index")

        def place(value: ir.Value) -> Any:
            try:
                return self.place(of_scalar(value, known, _refused))
            except _ComputedError:
                table = self._table(op.parent.operation, value, loops, position)
            if table is not None:
                return table
            name = named(value)
            return EachLane(name) if name in vectors else Named(name)

        places = tuple(map(place, indices))
        return self.vector(tensor, places, position)

    def _table(
        self, op: ir.Operation, value: ir.Value, loops: Mapping[int, Place], position: Position
    ) -> Known | Shifted | None:
        """The indices that a value in the body of an op is, in the lanes of a known position."""
        start = position.index[-1]
        if len(self._merged) > 1 or not start.is_constant:
            return None
        along = [loop for loop, place in loops.items() if place == self._merged[0]]
        if len(along) != 1 or axes_of(value, loops) != {self._merged[0]}:
            return None
        found = self._values.setdefault(op, BodyValues(op)).of(value)
        if found is None or found.size != found.shape[along[0]]:
            return None
        if found.size == 1:
            return Shifted(None, 0, int(found.item()))
        first = start.constant
        return Known(tuple(int(n) for n in found.reshape(-1)[first : first + self.lanes]))

    def scalar(self, value: ir.Value, values: Mapping[ir.Value, str]) -> str:
        """The vector of a scalar of a body, or of a constant."""
        if value not in values and (id(values), value) in self._indices:
            assert isinstance(values, dict)
            op, loops, position = self._indices[id(values), value]
            super().apply_inner(op, loops, values, position)
        return super().scalar(value, values)

    def _index(self, axis: Place, position: Position) -> str:
        """The indices of an axis in all lanes."""
        plain = axis.axis[1] if isinstance(axis, Shifted) and axis.axis is not None else axis
        if isinstance(plain, int) and plain in self._merged and len(self._merged) > 1:
            if not self.gathers or plain != axis:
                raise NotMerged("the index of an axis that is merged with others")
            found, narrow = self._of_each_lane(plain, position), self.vector_type("i32")
            kind = self.vector_type("index")
            return self.writer.value(f"arith.index_cast {found} : {narrow} to {kind}")
        if isinstance(axis, Named | EachLane | Known):
            raise Unsupported("an index that is computed from a computed index")
        if not isinstance(axis, Shifted):
            return super()._index(axis, position)
        kind = self.vector_type("index")
        start = self.splat(str(axis.start), "index")
        if axis.axis is None:
            return start
        held, step = super()._index(axis.axis[1], position), self.splat(str(axis.step), "index")
        scaled = self.writer.value(f"arith.muli {held}, {step} : {kind}")
        return self.writer.value(f"arith.addi {scaled}, {start} : {kind}")

    def offset(self, value_type: ir.Type, axes: Axes, index: Sequence[Linear]) -> Linear:
        """The offset of an element in its buffer."""
        shape = ops.type_shape(value_type)
        places: list[Place] = list(axes)
        refusal = self._refusal(shape, places)
        if refusal:
            raise NotMerged(refusal)
        total, stride = Linear(), 1
        for size, place in zip(reversed(shape), reversed(places), strict=True):
            if size != 1:
                total = total + place_index(place, index) * stride
            stride *= size
        return total

    def _refusal(self, shape: Sequence[int | None], places: Sequence[Place]) -> str:
        """Why an operand has not all merged axes as they are; empty where it has, or has none."""
        if len(self._merged) == 1:
            return ""
        dims = [(p, size) for p, size in zip(places, shape, strict=True) if size != 1]
        last = dims[-len(self._merged) :]
        if all(_axis(p) not in self._merged for p, _ in dims):
            return ""
        if [p for p, _ in last] != self._merged:
            return "an operand that does not have all merged axes, or flips one"
        if [size for _, size in last[1:]] != self._inner_sizes:
            return "an operand of which a part of a merged axis is read"
        return ""

    def _load(self, value: ir.Value, axes: Axes, position: Position) -> str:
        """The lanes of a tensor from outside; lanes may run against the order in memory."""
        channel = len(position.index) - 1
        shape = ops.shape(value)
        places: list[Place] = list(axes)
        if self.gathers and self._refusal(shape, places):
            return self._gathered_from_merged(value, places, position)
        if any(isinstance(place, Known) for place in places):
            return self._shuffled(value, places, position)
        if any(isinstance(place, EachLane) for place in places):
            return self._gathered(value, axes, position)
        along = [d for d, a in enumerate(places) if _axis(a) == channel and shape[d] != 1]
        view = None if along else strided_view(value)
        if view is not None and all(_axis(a) not in self._merged for a in places):
            # A column of indices, say, is read where it is.
            steps = zip(places, view.strides, strict=True)
            at = sum((place_index(p, position.index) * s for p, s in steps), linear(view.offset))
            return self._in_all_lanes(self.buffer(view.base), view.base.type, at)
        place = places[along[0]] if len(along) == 1 else None
        if not isinstance(place, Shifted):
            if place is not None and _stride(shape, along[0]) != 1:
                return self._transposed(value, axes, position)
            return super()._load(value, axes, position)
        step = place.step * _stride(shape, along[0])
        buffer, kind = self.buffer(value), value.type
        at = self.offset(kind, axes, position.index)
        if step == 1:
            return self.load(buffer, kind, at, position.mask)
        if 1 < step <= MAX_SPACING and not position.mask:
            return self.spaced(buffer, kind, at, step)
        if step != -1:
            raise Unsupported("an operand whose channels are not contiguous")
        mask = position.mask and self.reversed(position.mask, "i1")
        loaded = self.load(buffer, kind, at + (1 - self.lanes), mask)
        return self.reversed(loaded, ops.element_type(value))

    def _transposed(self, value: ir.Value, axes: Axes, position: Position) -> str:
        """The lanes of a tensor from outside, of a tile of as many adjacent indices of an axis."""
        shape, places = ops.shape(value), list[Place](axes)
        inner = next(d for d in reversed(range(len(shape))) if shape[d] != 1)
        axis = places[inner]
        if not isinstance(axis, int) or (shape[inner] or 0) < self.lanes or position.mask:
            return super()._load(value, axes, position)
        if ops.element_type(value) == "i1":
            raise Unsupported("booleans that are transposed")
        if self.across != axis:
            raise Transposed(axis)
        number = position.key[0]
        key = value, axes, position.key[1:]
        if key not in self._tiles:
            index = list(position.index)
            index[axis] += -int(number)
            at, buffer = self.offset(value.type, axes, index), self.buffer(value)
            step = self.offset(value.type, axes, [*[Linear()] * (len(index) - 1), linear(1)])
            loaded = [self.load(buffer, value.type, at + step * lane) for lane in range(self.lanes)]
            kind = self.vector_type(ops.element_type(value))
            self._tiles[key] = interleaving.deinterleaved(self.writer, kind, self.lanes, loaded)
        return self._tiles[key][int(number)]

    def _shuffled(self, value: ir.Value, places: list[Place], position: Position) -> str:
        """The lanes of a tensor from outside at known indices: from two vectors of it at most."""
        shape, last = ops.shape(value), places[-1] if places else None
        others = [p for p in places[:-1] if isinstance(p, Known | EachLane)]
        across = any(_axis(place) in self._merged for place in places)
        size = (shape[-1] or 0) if shape else 0
        if isinstance(last, Known) and not others and not across and size >= self.lanes:
            first = min(min(last.indices), size - self.lanes)
            second = min(first + self.lanes, size - self.lanes)
            if max(last.indices) < second + self.lanes:
                starts = (first, second) if max(last.indices) >= first + self.lanes else (first,)
                return self._taken(value, places, position, starts, last.indices)
        vectors = [
            EachLane(self.constant_indices(p.indices)) if isinstance(p, Known) else p
            for p in places
        ]
        axes: tuple[Any, ...] = tuple(vectors)
        return self._gathered(value, axes, position)

    def _taken(
        self,
        value: ir.Value,
        places: Sequence[Place],
        position: Position,
        starts: Sequence[int],
        indices: Sequence[int],
    ) -> str:
        """The lanes at some indices of the last dimension, from vectors that start at others."""
        buffer, kind = self.buffer(value), value.type
        axes: tuple[Any, ...] = (*places[:-1], None)
        at = self.offset(kind, axes, position.index)
        loaded = [self.load(buffer, kind, at + start) for start in starts]
        numbers = [int(n >= starts[0] + self.lanes) for n in indices]
        lanes = [n - starts[number] for n, number in zip(indices, numbers, strict=True)]
        if lanes == list(range(self.lanes)) and not any(numbers):
            return loaded[0]
        vector = self.vector_type(ops.element_type(value))
        loaded = loaded * 2 if len(loaded) == 1 else loaded
        return interleaving.merged(
            self.writer, vector, loaded, list(zip(numbers, lanes, strict=True))
        )

    def _gathered(self, value: ir.Value, axes: Axes, position: Position) -> str:
        """The lanes of a tensor from outside at computed indices of each."""
        indices, offsets = self.vector_type("index"), ""
        places: list[Place] = list(axes)
        for dim, place in enumerate(places):
            stride = _stride(ops.shape(value), dim)
            if isinstance(place, EachLane):
                own = place.vector
            elif _axis(place) == len(position.index) - 1:
                own, stride = self.lane_numbers(), stride * _step(place)
            else:
                continue
            if stride != 1:
                factor = self.splat(str(stride), "index")
                own = self.writer.value(f"arith.muli {own}, {factor} : {indices}")
            if offsets:
                own = self.writer.value(f"arith.addi {offsets}, {own} : {indices}")
            offsets = own
        at = self.offset(value.type, axes, position.index)
        return self.gathered(self.buffer(value), value.type, at, offsets, position.mask)

    def _gathered_from_merged(
        self, value: ir.Value, places: Sequence[Place], position: Position
    ) -> str:
        """The lanes of a tensor from outside that has the merged axes in another way."""
        shape, kind = ops.shape(value), self.vector_type("i32")
        if (ops.num_elements(value) or 0) > MAX_I32 or any(
            isinstance(place, EachLane | Known) for place in places
        ):
            raise Unsupported("an index of each lane that is no i32")
        at, offsets = Linear(), ""
        for dim, place in enumerate(places):
            axis, stride = _axis(place), _stride(shape, dim)
            if axis not in self._merged or shape[dim] == 1:
                at = at + place_index(place, position.index) * stride
                continue
            assert axis is not None
            at = at + (place.start * stride if isinstance(place, Shifted) else 0)
            own, step = self._of_each_lane(axis, position), stride * _step(place)
            if step != 1:
                own = self.writer.value(
                    f"arith.muli {own}, {self.splat(str(step), 'i32')} : {kind}"
                )
            offsets = self.writer.value(f"arith.addi {offsets}, {own} : {kind}") if offsets else own
        self.num_gathers += 1
        return self.gathered(self.buffer(value), value.type, at, offsets, position.mask, "i32")

    def _of_each_lane(self, axis: int, position: Position) -> str:
        """The index of a merged axis in each lane, as i32."""
        kind, place = self.vector_type("i32"), self._merged.index(axis)
        found = self.counted(self.writer.index(position.index[-1]))
        inner = math.prod(self._inner_sizes[place:])
        if inner != 1:
            found = self.writer.value(
                f"arith.divui {found}, {self.splat(str(inner), 'i32')} : {kind}"
            )
        if place:
            size = self.splat(str(self._inner_sizes[place - 1]), "i32")
            found = self.writer.value(f"arith.remui {found}, {size} : {kind}")
        return found

    def reversed(self, vector: str, element: str) -> str:
        """The lanes of a vector, the last one first."""
        kind, order = self.vector_type(element), list(range(self.lanes))[::-1]
        return self.writer.value(f"vector.shuffle {vector}, {vector} {order} : {kind}, {kind}")


def axes_of(value: ir.Value, loops: Mapping[int, Place]) -> set[int | None]:
    """The axes that a scalar in the body of an elementwise op depends on; outside of it none."""
    if isinstance(value.owner, ir.Block):
        owner = value.owner.owner.operation
        if not ops.is_generic(owner):
            return set()
        index_map = ops.plain_maps(owner)[ir.BlockArgument(value).arg_number]
        return {_axis(loops[loop]) for loop in index_map if loop is not None}
    op = value.owner.operation
    if op.parent is None or not ops.is_generic(op.parent.operation):
        return set()
    if op.name == "linalg.index":
        return {_axis(loops[int(op.attributes["dim"].value)])}
    if op.name == "tensor.extract":
        return {_axis(place) for place in loops.values()}
    return set().union(*(axes_of(operand, loops) for operand in op.operands))


def _axis(place: Place) -> int | None:
    """The axis of a place."""
    if isinstance(place, Named | EachLane | Known):
        return None
    if isinstance(place, Shifted):
        return None if place.axis is None else place.axis[1]
    return place


def _step(place: Place) -> int:
    """The difference of the indices of adjacent elements of a place's axis."""
    return place.step if isinstance(place, Shifted) else 1


def place_index(place: Place, index: Sequence[Linear]) -> Linear:
    """The index at a place, without the part that each lane has of its own."""
    if isinstance(place, EachLane | Known):
        return Linear()
    if isinstance(place, Named):
        return linear(place.text)
    if isinstance(place, Shifted):
        own = Linear() if place.axis is None else index[place.axis[1]]
        return own * place.step + place.start
    return Linear() if place is None else index[place]


def _stride(shape: Sequence[int | None], dim: int) -> int:
    """Elements from one index along a dimension to the next."""
    stride = 1
    for size in shape[dim + 1 :]:
        stride *= size or 0
    return stride
