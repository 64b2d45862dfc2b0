"""Zeros around the elements of an image, and between those of a transposed convolution's.

%p = tensor.pad %x low[..] high[..] { 0 }
%s = tensor.insert_slice %x into (fill of 0) [2, 2] [h, w] [2, 2]
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.structured.ir import ops


@dataclasses.dataclass(frozen=True, slots=True)
class Surround:
    """The zeros around and between the elements of an image, along one dimension.

    Attributes:
      low: zeros before the first element.
      high: zeros after the last one.
      stride: distance of adjacent elements; one without zeros between them.
    """

    low: int = 0
    high: int = 0
    stride: int = 1

    @property
    def is_empty(self) -> bool:
        """Whether there are no zeros."""
        return self == Surround()


def producer(value: ir.Value, user: ir.Operation) -> ir.Operation | None:
    """The op that puts zeros around the elements of a value for one user; None without one."""
    op = ops.defining_op(value)
    if op is None or op.block != user.block or ops.users(op.results[0]) != [user]:
        return None
    return op if surrounds(op) is not None else None


def surrounds(op: ir.Operation) -> tuple[Surround, ...] | None:
    """The zeros that an op puts around and between the elements of its operand, by dimension."""
    return padding(op) if op.name == "tensor.pad" else spread(op)


def split(op: ir.Operation, expand: ir.Operation) -> tuple[Surround, ...] | None:
    """The same after a split of dimensions; None where one with zeros is split, or is dynamic."""
    found = surrounds(op)
    if found is None or None in ops.shape(expand.results[0]):
        return None
    if op.name == "tensor.pad" and None in ops.shape(op.operands[0]):
        return None
    groups = ops.reassociation(expand)
    if any(len(g) > 1 and not s.is_empty for g, s in zip(groups, found, strict=True)):
        return None
    return tuple(s for g, s in zip(groups, found, strict=True) for _ in g)


def padding(pad: ir.Operation) -> tuple[Surround, ...] | None:
    """The zeros of a `tensor.pad`, by dimension; None for other values and dynamic amounts."""
    value, amounts = ops.padding_value(pad), ops.padding_amounts(pad)
    if value is None or ops.constant(value) != 0 or amounts is None:
        return None
    return tuple(Surround(low, high) for low, high in amounts)


def spread(op: ir.Operation) -> tuple[Surround, ...] | None:
    """The same of a `tensor.insert_slice` of a whole tensor into zeros; None for other ops."""
    if op.name != "tensor.insert_slice" or ops.constant(op.operands[1]) != 0:
        return None
    bounds = ops.static_insert(op)
    strides = tuple(op.attributes["static_strides"])
    shape, whole = ops.shape(op.operands[0]), ops.shape(op.results[0])
    if bounds is None or len(shape) != len(whole) or min(strides, default=1) < 1:
        return None
    offsets, sizes = bounds
    if tuple(sizes) != tuple(shape) or min(offsets, default=0) < 0 or None in (*shape, *whole):
        return None
    return tuple(
        Surround(low, (size or 0) - low - (part or 0) * stride + stride - 1, stride)
        for low, size, part, stride in zip(offsets, whole, shape, strides, strict=True)
    )
