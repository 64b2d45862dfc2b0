"""Elementwise ops of a region on vectors: loads and scalar bodies.

body = Pointwise(writer, lanes=16)
sum = body.vector(value, axes, position)     the lanes of a tensor at one position
body.store("%y0", kind, sum, offset, position)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.vector.forms import Forms
from mlirfuse.kernels.vector.memory import Memory
from mlirfuse.kernels.vector.writer import Linear, Writer, linear
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.strided_views import contiguous, strided_view

EXTREMES = frozenset({"arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf"})
"""Ops that IREE 3.13 expands to f32 for a scalar f16 alone: of a vector, `extf` gets the scalar's
type."""

Axes = tuple[int | None, ...]
"""For each dimension of a tensor the axis of the kernel that indexes it; None for index 0."""


@dataclasses.dataclass(frozen=True, slots=True)
class Position:
    """Where one vector of the kernel's results is.

    Attributes:
      key: names the position among those of one block of the kernel.
      index: axis -> index; that of the axis of the lanes is the index of the first lane.
      mask: the lanes that exist; empty where all do.
      axis: the axis of the lanes; negative from the last one on.
    """

    key: tuple[int | str, ...]
    index: tuple[Linear, ...]
    mask: str = ""
    axis: int = -1

    @property
    def lane_axis(self) -> int:
        """The number of the axis of the lanes."""
        return self.axis % len(self.index)


class Pointwise(Memory):
    """Writes the elementwise ops of one kernel.

    Attributes:
      forms: the forms of the ops.
      first_merged: the first of the axes that are contiguous in each tensor and have one index,
        that of the last axis; None where each axis has its own.
    """

    def __init__(self, writer: Writer, lanes: int, *, gathers: bool = False) -> None:
        super().__init__(writer, lanes, gathers=gathers)
        self.forms = Forms(lanes)
        self.first_merged: int | None = None
        self._known: dict[tuple[ir.Value, Axes, tuple[int | str, ...]], str] = {}

    def define(self, value: ir.Value, axes: Axes, position: Position, name: str) -> None:
        """Sets the vector of a value that the kernel has computed."""
        self._known[value, axes, position.key] = name

    def forget(self) -> None:
        """Starts a part of the kernel in which earlier vectors are out of scope."""
        self._known.clear()

    def vector(self, value: ir.Value, axes: Axes, position: Position) -> str:
        """The lanes of a tensor, or of a scalar, at a position.

        Raises:
          Unsupported: an op or an access that kernels do not have.
        """
        key = (value, axes, position.key)
        if key not in self._known:
            self._known[key] = self._vector(value, axes, position)
        return self._known[key]

    def _vector(self, value: ir.Value, axes: Axes, position: Position) -> str:
        held = self.forms.literal(value)
        if held is not None:
            return self.splat(held, ops.element_type(value))
        if ops.ranked(value) is None:
            raise Unsupported(f"a scalar operand, {value.type}")
        op = ops.defining_op(value)
        if op is None or not self.computes(op):
            return self._load(value, axes, position)
        if not ops.is_elementwise(op) and not ops.is_projection(op):
            raise Unsupported(ops.described(op))
        return self._computed(op, list(op.results).index(value), axes, position)

    def _computed(self, op: ir.Operation, number: int, axes: Axes, position: Position) -> str:
        loops: dict[int, int | None] = {}
        written = ops.plain_maps(op)[ops.num_inputs(op) + number]
        for loop, axis in zip(written, axes, strict=True):
            if loop is None:
                raise Unsupported("a result that is not indexed by its loops")
            loops[loop] = axis
        if len(loops) != len(ops.iterator_types(op)):
            raise Unsupported(ops.described(op))
        body = self.forms.body(op)
        values: dict[ir.Value, str] = {}
        for argument, operand, index_map in body.reads:
            read = tuple(None if d is None else loops[d] for d in index_map)
            values[argument] = self.vector(operand, read, position)
        self.apply_all(body.computed, values, loops, position)
        return self.scalar(body.yielded[number], values)

    def apply_all(
        self,
        computed: Iterable[ir.Operation],
        values: dict[ir.Value, str],
        loops: Mapping[int, Any] | Sequence[Any],
        position: Position,
    ) -> None:
        """Writes the scalar ops of a body on vectors.

        Args:
          computed: ops of the body.
          values: scalar of the body -> its vector; the results of the ops are added.
          loops: the axis of each loop.
          position: where the vectors are.

        Raises:
          Unsupported: an op that kernels do not have.
        """
        for inner in computed:
            self.apply_inner(inner, loops, values, position)

    def computes(self, op: ir.Operation) -> bool:
        """Whether the kernel computes the results of an op, and does not read them."""
        return ops.in_region(op)

    def apply_inner(
        self,
        op: ir.Operation,
        loops: Mapping[int, Any] | Sequence[Any],
        values: dict[ir.Value, str],
        position: Position,
    ) -> None:
        """Writes an op in the body of an elementwise op on vectors.

        Args:
          op: the op.
          loops: loop of the elementwise op -> its axis.
          values: scalar of the body -> its vector; the op's result is added.
          position: where the vectors are.
        """
        if op.name == "linalg.index":
            axis = loops[op.attributes["dim"].value]
            values[op.results[0]] = self._index(axis, position)
        elif op.name == "tensor.extract":
            values[op.results[0]] = self.element(op, loops, values, position)
        elif op.name != "cf.assert":  # IREE checks none in a kernel
            self.apply(op, values)

    def element(
        self,
        op: ir.Operation,
        loops: Mapping[int, Any] | Sequence[Any],
        values: dict[ir.Value, str],
        position: Position,
    ) -> str:
        """The lanes of an element of a tensor at indices of a body, a `tensor.extract`.

        Args:
          op: the op.
          loops: loop of the elementwise op -> its axis.
          values: scalar of the body -> its vector.
          position: where the vectors are.

        Raises:
          Unsupported: the kernel has no such elements.
        """
        raise Unsupported(op.name)

    def _index(self, axis: int | None, position: Position) -> str:
        """The indices of an axis in all lanes."""
        kind = self.vector_type("index")
        if axis is None:
            return self.splat("0", "index")
        if self._is_merged(axis) and self.first_merged != len(position.index) - 1:
            raise Unsupported("an index of one of several contiguous loops")
        start = self.writer.index(position.index[axis])
        held = self.writer.value(f"vector.broadcast {start} : index to {kind}")
        if axis != position.lane_axis:
            return held
        steps = self.lane_numbers()
        return self.writer.value(f"arith.addi {held}, {steps} : {kind}")

    def apply(self, op: ir.Operation, values: dict[ir.Value, str]) -> None:
        """Writes a scalar op of a body on vectors.

        Args:
          op: an op of `arith` or `math` with one result.
          values: scalar of the body -> its vector; the op's result is added.

        Raises:
          Unsupported: another op.
        """
        if op.name == "arith.constant":
            return
        before, after = self.forms.statement(op)
        if op.name == "math.fpowi" and (exponent := self.forms.literal(op.operands[1])) is not None:
            base = self.scalar(op.operands[0], values)
            kind = ops.element_type(op.results[0])
            values[op.results[0]] = self._power(base, int(exponent), kind)
            return
        operands = [self.scalar(v, values) for v in op.operands]
        if op.name in EXTREMES and ops.element_type(op.results[0]) == "f16":
            values[op.results[0]] = self._extreme(op.name, operands)
            return
        values[op.results[0]] = self.writer.value(f"{before}{', '.join(operands)}{after}")

    def _extreme(self, name: str, operands: Sequence[str]) -> str:
        """The larger or smaller of two f16, compared in f32."""
        narrow, wide = self.vector_type("f16"), self.vector_type("f32")
        one, other = (
            self.writer.value(f"arith.extf {each} : {narrow} to {wide}") for each in operands
        )
        found = self.writer.value(f"{name} {one}, {other} : {wide}")
        return self.writer.value(f"arith.truncf {found} : {wide} to {narrow}")

    def _power(self, base: str, exponent: int, element: str) -> str:
        """An integral power by squaring."""
        kind, one = self.vector_type(element), self.splat("1.0", element)
        total, square, left = "", base, abs(exponent)
        while left:
            if left & 1:
                total = self._multiplied(total, square, kind) if total else square
            left >>= 1
            square = self._multiplied(square, square, kind) if left else square
        if exponent < 0:
            return self.writer.value(f"arith.divf {one}, {total} : {kind}")
        return total or one

    def _multiplied(self, one: str, other: str, kind: str) -> str:
        return self.writer.value(f"arith.mulf {one}, {other} : {kind}")

    def scalar(self, value: ir.Value, values: Mapping[ir.Value, str]) -> str:
        """The vector of a scalar of a body, or of a constant.

        Raises:
          Unsupported: a scalar from outside.
        """
        if value in values:
            return values[value]
        held = self.forms.literal(value)
        if held is None:
            raise Unsupported("a scalar from outside the group")
        return self.splat(held, ops.element_type(value))

    def offset(self, value_type: ir.Type, axes: Axes, index: Sequence[Linear]) -> Linear:
        """The offset of an element in its buffer."""
        total, stride, merged = Linear(), 1, False
        sizes = ops.type_shape(value_type)
        for size, axis in zip(reversed(sizes), reversed(axes), strict=True):
            if axis is not None and size != 1:
                if self._is_merged(axis):
                    # The axes are the last dimensions: an index of all of them is an offset.
                    total, merged = (total if merged else total + index[-1]), True
                else:
                    total = total + index[axis] * stride
            stride *= size
        return total

    def _is_merged(self, axis: int) -> bool:
        """Whether the index of an axis is that of the last one, with which it is contiguous."""
        return self.first_merged is not None and axis >= self.first_merged

    def _load(self, value: ir.Value, axes: Axes, position: Position) -> str:
        """The lanes of a tensor from outside: contiguous, or one element in all of them."""
        buffer = self.buffer(value)
        lanes, shape = position.lane_axis, ops.shape(value)
        along = [d for d, axis in enumerate(axes) if axis == lanes and shape[d] != 1]
        at = self.offset(value.type, axes, position.index)
        if not along:
            return self._in_all_lanes(buffer, value.type, at)
        if len(along) > 1:
            raise Unsupported("an operand that is indexed twice by its lanes")
        step = math.prod(size or 0 for size in shape[along[0] + 1 :])
        return self.strided(buffer, value.type, at, step, position.mask)

    def _load_slice(self, value: ir.Value, axes: Axes, position: Position) -> str:
        """The lanes of a slice in the tensor that it is cut from; empty where they have no order.

        The axes from `first_merged` on have one index: they are contiguous in that tensor, or the
        last one alone is read at a distance of its elements.
        """
        view, whole = strided_view(value), contiguous(value)
        dims = [(d, axes[d] or 0) for d, size in enumerate(ops.shape(value)) if size != 1]
        dims = [(d, axis) for d, axis in dims if axes[d] is not None]
        inner = [d for d, axis in dims if self._is_merged(axis)]
        outer = dims[: len(dims) - len(inner)]
        if view is None or any(d in inner for d, _ in outer):
            return ""
        if len(inner) > 1 and any(view.strides[d] != whole.strides[d] for d in inner):
            return ""
        at = linear(view.offset)
        for d, axis in outer:
            at = at + position.index[axis] * view.strides[d]
        buffer, kind = self.buffer(view.base), view.base.type
        if not inner:
            return self._in_all_lanes(buffer, kind, at)
        step = view.strides[inner[0]] if len(inner) == 1 else 1
        return self.strided(buffer, kind, at + position.index[-1] * step, step, position.mask)
