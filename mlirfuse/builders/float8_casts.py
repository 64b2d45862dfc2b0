"""Casts from and to 8-bit floats in integer arithmetic, where IREE has no such casts.

    %y = arith.extf %x : f8E4M3FN to f32
  becomes a computation on
    %b = arith.extui (arith.bitcast %x : f8E4M3FN to i8) : i8 to i32

IREE 3.13 hands `arith.extf` and `arith.truncf` of 8-bit floats to NVPTX unchanged, and LLVM refuses
them; on CPUs it knows those of bf16 and f32. An f64 becomes an f32 first, as in PyTorch. The values
are those of MLIR and of `ml_dtypes`: rounded to nearest, ties to even; numbers beyond the largest
one become infinite where the type has an infinity, and NaN elsewhere.
Source of the formats: OCP 8-bit Floating Point Specification 1.0, and arXiv:2206.02915 for FNUZ.
"""

from __future__ import annotations

import dataclasses
import math

from iree.compiler import ir

from mlirfuse.builders.tensors import scalar, scalar_constant
from mlirfuse.structured.ir import ops

_EQ, _ULT, _UGT = "0 : i64", "6 : i64", "8 : i64"
"""Predicates of `arith.cmpi`."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Format:
    """A type of eight bits: a sign, an exponent and a mantissa.

    Attributes:
      mantissa: number of bits of the mantissa.
      bias: bias of the exponent.
      largest: bits of the largest finite number.
      nan: bits of the NaN that casts give.
      has_infinity: whether the number after the largest is an infinity.
      has_negative_zero: whether the bits of a negative zero are one; they are the NaN otherwise.
    """

    mantissa: int
    bias: int
    largest: int
    nan: int
    has_infinity: bool = False
    has_negative_zero: bool = True


_FORMATS = {
    "f8E4M3FN": _Format(3, 7, 0x7E, 0x7F),
    "f8E5M2": _Format(2, 15, 0x7B, 0x7E, has_infinity=True),
    "f8E4M3FNUZ": _Format(3, 8, 0x7F, 0x80, has_negative_zero=False),
    "f8E5M2FNUZ": _Format(2, 16, 0x7F, 0x80, has_negative_zero=False),
}
ALL_TYPES = frozenset({"f16", "bf16", "f32", "f64"})
"""Types that are cast from and to 8-bit floats."""

CPU_TYPES = frozenset({"f16", "f64"})
"""Those whose casts have no code on CPUs."""


def repair(module: ir.Module, wide_types: frozenset[str] = ALL_TYPES) -> bool:
    """Rewrites each cast between an 8-bit float and one of some types; whether there was any."""
    found = []
    for op in ops.nested_ops(module.operation):
        if op.name not in ("arith.extf", "arith.truncf"):
            continue
        narrow, wide = str(op.operands[0].type), str(op.results[0].type)
        if op.name == "arith.truncf":
            narrow, wide = wide, narrow
        if narrow in _FORMATS and wide in wide_types:
            found.append((op, _FORMATS[narrow]))
    for op, kind in found:
        with ir.InsertionPoint(op), op.location:
            (value,), result = op.operands, str(op.results[0].type)
            new = _extended(value, kind) if op.name == "arith.extf" else _rounded(value, kind)
            if op.name == "arith.truncf":
                new = scalar("arith.bitcast", [new], result)
            elif result != "f32":
                new = scalar("arith.extf" if result == "f64" else "arith.truncf", [new], result)
            op.results[0].replace_all_uses_with(new)
        op.erase()
    return bool(found)


def _int(number: int) -> ir.Value:
    return scalar_constant(number, "i32")


def _binary(name: str, a: ir.Value, b: ir.Value) -> ir.Value:
    return scalar(f"arith.{name}", [a, b], "i32")


def _compare(a: ir.Value, predicate: str, b: int) -> ir.Value:
    return scalar("arith.cmpi", [a, _int(b)], "i1", predicate)


def _select(condition: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    return scalar("arith.select", [condition, a, b], "i32")


def _bits(number: float) -> int:
    """The bits of a power of two in f32."""
    return (127 + round(math.log2(number))) << 23


def _extended(value: ir.Value, kind: _Format) -> ir.Value:
    """The f32 of an 8-bit float."""
    bits = scalar("arith.extui", [scalar("arith.bitcast", [value], "i8")], "i32")
    magnitude = _binary("andi", bits, _int(0x7F))
    sign = _binary("shli", _binary("andi", bits, _int(0x80)), _int(24))
    normal = _binary(
        "addi",
        _binary("shli", magnitude, _int(23 - kind.mantissa)),
        _int((127 - kind.bias) << 23),
    )
    unit = scalar_constant(2.0 ** (1 - kind.bias - kind.mantissa), "f32")
    product = scalar("arith.mulf", [scalar("arith.uitofp", [magnitude], "f32"), unit], "f32")
    small = scalar("arith.bitcast", [product], "i32")
    found = _select(_compare(magnitude, _ULT, 1 << kind.mantissa), small, normal)
    nan = _int(0x7FC00000)
    if not kind.has_negative_zero:
        found = _select(_compare(bits, _EQ, kind.nan), nan, found)
    else:
        found = _select(_compare(magnitude, _UGT, kind.largest), nan, found)
    if kind.has_infinity:
        infinite = _compare(magnitude, _EQ, kind.largest + 1)
        found = _select(infinite, _int(0x7F800000), found)
    return scalar("arith.bitcast", [_binary("ori", found, sign)], "f32")


def _rounded(value: ir.Value, kind: _Format) -> ir.Value:
    """The bits, as i8, of the 8-bit float nearest to a float."""
    wide = value
    if str(value.type) != "f32":
        wide = scalar("arith.truncf" if str(value.type) == "f64" else "arith.extf", [value], "f32")
    bits = scalar("arith.bitcast", [wide], "i32")
    magnitude = _binary("andi", bits, _int(0x7FFFFFFF))
    sign = _binary("andi", _binary("shrui", bits, _int(24)), _int(0x80))
    # Normal numbers: half of the last place is added to the bits, less one below an even place.
    shift = 23 - kind.mantissa
    odd = _binary("andi", _binary("shrui", magnitude, _int(shift)), _int(1))
    half = _binary("addi", _int((1 << (shift - 1)) - 1), odd)
    normal = _binary(
        "subi",
        _binary("shrui", _binary("addi", magnitude, half), _int(shift)),
        _int((127 - kind.bias) << kind.mantissa),
    )
    # Small numbers are multiples of the smallest one.
    places = scalar_constant(2.0 ** (kind.bias - 1 + kind.mantissa), "f32")
    absolute = scalar("arith.bitcast", [magnitude], "f32")
    whole = scalar("math.roundeven", [scalar("arith.mulf", [absolute, places], "f32")], "f32")
    is_small = _compare(magnitude, _ULT, _bits(2.0 ** (1 - kind.bias)))
    small = scalar("arith.fptoui", [_zero_unless(is_small, whole)], "i32")
    found = _select(is_small, small, normal)
    beyond = kind.largest + 1 if kind.has_infinity else kind.nan
    found = _select(_compare(found, _UGT, kind.largest), _int(beyond), found)
    found = _select(_compare(magnitude, _UGT, 0x7F800000), _int(kind.nan), found)
    if not kind.has_negative_zero:
        sign = _select(_compare(found, _EQ, 0), _int(0), sign)
    return scalar("arith.trunci", [_binary("ori", found, sign)], "i8")


def _zero_unless(condition: ir.Value, value: ir.Value) -> ir.Value:
    """A float, or zero: a large one has no integer."""
    return scalar("arith.select", [condition, value, scalar_constant(0.0, "f32")], "f32")
