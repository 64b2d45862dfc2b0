"""Sines and cosines of f64 on CPUs: angles within an eighth of a turn, and Taylor's series.

Angles up to 2^29 are reduced by parts of pi / 2, others by the bits of 1 / 2pi that they need
(Payne and Hanek, 1983).
"""

from __future__ import annotations

import functools
import math

from iree.compiler import ir

from mlirfuse.builders import angles
from mlirfuse.builders.numbers import Numbers

_QUARTER_TURN = (
    1.570796251296997,
    7.549789415861596e-08,
    5.390302529957765e-15,
    3.2820035428735005e-22,
)
"""pi / 2 in parts of 24 bits, and the rest."""

_NEAR = math.nextafter(2.0**29, 0.0)
"""The largest number of which products with the parts of pi / 2 are exact."""

_WORDS = 19
"""Words of 64 bits of 1 / 2pi that the largest number needs."""

_SINE = tuple((-1) ** n / math.factorial(2 * n + 1) for n in range(10))
_COSINE = tuple((-1) ** n / math.factorial(2 * n) for n in range(10))


def _quarters_of_large(f: Numbers, x: ir.Value) -> list[ir.Value]:
    """The quarter of a turn next to a large angle, and the angle beside it (Payne and Hanek, 1983).

    The angle is in radians, from 64 bits of its fraction of a turn.
    """
    word = functools.partial(f.integer, element="i64")
    bits = f.op("arith.bitcast", x, element="i64")
    exponent = word("andi", word("shrui", bits, 52), 0x7FF)
    mantissa = word("ori", word("andi", bits, 2**52 - 1), 2**52)
    # x is the mantissa times 2 to the power of (exponent - 1075); the words are shifted by 64.
    start = word("subi", exponent, 1075 - 64)
    shift = word("andi", start, 63)
    table = [0, *angles.inverse_turn(_WORDS)]
    words = _from_word(f, table, word("shrui", start, 6))
    high, low = (angles.window(f, words[i], words[i + 1], shift) for i in range(2))
    # The high half of the product of the mantissa and the low word.
    mask = 2**32 - 1
    a, b = word("shrui", mantissa, 32), word("andi", mantissa, mask)
    c, d = word("shrui", low, 32), word("andi", low, mask)
    middle = word("addi", word("muli", b, c), word("shrui", word("muli", b, d), 32))
    lower = word("addi", word("muli", a, d), word("andi", middle, mask))
    carried = word("addi", word("muli", a, c), word("shrui", middle, 32))
    carried = word("addi", carried, word("shrui", lower, 32))
    turns = word("addi", word("muli", mantissa, high), carried)
    number, rest = angles.nearest_quarter(f, turns)
    return [angles.signed(f, x, value) for value in (f.op("arith.sitofp", number), rest)]


def _from_word(f: Numbers, words: list[int], first: ir.Value) -> list[ir.Value]:
    """Three words of a table from one on, zeros behind its end, without a load for each lane."""
    bits = (16, 8, 4, 2, 1)
    table = words + [0] * (2 * bits[0] + 2 - len(words))
    held = [f.constant(word, "i64") for word in table]
    for bit in bits:
        ahead = f.compare(f.integer("andi", first, bit, "i64"), "ne", f.constant(0, "i64"))
        count = bit + 2
        held = [f.select(ahead, held[i + bit], held[i]) for i in range(count)]
    return held


def sine_and_cosine(f: Numbers, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The sine and the cosine of angles of f64."""
    far = angles.is_far(f, x, _NEAR)
    near = f.select(far, f.constant(0.0), x)
    turns = f.op("math.roundeven", f.mul(near, f.constant(2 / math.pi)))
    angle = near
    for part in _QUARTER_TURN:
        angle = f.sub(angle, f.mul(turns, f.constant(part)))

    def rare() -> list[ir.Value]:
        return _quarters_of_large(f, f.select(far, x, f.constant(_NEAR)))

    turns, angle = f.where_any(far, rare, [turns, angle])
    whole = f.op("math.floor", f.mul(turns, f.constant(0.25)))
    quadrant = f.sub(turns, f.mul(whole, f.constant(4.0)))
    square = f.mul(angle, angle)
    sine, cosine = f.mul(angle, f.polynomial(square, _SINE)), f.polynomial(square, _COSINE)
    one, two, three = (f.compare(quadrant, "eq", float(n)) for n in (1, 2, 3))
    odd = f.integer("ori", one, three, "i1")
    first, second = f.select(odd, cosine, sine), f.select(odd, sine, cosine)
    return (
        f.select(f.integer("ori", two, three, "i1"), f.op("arith.negf", first), first),
        f.select(f.integer("ori", one, two, "i1"), f.op("arith.negf", second), second),
    )
