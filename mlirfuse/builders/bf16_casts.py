"""Convert integers to bf16 in integer arithmetic, for CPUs without an instruction for it.

    %z = arith.sitofp %i : i8 to bf16
  becomes
    %b = arith.bitcast (arith.sitofp %i : i8 to f32) : f32 to i32
    %r = (%b + 0x7fff + (%b >> 16 & 1)) >> 16
    %z = arith.bitcast (arith.trunci %r : i32 to i16) : i16 to bf16

IREE expands `arith.truncf` to bf16 in this way on every CPU, but MLIR folds it into a conversion of
an integer before it, and LLVM expands that to a call of `__truncsfbf2`, which no executable of IREE
has: "undefined symbol". The result is that of LLVM and of PyTorch, which convert to f32 first, too:
rounded to nearest, ties to even. No integer becomes a NaN or overflows bf16.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.tensors import scalar, scalar_constant
from mlirfuse.structured.ir import ops

_CONVERSIONS = frozenset({"arith.sitofp", "arith.uitofp"})

_HALF_BELOW = 0x7FFF
"""A unit less than half of the last place that bf16 keeps of f32."""


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
