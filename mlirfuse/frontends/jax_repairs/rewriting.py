"""Steps that the repairs share: walks, replacements, reshapes and sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mlirfuse.structured.ir import constants

if TYPE_CHECKING:
    from iree.compiler import ir


def operations(op: Any) -> Iterator[Any]:
    """Every operation nested in `op`, of IREE's MLIR or JAX's."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from operations(inner.operation)


def is_public(op: ir.Operation) -> bool:
    """Whether a function can be called from outside of the module."""
    name = "sym_visibility"
    return name not in op.attributes or "private" not in str(op.attributes[name])


def symbol(op: ir.Operation) -> str:
    """The name of a function."""
    from iree.compiler import ir

    return str(ir.StringAttr(op.attributes["sym_name"]).value)


def callee(op: ir.Operation) -> str:
    """The name of the function that a call calls."""
    from iree.compiler import ir

    return str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)


def replace(op: ir.Operation, value: ir.Value) -> None:
    """Replaces an op of one result."""
    op.results[0].replace_all_uses_with(value)
    op.erase()


def regroup(
    name: str, source: ir.Value, result: ir.Type, groups: list[list[int]], sizes: list[ir.Value]
) -> ir.Value:
    """Collapses or expands dimensions; `sizes` are the dynamic ones of an expansion."""
    from iree.compiler import ir

    i64 = ir.IntegerType.get_signless(64)
    attributes: dict[str, ir.Attribute] = {
        "reassociation": ir.ArrayAttr.get(
            [ir.ArrayAttr.get([ir.IntegerAttr.get(i64, i) for i in group]) for group in groups]
        )
    }
    if name == "tensor.expand_shape":
        attributes["static_output_shape"] = ir.DenseI64ArrayAttr.get(
            list(ir.RankedTensorType(result).shape)
        )
    return ir.Operation.create(name, [result], [source, *sizes], attributes).result


def index(value: int) -> ir.Value:
    """A constant index."""
    from iree.compiler import ir

    index = ir.IndexType.get()
    attributes = {"value": ir.IntegerAttr.get(index, value)}
    return ir.Operation.create("arith.constant", [index], [], attributes).result


def splat(value: ir.Value) -> float | None:
    """The number that all elements of a constant are, or of a constant that is broadcast."""
    from iree.compiler import ir

    owner = value.owner
    while not isinstance(owner, ir.Block) and owner.name == "stablehlo.broadcast_in_dim":
        owner = owner.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.constant":
        return None
    return constants.attribute_number(owner.attributes["value"])
