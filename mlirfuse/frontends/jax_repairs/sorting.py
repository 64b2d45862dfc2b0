"""Sorts that keep the order of equal elements, and the largest elements with NaN among them.

IREE 3.13 swaps neighbors for which the comparator is false, so equal ones too, and compares floats
for `chlo.top_k`, where NaN is never the larger one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.jax_repairs.definitions import define

if TYPE_CHECKING:
    from iree.compiler import ir

Array = Any


def sort(op: ir.Operation) -> None:
    """Makes the comparator `not before(right, left)`: with it, neighbors in order stay."""
    from iree.compiler import ir

    block = op.regions[0].blocks[0]
    arguments = list(block.arguments)
    end = list(block.operations)[-1]
    with end.location, ir.InsertionPoint(end):
        true = ir.DenseElementsAttr.get_splat(
            ir.RankedTensorType.get([], ir.IntegerType.get_signless(1)), ir.BoolAttr.get(True)
        )
        constant = ir.Operation.create("stablehlo.constant", [true.type], [], {"value": true})
        negated = ir.Operation.create(
            "stablehlo.xor", [true.type], [end.operands[0], constant.result]
        )
        end.operands[0] = negated.result
    swapped = {
        value: arguments[index ^ 1] for index, value in enumerate(arguments)
    }
    for each in block.operations:
        for index, operand in enumerate(each.operands):
            if operand in swapped:
                each.operands[index] = swapped[operand]


def top_k(op: ir.Operation) -> None:
    """The largest floats by an order of integers, in which NaN is the largest."""
    from iree.compiler import ir

    declared = ir.RankedTensorType(op.operands[0].type)
    if isinstance(declared.element_type, ir.FloatType):
        count = ir.RankedTensorType(op.results[0].type).shape[-1]
        define(op, lambda x: _largest(x, count))


def _largest(x: Array, count: int) -> tuple[Array, Array]:
    """Values and indices of the largest elements of the last dimension."""
    import jax.numpy as jnp
    from jax import lax

    if not jnp.issubdtype(x.dtype, jnp.floating):
        return lax.top_k(x, count)
    bits = jnp.dtype(f"int{8 * x.dtype.itemsize}")
    values, indices = lax.top_k(_ordered(lax.bitcast_convert_type(x, bits)), count)
    return lax.bitcast_convert_type(_ordered(values), x.dtype), indices


def _ordered(bits: Array) -> Array:
    """Integers in the order of the floats with these bits; it is its own inverse."""
    import jax.numpy as jnp

    return jnp.where(bits < 0, bits ^ jnp.iinfo(bits.dtype).max, bits)


def define_approximate_top_k(op: ir.Operation, configuration: dict[str, Any]) -> None:
    """`lax.approx_max_k` and `approx_min_k`, exactly."""
    axis, count = configuration["reduction_dim"], configuration["top_k"]
    smallest = "_lt_" in str(op.attributes["called_computations"])

    def function(x: Array, positions: Array, _value: Array, _position: Array) -> Any:
        import jax.numpy as jnp

        moved = jnp.moveaxis(x, axis, -1)
        values, indices = _largest(-moved if smallest else moved, count)
        indices = jnp.moveaxis(indices, -1, axis)
        values = jnp.moveaxis(-values if smallest else values, -1, axis)
        return values, jnp.take_along_axis(positions, indices, axis)

    define(op, function)
