"""Unsigned integers as signless ones, but where an op depends on the sign.

  %1 = stablehlo.reverse %0 : tensor<4xui8>
  %2 = stablehlo.maximum %1, %0 : tensor<4xui8>
becomes
  %1 = stablehlo.reverse %0 : tensor<4xi8>
  %a, %b = stablehlo.bitcast_convert %1, %0 : tensor<4xi8> -> tensor<4xui8>
  %m = stablehlo.maximum %a, %b : tensor<4xui8>
  %2 = stablehlo.bitcast_convert %m : tensor<4xui8> -> tensor<4xi8>

IREE 3.13 converts the types itself, and has no lowering for many ops after that: reverse, pad,
sort, reduce_window, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlirfuse.frontends.jax_repairs.rewriting import is_public, operations

if TYPE_CHECKING:
    from iree.compiler import ir

_SIGNED = frozenset(
    f"stablehlo.{name}"
    for name in (
        "abs",
        "clamp",
        "compare",
        "constant",
        "convert",
        "convolution",
        "custom_call",
        "divide",
        "dot_general",
        "dynamic_slice",
        "dynamic_update_slice",
        "gather",
        "maximum",
        "minimum",
        "power",
        "remainder",
        "rng",
        "rng_bit_generator",
        "sign",
    )
)
"""Ops whose meaning depends on the sign, of indices too, or whose attributes name the type."""


def strip_signs(module: ir.Module) -> None:
    """Makes unsigned integers signless, but for the arguments and results of public functions."""
    from iree.compiler import ir

    ops = list(operations(module.operation))
    public = [op for op in ops if op.name == "func.func" and is_public(op)]
    returns = [list(op.regions[0].blocks[0].operations)[-1].operation for op in public]
    kept = [op for op in ops if _reads_sign(op)] + returns
    before = [[value.type for value in op.operands] for op in kept]
    with module.operation.location:
        for op in ops:
            if op in public:
                _cast_arguments(op)
                continue
            for argument in (a for r in op.regions for b in r.blocks for a in b.arguments):
                argument.set_type(_signless(argument.type))
            if op.name == "func.func":
                declared = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
                sides = [[_signless(t) for t in s] for s in (declared.inputs, declared.results)]
                op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*sides))
            elif op.name == "stablehlo.constant":
                _strip_constant(op)
            elif not _reads_sign(op):
                for result in op.results:
                    result.set_type(_signless(result.type))
        for op, types in zip(kept, before, strict=True):
            _cast(op, types)


def _cast_arguments(op: ir.Operation) -> None:
    """Casts the unsigned arguments of a function at its start."""
    from iree.compiler import ir

    block = op.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block):
        for argument in block.arguments:
            target = _signless(argument.type)
            if target != argument.type:
                new = ir.Operation.create("stablehlo.bitcast_convert", [target], [argument])
                argument.replace_all_uses_except(new.result, [new])


def _strip_constant(op: ir.Operation) -> None:
    from iree.compiler import ir

    target = _signless(op.results[0].type)
    if target == op.results[0].type:
        return  # MLIR's bindings have no class for the attribute of complex numbers
    value = op.attributes["value"]
    if isinstance(value, ir.DenseElementsAttr):
        # Large ones are printed as bytes.
        op.attributes["value"] = ir.Attribute.parse(f"{str(value).rpartition(' : ')[0]} : {target}")
        op.results[0].set_type(target)


def _reads_sign(op: ir.Operation) -> bool:
    return op.name in _SIGNED or op.name.startswith("chlo.")


def _cast(op: ir.Operation, types: Sequence[ir.Type]) -> None:
    """Casts the operands of an op to their types from before, and its results to signless ones."""
    from iree.compiler import ir

    def cast(value: ir.Value, target: ir.Type) -> ir.Operation:
        return ir.Operation.create("stablehlo.bitcast_convert", [target], [value])

    with op.location, ir.InsertionPoint(op):
        for index, (value, target) in enumerate(zip(op.operands, types, strict=True)):
            if value.type != target:
                op.operands[index] = cast(value, target).result
    for result in op.results:
        target = _signless(result.type)
        if target != result.type:
            with op.location, ir.InsertionPoint.after(op):
                new = cast(result, target)
            result.replace_all_uses_except(new.result, [new])


def _signless(declared: ir.Type) -> ir.Type:
    """The type with signless integers for unsigned ones."""
    from iree.compiler import ir

    if not isinstance(declared, ir.RankedTensorType):
        return declared
    element = declared.element_type
    if not isinstance(element, ir.IntegerType) or not element.is_unsigned:
        return declared
    signless = ir.IntegerType.get_signless(element.width)
    return ir.RankedTensorType.get(declared.shape, signless, declared.encoding)
