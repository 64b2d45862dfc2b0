"""Elements of slices that IREE 3.13 reads at wrong addresses on CUDA.

    %s = tensor.extract_slice %t[1, 0] [5, 5] [1, 1]
    %g = linalg.generic {tensor.extract %s[%i, %j]}
  becomes
    %g = linalg.generic {tensor.extract %t[%i + 1, %j]}

The op becomes `vector.gather`, whose addresses are computed from the sizes of the slice; in memory
its rows are as far apart as those of the whole tensor.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.tensors import scalar, scalar_constant
from mlirfuse.structured.ir import ops, tensor_ops


def repair(module: ir.Module) -> bool:
    """Rewrites all such ops; returns whether there is any."""
    found = [op for op in ops.nested_ops(module.operation) if op.name == "tensor.extract"]
    return any([_read_whole(op) for op in found])


def _read_whole(op: ir.Operation) -> bool:
    """Reads an element of a slice from the whole tensor."""
    cut = ops.defining_op(op.operands[0])
    if cut is None or cut.name != "tensor.extract_slice":
        return False
    with ir.InsertionPoint(op), op.location:
        indices = _indices(cut, list(op.operands)[1:])
        element = ir.Operation.create(
            "tensor.extract", [op.results[0].type], [cut.operands[0], *indices]
        ).result
    op.results[0].replace_all_uses_with(element)
    op.erase()
    _read_whole(element.owner)
    return True


def _indices(cut: ir.Operation, position: list[ir.Value]) -> list[ir.Value]:
    """The position of an element of a slice in the whole tensor."""
    found, sizes = [], ops.shape(cut.results[0])
    dim = 0
    for offset, size, stride in tensor_ops.slice_params(cut).boxes:
        left = sizes[dim:]
        is_kept = bool(left) and left[0] == (size if isinstance(size, int) else None)
        index = _product(position[dim], stride) if is_kept else None
        found.append(_sum(index, offset))
        dim += is_kept
    return found


def _product(index: ir.Value, stride: int | ir.Value) -> ir.Value:
    return index if stride == 1 else scalar("arith.muli", [index, _value(stride)], "index")


def _sum(index: ir.Value | None, offset: int | ir.Value) -> ir.Value:
    if index is None:
        return _value(offset)
    return index if offset == 0 else scalar("arith.addi", [index, _value(offset)], "index")


def _value(number: int | ir.Value) -> ir.Value:
    return scalar_constant(number, "index") if isinstance(number, int) else number
