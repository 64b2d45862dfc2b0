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
from mlirfuse.builders.tensors import scalar, scalar_constant
from mlirfuse.structured.ir import ops

_CONVERSIONS = frozenset({"arith.sitofp", "arith.uitofp"})

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
    bits = scalar("arith.bitcast", [scalar(conversion, [value], "f32")], "i32")
    shift = scalar_constant(16, "i32")
    last = scalar("arith.shrui", [bits, shift], "i32")
    odd = scalar("arith.andi", [last, scalar_constant(1, "i32")], "i32")
    half = scalar("arith.addi", [scalar_constant(_HALF_BELOW, "i32"), odd], "i32")
    rounded = scalar("arith.shrui", [scalar("arith.addi", [bits, half], "i32"), shift], "i32")
    return scalar("arith.bitcast", [scalar("arith.trunci", [rounded], "i16")], "bf16")


def keep_rounding(module: ir.Module, *, every: bool) -> bool:
    """Rewrites casts of floating-point numbers to bf16; returns whether there are any.

    Args:
      module: the module of a CPU.
      every: whether all of them are rewritten, or those alone whose results are cast back.
    """
    found = [
        op
        for op in ops.nested_ops(module.operation)
        if op.name == "arith.truncf"
        and element_of(op.results[0].type) == "bf16"
        and (every or _is_cast_back(op.results[0]))
    ]
    for op in found:
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(_rounded_float(op.operands[0]))
        op.erase()
    return bool(found)


def _is_cast_back(value: ir.Value) -> bool:
    """Whether an op widens a number, in its body or in that of a reader of its tensor."""
    for use in value.uses:
        user = use.owner
        if user.name == "arith.extf":
            return True
        generic = user.parent.operation if user.name == "linalg.yield" else None
        if generic is None or not ops.is_generic(generic):
            continue
        for read in generic.results[use.operand_number].uses:
            reader = read.owner
            if ops.is_generic(reader) and any(
                inner.owner.name == "arith.extf"
                for inner in ops.body(reader).arguments[read.operand_number].uses
            ):
                return True
    return False


def _rounded_float(value: ir.Value) -> ir.Value:
    """A number in bf16; one of f64 becomes f32 first, as in PyTorch."""
    f = Numbers(value.type)
    if element_of(value.type) == "f64":
        value = f.op("arith.truncf", value)

    def integer(name: str, one: ir.Value, other: ir.Value | int) -> ir.Value:
        held = other if isinstance(other, ir.Value) else f.constant(other, "i32")
        return f.op(f"arith.{name}", one, held, element="i32")

    bits = f.op("arith.bitcast", value, element="i32")
    high = integer("shrui", bits, 16)
    odd = integer("andi", high, 1)
    rounded = integer("shrui", integer("addi", integer("addi", bits, _HALF_BELOW), odd), 16)
    is_number = f.compare(value, "eq", value)
    kept = f.select(is_number, rounded, integer("ori", high, _QUIET))
    return f.op("arith.bitcast", f.op("arith.trunci", kept, element="i16"), element="bf16")
