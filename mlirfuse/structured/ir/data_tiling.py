"""Hints for IREE's data tiling."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.structured.ir import ops

DATA_TILING_HINT = "iree.opt.data_tiling"
"""Attribute that has IREE pack the operands of a contraction; with one, only those with it."""


def settle_hints(module: ir.Module) -> bool:
    """Whether a contraction is marked for IREE's data tiling; then IREE chooses none by itself.

    IREE looks for marks function by function: one without any gets one where nothing is packed.
    """
    functions = ops.functions(module)
    bare = [function for function in functions if not _has_hint(function)]
    if len(bare) == len(functions):
        return False
    for function in bare:
        last = list(function.regions[0].blocks[0].operations)[-1].operation
        with module.context:
            last.attributes[DATA_TILING_HINT] = ir.UnitAttr.get()
    return True


def _has_hint(function: ir.Operation) -> bool:
    return any(
        DATA_TILING_HINT in op.attributes
        for block in ops.blocks(function)
        for outer in block.operations
        for op in (outer.operation, *_grouped(outer.operation))
    )


def _grouped(op: ir.Operation) -> list[ir.Operation]:
    """The ops of a group; none for an op that is no group."""
    if op.name != ops.REGION:
        return []
    return [o.operation for o in op.regions[0].blocks[0].operations]
