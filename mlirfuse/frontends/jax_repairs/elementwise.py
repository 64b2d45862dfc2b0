"""Elementwise ops that IREE 3.13 computes wrong at infinities, zeros or out of range.

stablehlo.power, of a negative base: NaN, whatever the exponent
stablehlo.atan2 of two infinities or -0, stablehlo.cbrt of an infinity: NaN
stablehlo.atan2 of a negative number and -infinity: pi
stablehlo.convert to an integer that cannot hold the number: wraps, or is undefined; XLA takes the
nearest integer that can, and zero for NaN
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.jax_repairs.definitions import define, numpy_type
from mlirfuse.frontends.jax_repairs.rewriting import splat

if TYPE_CHECKING:
    from iree.compiler import ir

Array = Any

_FLOATS = ("f16", "bf16", "f32", "f64")


def power(op: ir.Operation) -> None:
    """Powers of floating-point numbers, with C's results for zeros, infinities and NaN.

    An exponent of a half or minus a half becomes a root, which passes know from norms.
    """
    if _element(op.operands[0]) not in _FLOATS:
        return
    exponent = splat(op.operands[1])
    if exponent is None or abs(exponent) != 0.5:
        define(op, _power)
        return
    positive = _is_positive(op.operands[0])
    define(op, lambda x, _: _root(x, inverse=exponent < 0, positive=positive))


def _root(x: Array, *, inverse: bool, positive: bool) -> Array:
    """The square root or its inverse; of -0 and -infinity that of the absolute value."""
    import jax.numpy as jnp
    from jax import lax

    if not positive:
        x = jnp.where((x == 0) | jnp.isneginf(x), lax.abs(x), x)
    return lax.rsqrt(x) if inverse else lax.sqrt(x)


def _is_positive(value: ir.Value) -> bool:
    """Whether a value is above zero or NaN: a constant is added to squares, or to their mean."""
    owner = _unbroadcast(value).owner
    return _name(owner) == "stablehlo.add" and any(
        (splat(a) or 0) > 0 and _is_no_less_than_zero(b)
        for a, b in (tuple(owner.operands), tuple(owner.operands)[::-1])
    )


def _is_no_less_than_zero(value: ir.Value) -> bool:
    value = _unbroadcast(value)
    number, owner = splat(value), value.owner
    if number is not None:
        return number >= 0
    match _name(owner):
        case "stablehlo.abs" | "stablehlo.exponential":
            return True
        case "stablehlo.multiply" | "stablehlo.divide" | "stablehlo.add":
            a, b = owner.operands
            squared = a == b and _name(owner) == "stablehlo.multiply"
            return squared or (_is_no_less_than_zero(a) and _is_no_less_than_zero(b))
        case "stablehlo.reduce":
            combined = [op.operation.name for op in owner.regions[0].blocks[0].operations]
            sums = combined == ["stablehlo.add", "stablehlo.return"]
            return sums and all(_is_no_less_than_zero(operand) for operand in owner.operands)
    return False


def _unbroadcast(value: ir.Value) -> ir.Value:
    while _name(value.owner) in _FORWARDING:
        value = value.owner.operands[0]
    return value


_FORWARDING = ("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.convert")


def _name(owner: ir.Operation | ir.Block) -> str:
    """The name of the op that makes a value; empty for an argument."""
    return getattr(owner, "name", "")


def _power(x: Array, y: Array) -> Array:
    import jax.numpy as jnp
    from jax import lax

    base = lax.abs(x)
    one, zero, infinity = (jnp.asarray(v, x.dtype) for v in (1, 0, jnp.inf))
    grows = (base > one) == (y > zero)
    extreme = (base == zero) | (base == infinity) | (lax.abs(y) == infinity)
    inside = lax.pow(jnp.where(extreme, one, base), jnp.where(extreme, one, y))
    result = jnp.where(extreme, jnp.where(grows, infinity, zero), inside)
    whole = lax.floor(y) == y
    half = y * jnp.asarray(0.5, x.dtype)
    odd = whole & (lax.floor(half) != half) & (lax.abs(y) != infinity)
    result = jnp.where(odd & _negative(x), -result, result)
    undefined = (x < zero) & (x != -infinity) & ~whole | jnp.isnan(x) | jnp.isnan(y)
    result = jnp.where(undefined, jnp.asarray(jnp.nan, x.dtype), result)
    unit = (y == zero) | (x == one) | ((base == one) & (lax.abs(y) == infinity))
    return jnp.where(unit, one, result)


def _negative(x: Array) -> Array:
    """Whether the sign is negative, -0 included."""
    import jax.numpy as jnp

    return jnp.signbit(x)


def atan2(op: ir.Operation) -> None:
    """The quadrants' diagonals for two infinities, and the sign of zeros."""

    def function(y: Array, x: Array) -> Array:
        import jax.numpy as jnp
        from jax import lax

        # A quotient of zero loses its sign in IREE.
        y = jnp.where(jnp.isfinite(y) & jnp.isinf(x), jnp.copysign(jnp.zeros_like(y), y), y)
        both = jnp.isinf(y) & jnp.isinf(x)
        one = jnp.ones((), x.dtype)
        first = jnp.where(both, jnp.where(y > 0, one, -one), y)
        second = jnp.where(both, jnp.where(x > 0, one, -one), x)
        # IREE has NaN for two zeros. The sign of a zero is the result's.
        second = jnp.where((x == 0) & (y == 0), jnp.copysign(one, x), second)
        angle = lax.atan2(jnp.where(y == 0, lax.abs(y), first), second)
        return jnp.where(y == 0, jnp.copysign(angle, y), angle)

    if _element(op.operands[0]) in _FLOATS:
        define(op, function)


def cbrt(op: ir.Operation) -> None:
    """Infinities and zeros are their own roots."""

    def function(x: Array) -> Array:
        import jax.numpy as jnp
        from jax import lax

        return jnp.where(jnp.isinf(x) | (x == 0), x, lax.cbrt(x))

    define(op, function)


def convert(op: ir.Operation) -> None:
    """Conversions of floating-point numbers to integers, but for those that are clamped before."""
    from iree.compiler import ir

    source, target = _element(op.operands[0]), _element(op.results[0])
    if "f" not in source or source.startswith("complex") or "i" not in target or target == "i1":
        return
    if "complex" in target or _is_clamped(op.operands[0]):
        return
    limits = ir.IntegerType(ir.RankedTensorType(op.results[0].type).element_type)

    def function(x: Array) -> Array:
        import jax.numpy as jnp
        from jax import lax

        found = numpy_type(target)
        least = 0 if limits.is_unsigned else -(2 ** (limits.width - 1))
        most = 2 ** (limits.width - (0 if limits.is_unsigned else 1)) - 1
        wide = lax.convert_element_type(x, jnp.float32) if x.dtype.itemsize < 4 else x
        inside = (wide > float(least)) & (wide < float(most))
        number = lax.convert_element_type(jnp.where(inside, wide, 0), found)
        edge = jnp.where(wide > 0, jnp.asarray(most, found), jnp.asarray(least, found))
        edge = jnp.where(jnp.isnan(wide), jnp.asarray(0, found), edge)
        return jnp.where(inside, number, edge)

    define(op, function)


def _element(value: ir.Value) -> str:
    from iree.compiler import ir

    return str(ir.RankedTensorType(value.type).element_type)


_ROUNDING = (
    "stablehlo.round_nearest_even",
    "stablehlo.round_nearest_afz",
    "stablehlo.floor",
    "stablehlo.ceil",
    "stablehlo.convert",
)


def _is_clamped(value: ir.Value) -> bool:
    """Whether a value is a clamp's result, rounded or not; also where `jnp.clip` is a function."""
    from iree.compiler import ir

    owner = value.owner
    while not isinstance(owner, ir.Block) and owner.name in _ROUNDING:
        owner = owner.operands[0].owner
    if isinstance(owner, ir.Block):
        return False
    if owner.name == "func.call":
        return str(ir.FlatSymbolRefAttr(owner.attributes["callee"]).value).startswith("clip")
    return bool(owner.name == "stablehlo.clamp")
