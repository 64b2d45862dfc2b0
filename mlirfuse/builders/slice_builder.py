"""Slices of an op's operands in place of slices of its result."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.ir.strided_views import merged_stride

Box = tuple[Any, ...]
"""Offset, size and stride along a dimension, whole numbers."""


def computed_in_part(op: ir.Operation, cut: ir.Operation) -> ir.Operation:
    """The elementwise op on the part that the slice takes of its result; the slice is erased.

    Args:
      op: an op with an identity map for its result that reads neither an index nor its init; it
        is erased when it has no other user.
      cut: a `tensor.extract_slice` of the op's result; the new op has no loop that it drops.
    """
    result, taken = cut.results[0], ops.slice_params(cut)
    kept = ops.kept_dimensions(taken.static_sizes, ops.shape(result))
    loops: dict[int | None, int | None] = {dim: loop for loop, dim in enumerate(kept)}
    loops[None] = None
    read = ops.plain_maps(op)[:-1]
    with (
        ir.InsertionPoint(cut),
        ir.Location.fused([op.location, cut.location], context=cut.context),
    ):
        inputs = [_part(v, m, cut, kept) for v, m in zip(ops.inputs(op), read, strict=True)]
        maps = [tuple(loops[d] for d in m if d in loops) for m in read]
        init = builders.empty(ops.shape(result), ops.element_type(result), taken.dynamic_sizes)
        kinds = ["parallel"] * len(kept)
        new = builders.generic(
            inputs, [init], [*maps, tuple(range(len(kept)))], kinds, builders.body_of(op)
        )
    result.replace_all_uses_with(new.results[0])
    cut.erase()
    if not ops.users(op.results[0]):
        op.erase()
    return new


def without_repeats(cuts: Sequence[ir.Operation]) -> list[ir.Operation]:
    """Slices of one tensor, each once: the first of equal ones takes the place of the others."""
    found: list[ir.Operation] = []
    for cut in slices.in_order(cuts):
        taken = ops.slice_params(cut)
        equal = [
            one
            for one in found
            if ops.slice_params(one) == taken and one.results[0].type == cut.results[0].type
        ]
        if equal:
            cut.results[0].replace_all_uses_with(equal[0].results[0])
            cut.erase()
        else:
            found.append(cut)
    return found


def _part(
    value: ir.Value, index_map: ops.IndexMap, cut: ir.Operation, kept: Sequence[int]
) -> ir.Value:
    """The part of the operand that the op reads for the slice, without the dropped dimensions."""
    taken = ops.slice_params(cut)
    whole = ops.shape(cut.operands[0])
    dims = [n for n, d in enumerate(index_map) if d is None or d in kept]
    if len(dims) == len(index_map) and all(
        d is None or taken.is_whole(d, whole[d]) for d in index_map
    ):
        return value
    unit = (0, 1, 1)
    boxes = [unit if d is None else taken.boxes[d] for d in index_map]
    offsets, sizes, strides = zip(*boxes, strict=True)
    shape = [None if isinstance(sizes[n], ir.Value) else sizes[n] for n in dims]
    found = _of_source(value, boxes, shape)
    if found is None:
        found = extract_slice(value, offsets, sizes, strides, shape=shape).results[0]
    return found


def _of_source(
    value: ir.Value, boxes: Sequence[tuple[int | ir.Value, ...]], shape: Sequence[int | None]
) -> ir.Value | None:
    """A slice of a slice as one of the tensor that both are cut from; None for any other tensor.

    Args:
      value: the tensor.
      boxes: offset, size and stride along each of its dimensions.
      shape: the sizes of the result.
    """
    inner = ops.defining_op(value)
    found = ops.static_slice(inner) if inner is not None else None
    if inner is None or found is None or any(isinstance(n, ir.Value) for box in boxes for n in box):
        return None
    kept = ops.kept_dimensions([size for _, size in found], ops.shape(value))
    taken = [(first, 1, 1) for first, _ in found]
    for dim, (offset, size, stride) in zip(kept, boxes, strict=True):
        taken[dim] = found[dim][0] + offset, size, stride
    offsets, sizes, strides = zip(*taken, strict=True)
    return extract_slice(inner.operands[0], offsets, sizes, strides, shape=shape).results[0]


def extract_slice(
    value: ir.Value,
    offsets: Sequence[int | ir.Value],
    sizes: Sequence[int | ir.Value],
    strides: Sequence[int | ir.Value] = (),
    *,
    shape: Sequence[int | None] | None = None,
) -> ir.Operation:
    """`tensor.extract_slice` of the tensor; SSA values among the numbers are dynamic.

    Args:
      value: the tensor.
      offsets: offset along each dimension.
      sizes: size of the result along each dimension.
      strides: stride along each dimension; empty for 1 along all.
      shape: the sizes of the result, which may drop some of one element; None for `sizes`.
    """
    unknown = ir.ShapedType.get_dynamic_size()
    numbers = (offsets, sizes, strides or [1] * len(sizes))
    dynamic = [[n for n in part if isinstance(n, ir.Value)] for part in numbers]
    static = [[unknown if isinstance(n, ir.Value) else n for n in part] for part in numbers]
    whole = [None if isinstance(size, ir.Value) else size for size in sizes]
    result = builders.tensor_type(whole if shape is None else shape, ops.element_type(value))
    return ir.Operation.create(
        "tensor.extract_slice",
        results=[result],
        operands=[value, *itertools.chain(*dynamic)],
        attributes={
            **{
                f"static_{name}": ir.DenseI64ArrayAttr.get(part)
                for name, part in zip(("offsets", "sizes", "strides"), static, strict=True)
            },
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, *map(len, dynamic)]),
        },
    )


def merged(value: ir.Value, groups: Sequence[Sequence[int]]) -> ir.Value | None:
    """A slice with merged dimensions, as one of the tensor with those dimensions merged.

    Args:
      value: a tensor; None is returned for one that is no static slice of all its dimensions, or
        whose elements have no common stride along a group.
      groups: its dimensions for each one of the result.
    """
    cut = ops.defining_op(value)
    if cut is None or cut.name != "tensor.extract_slice" or None in ops.shape(cut.operands[0]):
        return None
    whole = [size or 0 for size in ops.shape(cut.operands[0])]
    boxes = [box for box in ops.slice_params(cut).boxes if all(isinstance(n, int) for n in box)]
    if not len(boxes) == len(whole) == len(ops.shape(value)):
        return None
    found = [_merged_box([boxes[d] for d in group], [whole[d] for d in group]) for group in groups]
    known = [box for box in found if box is not None]
    if len(known) < len(found):
        return None
    offsets, sizes, strides = zip(*known, strict=True)
    source = builders.collapse(cut.operands[0], groups)
    return extract_slice(source, offsets, sizes, strides).results[0]


def _merged_box(boxes: Sequence[Box], whole: Sequence[int]) -> Box | None:
    """Offset, size and stride along dimensions that are merged; None where no stride is common."""
    offsets, sizes, steps = zip(*boxes, strict=True)
    inner = [math.prod(whole[d + 1 :]) for d in range(len(whole))]
    stride = merged_stride([*map(operator.mul, steps, inner)], sizes)
    first = sum(map(operator.mul, offsets, inner))
    return None if stride is None else (first, math.prod(sizes), stride)


def take(value: ir.Value, axis: int, offset: int, size: int) -> ir.Operation:
    """`tensor.extract_slice` of `size` indices of one axis, which is static, from `offset` on."""
    sizes = _sizes(value)
    sizes[axis] = size
    return extract_slice(value, [offset if d == axis else 0 for d in range(len(sizes))], sizes)


def _sizes(value: ir.Value) -> list[int | ir.Value]:
    """The sizes of a tensor, dynamic ones as values."""
    dynamic = iter(builders.dynamic_sizes(value))
    return [next(dynamic) if size is None else size for size in ops.shape(value)]


def strided(value: ir.Value, sizes: Sequence[int | None], strides: Sequence[int]) -> ir.Value:
    """`tensor.extract_slice` with strides, from the first element on.

    Args:
      value: the tensor.
      sizes: size of the slice along each dimension; None for all of a dynamic one.
      strides: stride along each dimension; one for dynamic dimensions.
    """
    own = _sizes(value)
    taken = [whole if size is None else size for whole, size in zip(own, sizes, strict=True)]
    return extract_slice(value, [0] * len(taken), taken, strides).results[0]
