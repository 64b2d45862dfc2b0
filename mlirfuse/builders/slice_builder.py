"""Slices of an op's operands in place of slices of its result."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.structured.ir import ops


def computed_in_part(op: ir.Operation, cut: ir.Operation) -> ir.Operation:
    """The elementwise op on the part that the slice takes of its result; the slice is erased.

    Args:
      op: an op with an identity map for its result that reads neither an index nor its init; it
        is erased when it has no other user.
      cut: a `tensor.extract_slice` of the op's result that drops no dimension.
    """
    result = cut.results[0]
    *read, out = ops.plain_maps(op)
    with (
        ir.InsertionPoint(cut),
        ir.Location.fused([op.location, cut.location], context=cut.context),
    ):
        inputs = [_part(v, m, cut) for v, m in zip(ops.inputs(op), read, strict=True)]
        sizes = ops.slice_params(cut).dynamic_sizes
        init = builders.empty(ops.shape(result), ops.element_type(result), sizes)
        kinds = ["parallel"] * len(out)
        new = builders.generic(inputs, [init], [*read, out], kinds, builders.body_of(op))
    result.replace_all_uses_with(new.results[0])
    cut.erase()
    if not ops.users(op.results[0]):
        op.erase()
    return new


def _part(value: ir.Value, index_map: ops.IndexMap, cut: ir.Operation) -> ir.Value:
    """The part of the operand that the op reads for the slice."""
    taken = ops.slice_params(cut)
    whole = ops.shape(cut.operands[0])
    if all(d is None or taken.is_whole(d, whole[d]) for d in index_map):
        return value
    unit = (0, 1, 1)
    boxes = [unit if d is None else taken.boxes[d] for d in index_map]
    dynamic = ir.ShapedType.get_dynamic_size()
    fixed = [
        [dynamic if isinstance(n, ir.Value) else n for n in part]
        for part in zip(*boxes, strict=True)
    ]
    given = [[n for n in part if isinstance(n, ir.Value)] for part in zip(*boxes, strict=True)]
    shape = [None if isinstance(size, ir.Value) else size for _, size, _ in boxes]
    return ir.Operation.create(
        "tensor.extract_slice",
        results=[builders.tensor_type(shape, ops.element_type(value))],
        operands=[value, *itertools.chain(*given)],
        attributes={
            **{
                f"static_{name}": ir.DenseI64ArrayAttr.get(numbers)
                for name, numbers in zip(("offsets", "sizes", "strides"), fixed, strict=True)
            },
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, *map(len, given)]),
        },
    ).results[0]


def strided(value: ir.Value, sizes: Sequence[int | None], strides: Sequence[int]) -> ir.Value:
    """`tensor.extract_slice` with strides, from the first element on.

    Args:
      value: the tensor.
      sizes: size of the slice along each dimension; None for all of a dynamic one.
      strides: stride along each dimension; one for dynamic dimensions.
    """
    dynamic = builders.dynamic_sizes(value)
    numbers = {
        "offsets": [0] * len(sizes),
        "sizes": [ir.ShapedType.get_dynamic_size() if n is None else n for n in sizes],
        "strides": list(strides),
    }
    return ir.Operation.create(
        "tensor.extract_slice",
        results=[builders.tensor_type(sizes, ops.element_type(value))],
        operands=[value, *dynamic],
        attributes={
            **{f"static_{name}": ir.DenseI64ArrayAttr.get(n) for name, n in numbers.items()},
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, len(dynamic), 0]),
        },
    ).results[0]
