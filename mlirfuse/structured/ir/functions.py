"""Functions of a module and the blocks in them."""

from __future__ import annotations

from collections.abc import Iterator

from iree.compiler import ir


def functions(module: ir.Module) -> list[ir.Operation]:
    """The functions with a body at the top level of the module, in order."""
    return [
        op.operation
        for op in module.body.operations
        if op.operation.name in ("util.func", "func.func")
        and len(op.operation.regions[0].blocks) > 0
    ]


def symbol_name(op: ir.Operation) -> str:
    """The op's symbol name."""
    return str(op.attributes["sym_name"].value)


def blocks(op: ir.Operation) -> Iterator[ir.Block]:
    """The blocks that can hold dispatch regions: those of the op and of nested control flow."""
    for region in op.regions:
        for block in region.blocks:
            yield block
            for nested in block.operations:
                if nested.operation.name.startswith("scf."):
                    yield from blocks(nested.operation)
