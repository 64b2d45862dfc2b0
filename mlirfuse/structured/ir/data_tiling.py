"""Hints for IREE's data tiling."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.structured.ir import ops

DATA_TILING_HINT = "iree.opt.data_tiling"
"""Attribute that makes IREE pack the operands of a contraction. If any contraction of a function
has it, IREE packs no others."""


def complete_hints(module: ir.Module) -> bool:
    """Marks functions without hints, if any contraction of the module has one.

    IREE chooses contractions by itself in functions without a hint. Such a function gets a hint on
    its terminator, where it packs nothing.

    Returns:
      Whether the module has hints.
    """
    functions = ops.functions(module)
    unmarked = [function for function in functions if not _has_hint(function)]
    if len(unmarked) == len(functions):
        return False
    for function in unmarked:
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
    """The ops of a dispatch region; none for any other op."""
    if op.name != ops.REGION:
        return []
    return [o.operation for o in op.regions[0].blocks[0].operations]
