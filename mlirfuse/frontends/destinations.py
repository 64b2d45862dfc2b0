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

    found: list[tuple[ir.Operation, int]] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _WRITERS:
            first = len(op.operands) - len(op.results)
            found.extend(
                (op, index)
                for index in range(first, len(op.operands))
                if _reads_nothing(op.operands[index])
            )
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
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

    declared = ir.RankedTensorType(value.type)
    element = declared.element_type
    integral = isinstance(element, ir.IntegerType)
    # -0.0 changes no number, not even a zero.
    none = ir.IntegerAttr.get(element, 0) if integral else ir.FloatAttr.get(element, -0.0)
    zero = ir.Operation.create("arith.constant", [element], [], {"value": none}).result
    unknown = ir.Operation.create("util.optimization_barrier", [element], [zero]).result
    sizes = list(value.owner.operands[0].owner.operands) if not declared.has_static_shape else []
    empty = ir.Operation.create("tensor.empty", [declared], sizes).result
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(declared.rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    generic = ir.Operation.create(
        "linalg.generic",
        [declared],
        [value, empty],
        {
            "indexing_maps": ir.ArrayAttr.get([identity, identity]),
            "iterator_types": ir.ArrayAttr.get([parallel] * declared.rank),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1]),
        },
        regions=1,
    )
    body = generic.regions[0].blocks.append(element, element)
    with ir.InsertionPoint(body):
        add = "arith.addi" if integral else "arith.addf"
        total = ir.Operation.create(add, [element], [body.arguments[0], unknown]).result
        ir.Operation.create("linalg.yield", [], [total])
    return generic.result
