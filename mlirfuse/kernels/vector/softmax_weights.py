"""Exponentials of differences from a maximum, in f32, on vectors.

    x = max(d * c, -127)          c = log2(e), times a factor of the scores
    n = round(x)                  by an addition of 1.5 * 2^23, whose last bits are then n
    2^(x - n) * 2^n               a polynomial, and a number made of its exponent

Below 2^-126, and for -inf, the result is 0; NaN stays NaN. The relative error is that of rounding
d * c, and of the polynomial: 2e-9 for f32, 2.8e-6 for weights of 16 bits.
"""

from __future__ import annotations

import math

from mlirfuse.kernels.vector.lane_math import LaneMath

_LOWEST = -127.0
"""The power of two from which on results are 0: its exponent has no bits."""

_ROUND = 1.5 * 2**23 + 127
"""Rounds a number below 2^22 when it is added; the last bits are the exponent's of the power."""

_MANTISSA_BITS = 23

_TERMS = {
    4: (0.693124193, 0.240240986, 0.0559064257, 0.00958285323),
    6: (0.693147203, 0.240226479, 0.0555033247, 0.00961843736, 0.00133988745, 0.000153533621),
}
"""Degree -> coefficients of x, x^2, ... of 2^x = 1 + ... on [-0.5, 0.5], of the least relative
error: 2.8e-6 and 2e-9."""


class SoftmaxWeights:
    """Writes exponentials.

    Args:
      lane_math: arithmetic of the kernel.
      element: element type of the values that the weights multiply.
      factor: positive factor of the differences.
    """

    def __init__(self, lane_math: LaneMath, element: str, factor: float) -> None:
        self.math, self.writer, self.kind = lane_math, lane_math.writer, lane_math.kind
        self.terms = _TERMS[6 if element == "f32" else 4]
        self.factor = factor * math.log2(math.e)

    def of(self, score: str, maximum: str) -> str:
        """The exponential of the difference of two vectors."""
        difference = self._binary("subf", score, maximum)
        lowest = self._splat(_LOWEST / self.factor)
        x = self.larger(lowest, difference)
        factor, shift = self._splat(self.factor), self._splat(_ROUND)
        rounded = self.math.multiply_add(x, factor, shift)
        whole = self._binary("subf", rounded, shift)
        negative = self.writer.value(f"arith.negf {whole} : {self.kind}")
        rest = self.math.multiply_add(x, factor, negative)
        power = self._splat(self.terms[-1])
        for term in (*self.terms[-2::-1], 1.0):
            power = self.math.multiply_add(power, rest, self._splat(term))
        words = self.math.body.vector_type("i32")
        bits = self.writer.value(f"arith.bitcast {rounded} : {self.kind} to {words}")
        places = self.math.body.splat(str(_MANTISSA_BITS), "i32")
        shifted = self.writer.value(f"arith.shli {bits}, {places} : {words}")
        scale = self.writer.value(f"arith.bitcast {shifted} : {words} to {self.kind}")
        return self._binary("mulf", power, scale)

    def reference(self, maximum: str) -> str:
        """What is subtracted from scores of a maximum: 0 for -inf, so that weights are not NaN."""
        lowest, lanes = self.math.body.splat("0xFF800000", "f32"), self.math.body.vector_type("i1")
        masked = self.writer.value(f"arith.cmpf oeq, {maximum}, {lowest} : {self.kind}")
        zero = self._splat(0.0)
        return self.writer.value(f"arith.select {masked}, {zero}, {maximum} : {lanes}, {self.kind}")

    def pair(self, low: str, high: str) -> str:
        """Two vectors rounded to bf16, in the halves of an i32."""
        writer, words = self.writer, self.math.body.vector_type("i32")
        half, places = self.math.body.splat("32768", "i32"), self.math.body.splat("16", "i32")
        bits = [writer.value(f"arith.bitcast {w} : {self.kind} to {words}") for w in (low, high)]
        bits = [writer.value(f"arith.addi {b}, {half} : {words}") for b in bits]
        first = writer.value(f"arith.shrui {bits[0]}, {places} : {words}")
        mask = self.math.body.splat(str(-(1 << 16)), "i32")
        second = writer.value(f"arith.andi {bits[1]}, {mask} : {words}")
        return writer.value(f"arith.ori {second}, {first} : {words}")

    def larger(self, one: str, other: str) -> str:
        """The larger of two vectors in one instruction; the other one where either is NaN."""
        lanes = self.math.body.vector_type("i1")
        above = self.writer.value(f"arith.cmpf ogt, {one}, {other} : {self.kind}")
        return self.writer.value(f"arith.select {above}, {one}, {other} : {lanes}, {self.kind}")

    def _splat(self, number: float) -> str:
        return self.math.body.splat(f"{number:.9e}", "f32")

    def _binary(self, op: str, one: str, other: str) -> str:
        return self.writer.value(f"arith.{op} {one}, {other} : {self.kind}")
