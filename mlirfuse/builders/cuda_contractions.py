"""Contractions in half precision whose K loop IREE 3.13 pads for matrix instructions on CUDA.

    %c = linalg.batch_matmul ins(%a, %b)                tensor<18x4x18xf16>, tensor<18x18x8xf16>
  becomes
    %t = flow.dispatch.region {linalg.generic {transpose} ins(%b)}       tensor<18x8x18xf16>
    %c = linalg.generic {mulf, addf} ins(%a, %t)

IREE masks the loads of an operand whose rows are along K. Of one whose rows are not, the threads
past the end of K read the row after the last one, without a mask, and multiply it by zero: the
product is NaN where that memory, after the last batch, holds infinities or NaN.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.regions import form_region, outside
from mlirfuse.builders.tensors import body_of, generic, transpose
from mlirfuse.structured.ir import ops

TILE = 16
"""Elements along K of a matrix instruction for half precision."""

_HALF = ("f16", "bf16")


def repair(module: ir.Module) -> bool:
    """Rewrites all such ops; returns whether there is any."""
    found = [op for op in ops.nested_ops(module.operation) if ops.is_contraction(op)]
    return any([_transpose(op) for op in found])


def _transpose(op: ir.Operation) -> bool:
    """Lays the rows of both operands along K."""
    loop = _padded_loop(op)
    if loop is None:
        return False
    before = outside(op, ops.inputs(op))
    inputs, maps, copied = [], [], []
    *read, written = ops.plain_maps(op)
    for value, index_map in zip(ops.inputs(op), read, strict=True):
        if index_map[-1] != loop:
            order = [d for d, of in enumerate(index_map) if of != loop] + [index_map.index(loop)]
            with ir.InsertionPoint(before), op.location:
                value = transpose(value, [order.index(d) for d in range(len(order))])
            index_map = tuple(index_map[d] for d in order)
            copied.append(value)
        inputs.append(value)
        maps.append(index_map)
    with ir.InsertionPoint(op), op.location:
        new = generic(inputs, ops.inits(op), [*maps, written], ops.iterator_types(op), body_of(op))
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()
    for value in copied:
        made = ops.defining_op(value)
        assert made is not None
        form_region([made])
    return True


def _padded_loop(op: ir.Operation) -> int | None:
    """The K loop of a contraction of which IREE would read a row too many."""
    if ops.num_inputs(op) != 2 or any(ops.element_type(v) not in _HALF for v in ops.inputs(op)):
        return None
    maps, sizes = ops.plain_maps(op), ops.loop_sizes(op)
    left, right, written = ({*index_map} for index_map in maps)
    k_loops = [loop for loop in left & right - written if loop is not None]
    m_loops, n_loops = left & written - right, right & written - left
    if not k_loops or not m_loops or not n_loops or None in sizes:
        return None
    loop = max(k_loops)
    size = sizes[loop]
    rows_along_k = all(index_map[-1] == loop for index_map in maps[:2])
    return None if rows_along_k or size is None or not size % TILE else loop
