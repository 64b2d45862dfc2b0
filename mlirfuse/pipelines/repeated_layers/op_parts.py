"""Parts of ops that have locations and operands, and the ops of a function of one block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from iree.compiler import ir

from mlirfuse.structured.ir import ops

Part: TypeAlias = ir.Operation | ir.BlockArgument


def parts(op: ir.Operation) -> list[Part]:
    """The op, the arguments of its blocks and its nested ops: everything that has a location."""
    found: list[Part] = [op]
    for region in op.regions:
        for block in region.blocks:
            found += block.arguments
            for view in block.operations:
                found += parts(view.operation)
    return found


def operands(part: Part) -> list[tuple[int, ir.Value]]:
    """The operands of a part itself, without those of its nested ops, with their indices."""
    return [] if isinstance(part, ir.BlockArgument) else list(enumerate(part.operands))


def relocate(part: Part, location: ir.Location) -> None:
    """Gives a part another location."""
    if isinstance(part, ir.BlockArgument):
        part.set_location(location)
    else:
        part.location = location


def module_ops(module: ir.Module) -> Iterator[ir.Operation]:
    """The ops of the module's own block."""
    return (view.operation for view in module.body.operations)


def function_of(module: ir.Module, symbol: str) -> ir.Operation:
    """The function of that name."""
    return next(f for f in ops.functions(module) if ops.symbol_name(f) == symbol)


def block_ops(module: ir.Module, symbol: str) -> list[ir.Operation]:
    """The ops of the one block of the function of that name."""
    block = function_of(module, symbol).regions[0].blocks[0]
    return [view.operation for view in block.operations]
