"""Tensors of an ONNX graph under construction, with the arithmetic of numpy.

    y = x / (1.0 + x.exp())        emits  Exp, Add, Div

Numbers and arrays among the operands become constants of the other operand's element type.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, Union

import numpy as np
import onnx
from onnx import TensorProto

Shape = tuple[int | None, ...]

Operand = Union["Value", np.ndarray, float, int, bool]

FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""Element types that IREE computes in."""

HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)

UNSIGNED = (TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64)

SIGNED = (TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64)


class Graph(Protocol):
    """The part of a graph under construction that values use; `builder.Builder` has all of it."""

    constants: dict[str, np.ndarray]
    """Elements of small constants, by name."""

    def constant(self, array: np.ndarray) -> Value:
        """A constant tensor."""

    def add(self, kind: str, *inputs: Operand | None, **attributes: Any) -> Value:
        """Builds an operator of one result, with repairs."""

    def emit(self, kind: str, *inputs: Operand | None, **attributes: Any) -> Value:
        """Builds an operator of one result as it is, without repairs."""

    def reduce(self, kind: str, value: Value, axes: Sequence[int], *, keep: bool = False) -> Value:
        """A reduction such as `ReduceSum` over axes."""

    def bitcast(self, value: Value, dtype: int) -> Value:
        """The bits of each element as another type of the same size."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A tensor, by its name.

    Attributes:
      builder: the graph that it belongs to.
      name: its name there.
      dtype: element type, a `TensorProto.DataType`.
      shape: sizes, None for a dynamic one; None for an unknown rank.
    """

    builder: Graph
    name: str
    dtype: int
    shape: Shape | None
    __array_ufunc__: ClassVar[None] = None  # an array and a value make a value

    @property
    def rank(self) -> int:
        """Number of dimensions.

        Raises:
          Unsupported: it is not known.
        """
        return len(self.sizes)

    @property
    def sizes(self) -> Shape:
        """The shape.

        Raises:
          Unsupported: not even the rank is known.
        """
        if self.shape is None:
            raise Unsupported(f"the rank of '{self.name}' is not known")
        return self.shape

    @property
    def static(self) -> tuple[int, ...]:
        """The shape.

        Raises:
          Unsupported: a size is dynamic.
        """
        sizes = self.sizes
        if any(size is None for size in sizes):
            raise Unsupported(f"'{self.name}' has a dynamic size")
        return tuple(int(size) for size in sizes if size is not None)

    @property
    def array(self) -> np.ndarray | None:
        """The elements, where they are known."""
        if self.shape is not None and 0 in self.shape and None not in self.shape:
            return np.zeros(self.static, numpy_type(self.dtype))
        return self.builder.constants.get(self.name)

    @property
    def is_float(self) -> bool:
        """Whether the elements are of a float type that IREE computes in."""
        return self.dtype in FLOATS

    def _binary(self, kind: str, left: Operand, right: Operand) -> Value:
        return self.builder.add(kind, self.lifted(left), self.lifted(right))

    def lifted(self, other: Operand) -> Value:
        """A number as a constant of this element type; a value as it is."""
        if isinstance(other, Value):
            return other
        if isinstance(other, np.ndarray):
            return self.builder.constant(other)
        return self.builder.constant(np.array(other, numpy_type(self.dtype)))

    def __add__(self, other: Operand) -> Value:
        """Elementwise sum."""
        return self._binary("Add", self, other)

    def __radd__(self, other: Operand) -> Value:
        """Elementwise sum."""
        return self._binary("Add", other, self)

    def __sub__(self, other: Operand) -> Value:
        """Elementwise difference."""
        return self._binary("Sub", self, other)

    def __rsub__(self, other: Operand) -> Value:
        """Elementwise difference."""
        return self._binary("Sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        """Elementwise product."""
        return self._binary("Mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        """Elementwise product."""
        return self._binary("Mul", other, self)

    def __truediv__(self, other: Operand) -> Value:
        """Elementwise quotient; of integers, towards zero."""
        return self._binary("Div", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        """Elementwise quotient; of integers, towards zero."""
        return self._binary("Div", other, self)

    def __matmul__(self, other: Value) -> Value:
        """Product of matrices."""
        return self._binary("MatMul", self, other)

    def __neg__(self) -> Value:
        """Elementwise negation."""
        return self.builder.add("Neg", self)

    def __abs__(self) -> Value:
        """Elementwise magnitude."""
        return self.builder.add("Abs", self)

    def __lt__(self, other: Operand) -> Value:  # type: ignore[misc]
        """Elementwise comparison."""
        return self._binary("Less", self, other)

    def __gt__(self, other: Operand) -> Value:  # type: ignore[misc]
        """Elementwise comparison."""
        return self._binary("Greater", self, other)

    def __le__(self, other: Operand) -> Value:  # type: ignore[misc]
        """Elementwise comparison."""
        return self._binary("LessOrEqual", self, other)

    def __ge__(self, other: Operand) -> Value:  # type: ignore[misc]
        """Elementwise comparison."""
        return self._binary("GreaterOrEqual", self, other)

    def equals(self, other: Operand) -> Value:
        """Elementwise comparison."""
        return self._binary("Equal", self, other)

    def __and__(self, other: Operand) -> Value:
        """Elementwise conjunction of booleans."""
        return self._binary("And", self, other)

    def __or__(self, other: Operand) -> Value:
        """Elementwise disjunction of booleans."""
        return self._binary("Or", self, other)

    def __invert__(self) -> Value:
        """Elementwise negation of booleans."""
        return self.builder.add("Not", self)

    def where(self, chosen: Operand, other: Operand) -> Value:
        """Elements of `chosen` where this one holds, of `other` elsewhere."""
        like = chosen if isinstance(chosen, Value) else other
        assert isinstance(like, Value)
        return self.builder.add("Where", self, like.lifted(chosen), like.lifted(other))

    def cast(self, dtype: int) -> Value:
        """The elements converted to another type."""
        return self if dtype == self.dtype else self.builder.add("Cast", self, to=dtype)

    def reshape(self, sizes: Sequence[int]) -> Value:
        """The elements in another shape; -1 for the one size that follows from the others."""
        if self.shape is not None and tuple(sizes) == self.shape:
            return self
        return self.builder.add("Reshape", self, np.array(list(sizes), np.int64))

    def transpose(self, permutation: Sequence[int]) -> Value:
        """The dimensions in another order."""
        if list(permutation) == list(range(self.rank)):
            return self
        return self.builder.add("Transpose", self, perm=list(permutation))

    def expand(self, sizes: Sequence[int]) -> Value:
        """The elements repeated up to a shape."""
        if self.shape == tuple(sizes):
            return self
        return self.builder.add("Expand", self, np.array(list(sizes), np.int64))

    def slice(self, axis: int, start: int, end: int, step: int = 1) -> Value:
        """A range of an axis; `end` beyond the size for all of it."""
        bounds = (np.array([n], np.int64) for n in (start, end, axis, step))
        return self.builder.add("Slice", self, *bounds)

    def take(self, indices: Value | np.ndarray | int, axis: int) -> Value:
        """Elements of an axis by their indices."""
        if not isinstance(indices, Value):
            indices = self.builder.constant(np.asarray(indices, np.int64))
        return self.builder.add("Gather", self, indices, axis=axis)

    def pad(self, axis: int, before: int, after: int, fill: float = 0) -> Value:
        """The tensor with `fill` around it along an axis."""
        if not before and not after:
            return self
        pads = np.zeros(2 * self.rank, np.int64)
        pads[axis % self.rank], pads[axis % self.rank + self.rank] = before, after
        return self.builder.add("Pad", self, pads, self.lifted(fill))

    def unsqueeze(self, *axes: int) -> Value:
        """With axes of size 1 inserted."""
        return self.builder.add("Unsqueeze", self, np.array(axes, np.int64))

    def squeeze(self, *axes: int) -> Value:
        """Without axes of size 1."""
        return self.builder.add("Squeeze", self, np.array(axes, np.int64))

    def reduce(self, kind: str, axes: Sequence[int], *, keep: bool = False) -> Value:
        """A reduction such as `ReduceSum` over axes."""
        return self.builder.reduce(kind, self, axes, keep=keep)


class Unsupported(Exception):
    """A repair does not take this form of an operator, which is left as it is."""


class Refused(Exception):
    """An operator whose form IREE would compute wrongly, and that has no repair."""


def numpy_type(dtype: int) -> np.dtype[Any]:
    """Numpy's element type for one of ONNX's."""
    found: np.dtype[Any] = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(dtype))
    return found


def onnx_type(dtype: np.dtype[Any]) -> int:
    """ONNX's element type for one of numpy's."""
    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype))


def shape_of(proto: onnx.TypeProto) -> Shape | None:
    """The shape of a tensor type; None for an unknown rank."""
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)


def type_proto(dtype: int, shape: Shape | None) -> onnx.TypeProto:
    """A tensor type."""
    return onnx.helper.make_tensor_type_proto(dtype, shape)


def merged_type(
    inferred: onnx.TypeProto | None, declared: onnx.TypeProto | None
) -> onnx.TypeProto | None:
    """The type with every size that one of the two knows."""
    if inferred is None or not inferred.tensor_type.elem_type:
        return declared
    if declared is None or not declared.tensor_type.elem_type:
        return inferred
    mine, theirs = shape_of(inferred), shape_of(declared)
    if mine is None or theirs is None or len(mine) != len(theirs):
        return declared if mine is None else inferred
    sizes = tuple(b if a is None else a for a, b in zip(mine, theirs, strict=True))
    return type_proto(inferred.tensor_type.elem_type, sizes)
