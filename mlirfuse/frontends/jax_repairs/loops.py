"""Loops that read constants only, such as the generation of a fixed `jax.random.key(0)`'s numbers.

  %r = stablehlo.while(%c0, %c1)
becomes
  %b = stablehlo.optimization_barrier %c1
  %r = stablehlo.while(%c0, %b)

IREE 3.13 moves such a loop to the initialization of the program, with commands that refer to
buffers which they do not declare: each call fails with `OUT_OF_RANGE`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse.frontends.jax_repairs.rewriting import operations

if TYPE_CHECKING:
    from iree.compiler import ir


def keep_loops(module: ir.Module) -> None:
    """Adds a barrier to each loop without an operand that depends on an argument."""
    from iree.compiler import ir

    functions = {
        ir.StringAttr(op.operation.attributes["sym_name"]).value: op.operation
        for op in module.body.operations
        if op.operation.name == "func.func" and op.operation.regions[0].blocks
    }
    variable: set[ir.Value] = set()
    for function in functions.values():
        if "private" not in str(function.attributes.get("sym_visibility", "")):
            variable.update(function.regions[0].blocks[0].arguments)
    size = -1
    while size != len(variable):
        size = len(variable)
        for function in functions.values():
            _propagate(function, functions, variable)
    for function in functions.values():
        for op in list(operations(function)):
            if op.name == "stablehlo.while" and not variable.intersection(op.operands):
                _add_barrier(op)


def _propagate(
    function: ir.Operation, functions: dict[str, ir.Operation], variable: set[ir.Value]
) -> None:
    """Adds values that depend on others of the set."""
    from iree.compiler import ir

    for op in operations(function):
        inner = {value for each in operations(op) for value in each.operands} if op.regions else ()
        used = variable.intersection(op.operands) or variable.intersection(inner)
        if op.name == "func.call":
            called = functions.get(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)
            if called is not None:
                parameters = called.regions[0].blocks[0].arguments
                variable.update(
                    parameter
                    for parameter, value in zip(parameters, op.operands, strict=True)
                    if value in variable
                )
        if not used:
            continue
        variable.update(op.results)
        for region in op.regions:
            for block in region.blocks:
                variable.update(block.arguments)


def _add_barrier(op: ir.Operation) -> None:
    """Hides an operand that the condition does not read: the number of steps stays known."""
    from iree.compiler import ir

    condition = op.regions[0].blocks[0].arguments
    unread = [index for index, value in enumerate(condition) if not list(value.uses)]
    index = (unread or [0])[0]
    value = op.operands[index]
    with op.location, ir.InsertionPoint(op):
        barrier = ir.Operation.create("stablehlo.optimization_barrier", [value.type], [value])
    op.operands[index] = barrier.result
