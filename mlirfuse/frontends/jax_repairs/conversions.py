"""Equal conversions of one tensor, of which only one is left.

    %y = stablehlo.reshape %x : (tensor<4x5xi1>) -> tensor<20xi1>
    %a = stablehlo.convert %y : (tensor<20xi1>) -> tensor<20xi32>
    %b = call @cumsum(%y)                                          // { convert %y, ... }
  becomes
    %y = stablehlo.reshape %x
    %a = stablehlo.convert %y
    %b = ...                                                       // the body, of %a

IREE 3.13 moves each conversion in front of the reshape or transpose before it, and refuses or
crashes on the second equal one: "failed to legalize unresolved source materialization". JAX puts
functions of its own, as `jnp.cumsum`, in functions of the module, in each of which a conversion is
the only one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse.frontends.jax_repairs.rewriting import operations

if TYPE_CHECKING:
    from iree.compiler import ir


def merge_equal(module: ir.Module) -> None:
    """Inlines the module's functions and merges equal ops, where conversions may be equal."""
    from iree.compiler import passmanager

    kinds = [
        (op.operands[0].type, op.results[0].type)
        for op in operations(module.operation)
        if op.name == "stablehlo.convert"
    ]
    if len(set(kinds)) == len(kinds):
        return
    with module.context:
        passmanager.PassManager.parse("builtin.module(inline,cse)").run(module.operation)
