"""Combining ops of reductions: their forms in a kernel's text, accumulators and neutral elements.

Floats of 16 bits are accumulated in f32, integers of fewer than 32 bits in 32 bits: the lower bits
of a sum, of a product and of a bitwise combination are those of narrow arithmetic.

Products of f32 are accumulated in f64. A product above one, times a number just below one, is
half way between two numbers of f32 in every second case, or a little nearer to the lower one: the
errors of a long product add up. 28375 factors of `1 + x / 113500` in f32, one after the other, are
off by 2e-5 to 4e-4, in pairs by 5e-6.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mlirfuse.kernels.codegen.element_types import TYPES, Unsupported

_FLOATS = {"f16": "tl.float32", "bf16": "tl.float32", "f32": "tl.float32"}
_BITS = {"i1": 32, "i8": 32, "i16": 32, "i32": 32, "i64": 64}

INFINITY = float("inf")


@dataclasses.dataclass(frozen=True, slots=True)
class Combiner:
    """A combining op in a kernel's text.

    Attributes:
      pair: the combination of two values.
      tile: the reduction of a tile along its columns.
      neutral: neutral element of floats; the name of that of integers: `zero`, `one`, `ones`,
        `lowest`, `highest`.
      cluster: name of the reduction over the CTAs of a cluster; empty where there is none.
      unsigned: whether integers are compared without a sign.
      widens: whether f32 is accumulated in f64.
    """

    pair: str
    tile: str
    neutral: float | str
    cluster: str = ""
    unsigned: bool = False
    widens: bool = False

    def accumulator(self, element: str) -> str:
        """The type of the accumulators for elements of a type.

        Raises:
          Unsupported: there is none.
        """
        if isinstance(self.neutral, float):
            found = "tl.float64" if self.widens and element == "f32" else _FLOATS.get(element)
        else:
            sign = "u" if self.unsigned else ""
            found = f"tl.{sign}int{_BITS[element]}" if element in _BITS else None
        if found is None:
            raise Unsupported(f"a reduction of {element}")
        return found

    def neutral_text(self, element: str) -> str:
        """The neutral element for elements of a type, as text."""
        if isinstance(self.neutral, float):
            return (
                f'float("{self.neutral}")' if abs(self.neutral) == INFINITY else str(self.neutral)
            )
        return str(self.neutral_number(element))

    def neutral_number(self, element: str) -> float | int:
        """The neutral element for elements of a type; of an accumulator wider than them."""
        if isinstance(self.neutral, float):
            return self.neutral
        bits = _BITS[element]
        table = {
            "zero": 0,
            "one": 1,
            "ones": -1,
            "lowest": 0 if self.unsigned else -(1 << bits - 1),
            "highest": (1 << bits) - 1 if self.unsigned else (1 << bits - 1) - 1,
        }
        return table[self.neutral]

    def widened(self, term: str, element: str) -> str:
        """A term of the element type in the accumulator's type."""
        kind = self.accumulator(element)
        if self.unsigned and element != "i1":
            term = f"{term}.to(tl.u{TYPES[element].removeprefix('tl.')}, bitcast=True)"
        return f"{term}.to({kind})"

    def narrowed(self, value: str, element: str, types: Mapping[str, str] = TYPES) -> str:
        """An accumulator in the type in which a kernel computes elements of a type."""
        if element == "i1":
            return f"(({value} & 1) != 0)"
        if self.unsigned:
            bits = f"tl.u{TYPES[element].removeprefix('tl.')}"
            return f"{value}.to({bits}).to({TYPES[element]}, bitcast=True)"
        return f"{value}.to({types[element]})"

    def ignores(self, init: float, element: str) -> bool:
        """Whether an init changes nothing: it is neutral for the element type."""
        if isinstance(self.neutral, float):
            return init == self.neutral
        if element not in _BITS:
            return False
        if init == self.neutral_number(element):
            return True
        bits = 1 if element == "i1" else int(element[1:])
        ends = {
            "ones": (-1, (1 << bits) - 1),
            "lowest": (0,) if self.unsigned else (-(1 << bits - 1),),
            "highest": (-1, (1 << bits) - 1) if self.unsigned else ((1 << bits - 1) - 1,),
        }
        return init in ends.get(self.neutral, ())


def _by(function: str) -> str:
    return f"tl.reduce({{0}}, 1, {function}, keep_dims=True)"


_NAN = "propagate_nan=tl.PropagateNan.ALL"
_SUM, _MAX, _MIN = (f"tl.{name}({{0}}, 1, keep_dims=True)" for name in ("sum", "max", "min"))
_LARGER, _SMALLER = "tl.maximum({0}, {1})", "tl.minimum({0}, {1})"

COMBINERS = {
    "arith.addf": Combiner("{0} + {1}", _SUM, 0.0, "sum"),
    "arith.mulf": Combiner("{0} * {1}", _by("library.product"), 1.0, "product", widens=True),
    "arith.maximumf": Combiner(
        f"tl.maximum({{0}}, {{1}}, {_NAN})", _by("library.larger"), -INFINITY, "max"
    ),
    "arith.minimumf": Combiner(
        f"tl.minimum({{0}}, {{1}}, {_NAN})", _by("library.smaller"), INFINITY, "min"
    ),
    "arith.maxnumf": Combiner(_LARGER, _MAX, -INFINITY, "maxnum"),
    "arith.minnumf": Combiner(_SMALLER, _MIN, INFINITY, "minnum"),
    "arith.addi": Combiner("{0} + {1}", _SUM, "zero"),
    "arith.muli": Combiner("{0} * {1}", _by("library.product"), "one"),
    "arith.andi": Combiner("{0} & {1}", _by("library.bits_of_both"), "ones"),
    "arith.ori": Combiner("{0} | {1}", _by("library.bits_of_either"), "zero"),
    "arith.xori": Combiner("{0} ^ {1}", _by("library.bits_of_one"), "zero"),
    "arith.maxsi": Combiner(_LARGER, _by("library.greater"), "lowest"),
    "arith.minsi": Combiner(_SMALLER, _by("library.lesser"), "highest"),
    "arith.maxui": Combiner(_LARGER, _by("library.greater"), "lowest", unsigned=True),
    "arith.minui": Combiner(_SMALLER, _by("library.lesser"), "highest", unsigned=True),
}
"""Combining op of a reduction -> its forms."""


def neutral_tile(combiner: Combiner, element: str, shape: str = "[1, 1]") -> str:
    """A tile of neutral elements in the accumulator's type."""
    return f"tl.full({shape}, {combiner.neutral_text(element)}, {combiner.accumulator(element)})"


def combined_with_init(
    combiner: Combiner,
    init: float,
    accumulator: str,
    element: str,
    types: Mapping[str, str] = TYPES,
) -> str:
    """An accumulator combined with the init of its reduction, in the type of `types`."""
    if not combiner.ignores(init, element):
        number = f'float("{init}")' if isinstance(init, float) else str(init)
        start = f"tl.full([1, 1], {number}, {TYPES[element]})"
        accumulator = f"({combiner.pair.format(accumulator, combiner.widened(start, element))})"
    return combiner.narrowed(accumulator, element, types)
