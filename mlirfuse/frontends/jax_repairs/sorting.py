"""Sorts that keep the order of equal elements, and the largest elements with NaN among them.

IREE 3.13 swaps neighbors for which the comparator is false, so equal ones too. For `chlo.top_k` it
compares floats, where NaN is never the larger one, or integers by `sge`, which puts the last of
equal ones first, and all of them as signed.
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
    swapped = {value: arguments[index ^ 1] for index, value in enumerate(arguments)}
    for each in block.operations:
        for index, operand in enumerate(each.operands):
            if operand in swapped:
                each.operands[index] = swapped[operand]


def restore_top_k(op: ir.Operation) -> None:
    """Makes `chlo.top_k` of the composite that an export has in its place.

    IREE 3.13 takes that for its own `top_k`, whatever the decomposition.
    """
    from iree.compiler import ir

    if ir.StringAttr(op.attributes["name"]).value != "chlo.top_k":
        return
    attributes = {"k": ir.DictAttr(op.attributes["composite_attributes"])["k"]}
    results = [result.type for result in op.results]
    with op.location, ir.InsertionPoint(op):
        new = ir.Operation.create("chlo.top_k", results, list(op.operands), attributes)
    for old, result in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    op.erase()


def top_k(op: ir.Operation) -> None:
    """The largest elements by signed integers, in whose order NaN is the largest number."""
    from iree.compiler import ir

    count = ir.RankedTensorType(op.results[0].type).shape[-1]
    element = str(ir.RankedTensorType(op.operands[0].type).element_type)
    if element not in ("i32", "i64"):
        define(op, lambda x: _largest(x, count))


def _largest(x: Array, count: int) -> tuple[Array, Array]:
    """Values and indices of the largest elements of the last dimension."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    x = jnp.where(jnp.isnan(x), jnp.nan, x) if jnp.issubdtype(x.dtype, jnp.floating) else x
    size = x.dtype.itemsize
    # The smallest integer stands for no element yet, so the type is wider where it can be one.
    wide = jnp.dtype("int64" if size == 8 or x.dtype == jnp.uint32 else "int32")
    with jax.enable_x64(wide.itemsize == 8):
        if jnp.issubdtype(x.dtype, jnp.floating):
            bits = jnp.dtype(f"int{8 * size}")
            keys = _ordered(lax.bitcast_convert_type(x, bits)).astype(wide)
            values, indices = lax.top_k(keys, count)
            values = lax.bitcast_convert_type(_ordered(values.astype(bits)), x.dtype)
        else:
            values, indices = lax.top_k(x.astype(wide), count)
            values = values.astype(x.dtype)
    return values, indices


def _ordered(bits: Array) -> Array:
    """Integers in the order of the floats with these bits; it is its own inverse."""
    import jax.numpy as jnp

    return jnp.where(bits < 0, bits ^ jnp.iinfo(bits.dtype).max, bits)


def lower_top_k(op: ir.Operation) -> None:
    """Lowers `top_k` of integers, with a comparator that leaves equal elements in order."""
    from iree.compiler import ir

    source = ir.RankedTensorType(op.operands[0].type)
    element = source.element_type
    if not isinstance(element, ir.IntegerType) or not source.has_static_shape:
        return
    values, indices = (ir.RankedTensorType(result.type) for result in op.results)
    with op.location, ir.InsertionPoint(op):
        starts = [
            _filled(values, -(2 ** (element.width - 1))),
            _filled(indices, 2**31 - 1),
        ]
        axis = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), source.rank - 1)
        largest = ir.Operation.create(
            "iree_linalg_ext.topk",
            [values, indices],
            [op.operands[0], *starts],
            {"dimension": axis, "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 2])},
            regions=1,
        )
        body = largest.regions[0].blocks.append(element, element)
        with ir.InsertionPoint(body):
            predicate = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _SGT)
            larger = ir.Operation.create(
                "arith.cmpi",
                [ir.IntegerType.get_signless(1)],
                list(body.arguments),
                {"predicate": predicate},
            )
            ir.Operation.create("iree_linalg_ext.yield", [], [larger.result])
    for old, new in zip(op.results, largest.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


_SGT = 4
"""`sgt` as a predicate of `arith.cmpi`."""


def _filled(declared: ir.RankedTensorType, value: int) -> ir.Value:
    from iree.compiler import ir

    attribute = ir.IntegerAttr.get(declared.element_type, value)
    splat = ir.DenseElementsAttr.get_splat(declared, attribute)
    return ir.Operation.create("arith.constant", [declared], [], {"value": splat}).result


def define_approximate_top_k(op: ir.Operation, configuration: dict[str, Any]) -> None:
    """`lax.approx_max_k` and `approx_min_k`, exactly."""
    axis, count = configuration["reduction_dim"], configuration["top_k"]
    smallest = "_lt_" in str(op.attributes["called_computations"])

    def function(x: Array, positions: Array, _value: Array, _position: Array) -> Any:
        import jax.numpy as jnp

        # The two zeros are equal here.
        moved = jnp.moveaxis(jnp.where(x == 0, jnp.zeros_like(x), x), axis, -1)
        _, indices = _largest(-moved if smallest else moved, count)
        indices = jnp.moveaxis(indices, -1, axis)
        values = jnp.take_along_axis(x, indices, axis)
        return values, jnp.take_along_axis(positions, indices, axis)

    define(op, function)
