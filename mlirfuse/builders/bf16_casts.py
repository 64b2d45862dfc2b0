"""Convert to bf16 in integer arithmetic on CPUs, where IREE has no code or does not round.

    %z = arith.sitofp %i : i8 to bf16
  becomes
    %b = arith.bitcast (arith.sitofp %i : i8 to f32) : f32 to i32
    %r = (%b + 0x7fff + (%b >> 16 & 1)) >> 16
    %z = arith.bitcast (arith.trunci %r : i32 to i16) : i16 to bf16

IREE expands `arith.truncf` to bf16 in this way on every CPU, but MLIR folds it into a conversion of
an integer before it, and LLVM expands that to a call of `__truncsfbf2`, which no executable of IREE
has: "undefined symbol". The result is that of LLVM and of PyTorch, which convert to f32 first, too:
rounded to nearest, ties to even. No integer becomes a NaN or overflows bf16.

IREE 3.13 folds a cast to bf16 and one back to f32 where both end in one kernel, so that
`x.bfloat16().float()` is `x`. The first is written as integer arithmetic where the model has both.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.numbers import Numbers, element_of
from mlirfuse.structured.ir import ops

_CONVERSIONS = frozenset({"arith.sitofp", "arith.uitofp"})

_CASTS = frozenset({"arith.extf", "arith.truncf"})
"""Casts from bf16; IREE's to an 8-bit float is one back to f32 first."""

_HALF_BELOW = 0x7FFF
"""A unit less than half of the last place that bf16 keeps of f32."""

_QUIET = 1 << 6
"""The first bit of the mantissa of a NaN in bf16, whose others may be below those kept."""


def round_integers_to_bf16(module: ir.Module) -> bool:
    """Rewrites each conversion of a scalar integer to bf16; returns whether there was any."""
    found = [
        op
        for op in ops.nested_ops(module.operation)
        if op.name in _CONVERSIONS and str(op.results[0].type) == "bf16"
    ]
    for op in found:
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(_rounded(op.name, op.operands[0]))
        op.erase()
    return bool(found)


def _rounded(conversion: str, value: ir.Value) -> ir.Value:
    f = Numbers(value.type)
    bits = f.op("arith.bitcast", f.op(conversion, value), element="i32")
    return _of_high_half(f, _nearest(f, bits))


def _nearest(f: Numbers, bits: ir.Value) -> ir.Value:
    """The high half of the bits of an f32, rounded to nearest, ties to even."""
    odd = f.integer("andi", f.integer("shrui", bits, 16), 1)
    return f.integer("shrui", f.integer("addi", f.integer("addi", bits, _HALF_BELOW), odd), 16)


def _of_high_half(f: Numbers, bits: ir.Value) -> ir.Value:
    return f.op("arith.bitcast", f.op("arith.trunci", bits, element="i16"), element="bf16")


def keep_rounding(module: ir.Module, *, every: bool) -> bool:
    """Rewrites casts of floating-point numbers to bf16; returns whether there are any.

    Args:
      module: the module of a CPU.
      every: whether all of them are rewritten, or those alone whose results are cast again.
    """
    found = [
        op
        for op in ops.nested_ops(module.operation)
        if op.name == "arith.truncf"
        and element_of(op.results[0].type) == "bf16"
        and (every or _is_cast_again(op.results[0]))
    ]
    for op in found:
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(_rounded_float(op.operands[0]))
        op.erase()
    return bool(found)


def _is_cast_again(value: ir.Value) -> bool:
    """Whether an op casts a number, in its body or in that of a reader of its tensor."""
    for use in value.uses:
        user = use.owner
        if user.name in _CASTS:
            return True
        generic = user.parent.operation if user.name == "linalg.yield" else None
        if generic is None or not ops.is_generic(generic):
            continue
        for read in generic.results[use.operand_number].uses:
            reader = read.owner
            if ops.is_generic(reader) and any(
                inner.owner.name in _CASTS
                for inner in ops.body(reader).arguments[read.operand_number].uses
            ):
                return True
    return False


def _rounded_float(value: ir.Value) -> ir.Value:
    """A number in bf16; one of f64 becomes f32 first, as in PyTorch."""
    f = Numbers(value.type)
    if element_of(value.type) == "f64":
        value = f.op("arith.truncf", value)
    return _of_high_half(f, _high_half(f, value))


def rounded_to_bf16(value: ir.Value) -> ir.Value:
    """A number of f32 that is rounded to bf16, as f32."""
    f = Numbers(value.type)
    return f.op("arith.bitcast", f.integer("shli", _high_half(f, value), 16))


def _high_half(f: Numbers, value: ir.Value) -> ir.Value:
    """The bits of an f32, rounded to bf16; NaN stays NaN."""
    bits = f.op("arith.bitcast", value, element="i32")
    quiet = f.integer("ori", f.integer("shrui", bits, 16), _QUIET)
    return f.select(f.compare(value, "eq", value), _nearest(f, bits), quiet)
