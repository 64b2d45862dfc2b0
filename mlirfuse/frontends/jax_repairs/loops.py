"""Unrolls short loops over integers: the rounds of JAX's random number generator.

IREE 3.13 moves such a loop of a fixed `jax.random.key(0)` to the initialization of the program, and
issues copies of buffers that do not exist: each call fails with `OUT_OF_RANGE`. For devices other
than the CPU JAX itself writes the rounds out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse.frontends.jax_repairs.definitions import copied
from mlirfuse.frontends.jax_repairs.rewriting import operations, splat

if TYPE_CHECKING:
    from iree.compiler import ir

_STEPS = 8
"""Largest number of steps; the generator's loop has five."""

_OPS = 100
"""Largest number of ops in the body."""


def unroll(op: ir.Operation) -> None:
    """Unrolls a `stablehlo.while` that counts up to a small constant, all of integers."""
    from iree.compiler import ir

    types = [ir.RankedTensorType(result.type).element_type for result in op.results]
    if not all(isinstance(element, ir.IntegerType) for element in types):
        return
    body = op.regions[1].blocks[0]
    steps = _steps(op)
    if steps is None or steps > _STEPS or len(list(operations(op))) > _OPS:
        return
    values = list(op.operands)
    with op.location:
        for _ in range(steps):
            values = copied(body, values, op)
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def _steps(op: ir.Operation) -> int | None:
    """The number of steps, where a counter goes from one constant to another by ones."""
    from iree.compiler import ir

    condition, body = (region.blocks[0] for region in op.regions)
    compared = list(condition.operations)[-1].operands[0].owner
    if isinstance(compared, ir.Block) or compared.name != "stablehlo.compare":
        return None
    if "LT" not in str(compared.attributes["comparison_direction"]):
        return None
    counters = list(condition.arguments)
    if compared.operands[0] not in counters:
        return None
    index = counters.index(compared.operands[0])
    added = list(body.operations)[-1].operands[index].owner
    if isinstance(added, ir.Block) or added.name != "stablehlo.add":
        return None
    if added.operands[0] != body.arguments[index] or splat(added.operands[1]) != 1:
        return None
    start, end = splat(op.operands[index]), splat(compared.operands[1])
    return None if start is None or end is None else int(max(0, end - start))
