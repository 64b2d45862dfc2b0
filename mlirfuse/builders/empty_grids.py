"""Dispatches over dynamic sizes that are zero, which CUDA refuses to launch.

    flow.executable.export @d workgroups(%n: index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice(%n)
      flow.return %x, %y, %z
  becomes
      %empty = arith.cmpi eq, (%x * %y * %z), 0
      flow.return (%empty ? 0 : %x), (%empty ? 0 : %y), (%empty ? 0 : %z)

A grid of (0, 1, 1) ends the context with CUDA_ERROR_INVALID_VALUE; IREE 3.13 leaves out a dispatch
only where all three numbers are zero. The module is one after IREE's phase `flow`, in which each
dispatch is an executable, those of our kernels too.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.tensors import scalar, scalar_constant
from mlirfuse.structured.ir import ops

_EXPORTS = ("flow.executable.export", "hal.executable.export")


def has_dynamic_sizes(module: ir.Module) -> bool:
    """Whether a tensor of the module has a dynamic size."""
    return any(
        None in ops.shape(value)
        for op in ops.nested_ops(module.operation)
        for value in op.results
        if ops.ranked(value) is not None
    )


def repair(module: ir.Module) -> bool:
    """Rewrites the numbers of workgroups that depend on sizes; returns whether there are any."""
    exports = [op for op in ops.nested_ops(module.operation) if op.name in _EXPORTS]
    return any([_skip_empty(op) for op in exports])


def _skip_empty(export: ir.Operation) -> bool:
    """Makes all numbers of workgroups zero where one is."""
    blocks = [block for region in export.regions for block in region.blocks]
    if not blocks or not any(isinstance(a.type, ir.IndexType) for a in blocks[0].arguments):
        return False
    terminator = list(blocks[0].operations)[-1].operation
    counts = list(terminator.operands)
    if len(counts) != 3:
        return False
    with ir.InsertionPoint(terminator), export.location:
        zero = scalar_constant(0, "index")
        total = scalar("arith.muli", counts[:2], "index")
        total = scalar("arith.muli", [total, counts[2]], "index")
        empty = scalar("arith.cmpi", [total, zero], "i1", "0 : i64")
        kept = [scalar("arith.select", [empty, zero, count], "index") for count in counts]
    for index, count in enumerate(kept):
        terminator.operands[index] = count
    return True
