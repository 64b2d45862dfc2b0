"""Keeps ops from sorting or scattering into one and the same sequence of indices.

    %i = linalg.generic outs(%e) { linalg.index }          // reads nothing
    %s = iree_linalg_ext.sort outs(%x, %i)
    %t = iree_linalg_ext.sort outs(%y, %i)
  becomes, for the second one,
    %z = util.optimization_barrier 0
    %j = linalg.generic ins(%i) { addi %z }                // equal, and no common subexpression
    %t = iree_linalg_ext.sort outs(%y, %j)

IREE 3.13 computes such a value once for each op that writes into it, in place of a copy, and later
merges the two computations as equal: both ops write into the same memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse import builders
from mlirfuse.structured.ir import ops

if TYPE_CHECKING:
    from iree.compiler import ir

_WRITERS = (
    "iree_linalg_ext.sort",
    "iree_linalg_ext.scatter",
    "tm_tensor.sort",
    "tm_tensor.scatter",
)
"""Ops that read and write their last operands, one for each result."""


def separate_destinations(module: ir.Module) -> bool:
    """Gives each op a destination of its own; returns whether anything changed."""
    from iree.compiler import ir

    found = [
        (op, index)
        for op in ops.nested_ops(module.operation)
        if op.name in _WRITERS
        for index in range(len(op.operands) - len(op.results), len(op.operands))
        if _reads_nothing(op.operands[index])
    ]
    for op, index in found[1:]:
        with op.location, ir.InsertionPoint(op):
            op.operands[index] = _copied(op.operands[index])
    return len(found) > 1


def _reads_nothing(value: ir.Value) -> bool:
    """Whether a value is computed without reading a tensor."""
    from iree.compiler import ir

    owner = value.owner
    return (
        not isinstance(owner, ir.Block)
        and owner.name == "linalg.generic"
        and ops.num_inputs(owner) == 0
        and isinstance(value.type, ir.RankedTensorType)
        and isinstance(value.type.element_type, ir.IntegerType | ir.FloatType)
    )


def _copied(value: ir.Value) -> ir.Value:
    """The sum with a zero that the compiler does not know."""
    from iree.compiler import ir

    kind, shape = ops.element_type(value), ops.shape(value)
    integral = kind.startswith("i")
    # -0.0 changes no number, not even a zero.
    zero = builders.scalar_constant(0 if integral else -0.0, kind)
    unknown = ir.Operation.create("util.optimization_barrier", [zero.type], [zero]).result
    sizes = list(value.owner.operands[0].owner.operands) if None in shape else []
    identity = tuple(range(len(shape)))
    add = "arith.addi" if integral else "arith.addf"
    return builders.generic(
        [value],
        [builders.empty(shape, kind, sizes)],
        [identity, identity],
        ["parallel"] * len(shape),
        lambda arguments: [builders.scalar(add, [arguments[0], unknown], kind)],
    ).results[0]
