"""Reduce the arguments of sines, cosines and tangents to half a turn, for the CPU and CUDA.

    %y = math.sin %x : f32
  becomes
    %r = %x - round(%x / 2pi) * 2pi          // 2pi in four parts, up to 50000
    %y = math.sin %r : f32

IREE 3.13 approximates them by polynomials but for ROCm, with half of pi as one f32: the error is
2e-5 at 1000, 0.03 at a million, and results are infinite from 2^31 on. Above 50000 the fraction of
a turn is a product of integers: the 24 bits of the number's mantissa, and the 64 bits of 1 / 2pi
that its exponent does not make whole turns (Payne and Hanek, 1983). Without branches, so that the
loop is vectorized. A million sines take 2.5 ms instead of 1.6 on two cores of an AMD EPYC (Zen 5).
"""

from __future__ import annotations

import math

from iree.compiler import ir

from mlirfuse.builders.tensors import scalar, scalar_constant
from mlirfuse.structured.ir import ops

_FUNCTIONS = frozenset({"math.cos", "math.sin", "math.tan"})

_KINDS = frozenset({"bf16", "f16", "f32"})

_TURN = (6.28125, 0.001934051513671875, 1.255422830581665e-06, 2.430840251310684e-10)
"""2 pi in parts of nine bits, so that products with the number of turns are exact."""

_LIMIT = 50000.0
"""Largest number that is reduced by these parts: 2^13 turns."""

_OGE, _OLT, _SGE = "3 : i64", "4 : i64", "5 : i64"
"""Predicates of `arith.cmpf` and `arith.cmpi`."""

_INVERSE_TURN = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E410
"""1 / 2pi in units of 2^-192."""

_BIAS = 137
"""A number with this exponent, as f32 stores it, is its mantissa, an integer, times 2^-13."""


def has_angles(module: ir.Module) -> bool:
    """Whether there is a sine, cosine or tangent to reduce the argument of."""
    return any(map(_is_angle_function, ops.nested_ops(module.operation)))


def reduce_angles(module: ir.Module) -> bool:
    """Reduces the arguments of all of them; returns whether there is any."""
    found = [op for op in ops.nested_ops(module.operation) if _is_angle_function(op)]
    for op in found:
        kind = str(op.results[0].type)
        with ir.InsertionPoint(op), op.location:
            value = op.operands[0]
            wide = value if kind == "f32" else scalar("arith.extf", [value], "f32")
            result = scalar(op.name, [_reduced(wide)], "f32")
            if kind != "f32":
                result = scalar("arith.truncf", [result], kind)
        op.results[0].replace_all_uses_with(result)
        op.erase()
    return bool(found)


def _is_angle_function(op: ir.Operation) -> bool:
    return op.name in _FUNCTIONS and str(op.results[0].type) in _KINDS


def _float(number: float) -> ir.Value:
    return scalar_constant(number, "f32")


def _reduced(x: ir.Value) -> ir.Value:
    magnitude = scalar("math.absf", [x], "f32")
    far = scalar("arith.cmpf", [magnitude, _float(_LIMIT)], "i1", _OGE)
    finite = scalar("arith.cmpf", [magnitude, _float(math.inf)], "i1", _OLT)
    return scalar(
        "arith.select",
        [scalar("arith.andi", [far, finite], "i1"), _of_large(x), _of_small(x)],
        "f32",
    )


def _of_small(x: ir.Value) -> ir.Value:
    quotient = scalar("arith.mulf", [x, _float(1 / math.tau)], "f32")
    turns = scalar("math.roundeven", [quotient], "f32")
    for part in _TURN:
        x = scalar("arith.subf", [x, scalar("arith.mulf", [turns, _float(part)], "f32")], "f32")
    return x


def _of_large(x: ir.Value) -> ir.Value:
    bits = scalar("arith.bitcast", [x], "i32")
    stored = scalar("arith.shrui", [bits, scalar_constant(23, "i32")], "i32")
    stored = scalar("arith.andi", [stored, scalar_constant(0xFF, "i32")], "i32")
    fraction = scalar("arith.andi", [bits, scalar_constant(2**23 - 1, "i32")], "i32")
    mantissa = scalar("arith.ori", [fraction, scalar_constant(2**23, "i32")], "i32")
    start = scalar("arith.subi", [stored, scalar_constant(_BIAS, "i32")], "i32")
    window = _window(scalar("arith.extsi", [start], "i64"))
    # Whole turns overflow; the rest is a signed number of 2^-64 turns.
    turns = scalar("arith.muli", [scalar("arith.extui", [mantissa], "i64"), window], "i64")
    angle = scalar("arith.sitofp", [turns], "f32")
    angle = scalar("arith.mulf", [angle, _float(math.tau * 2.0**-64)], "f32")
    negative = scalar("arith.cmpf", [x, _float(0.0)], "i1", _OLT)
    return scalar("arith.select", [negative, scalar("arith.negf", [angle], "f32"), angle], "f32")


def _window(start: ir.Value) -> ir.Value:
    """64 bits of 2^-13 / 2pi, from one on."""
    shift = scalar("arith.andi", [start, scalar_constant(63, "i64")], "i64")
    second = scalar("arith.cmpi", [start, scalar_constant(64, "i64")], "i1", _SGE)
    words = [_word(index) for index in range(3)]
    high, low = (scalar("arith.select", [second, words[i + 1], words[i]], "i64") for i in range(2))
    rest = scalar("arith.subi", [scalar_constant(63, "i64"), shift], "i64")
    # In two steps, for a shift by 64 has no result.
    low = scalar("arith.shrui", [low, scalar_constant(1, "i64")], "i64")
    parts = [
        scalar("arith.shli", [high, shift], "i64"),
        scalar("arith.shrui", [low, rest], "i64"),
    ]
    return scalar("arith.ori", parts, "i64")


def _word(index: int) -> ir.Value:
    unsigned = (_INVERSE_TURN >> 13 >> 64 * (2 - index)) % 2**64
    return scalar_constant(unsigned - 2**64 if unsigned >= 2**63 else unsigned, "i64")
