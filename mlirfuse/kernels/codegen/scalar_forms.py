"""Scalar ops of `arith` and `math` as expressions of Triton, one form for each op.

A form has places for its operands, `{0}`, `{1}`, `{2}`. Functions that Triton lacks are in
`mlirfuse.kernels.device.library`.
"""

from __future__ import annotations

from collections.abc import Mapping

_NAN = "propagate_nan=tl.PropagateNan.ALL"

_OF_LIBRARY = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "copysign", "cosh"),
    *("erfc", "expm1", "log10", "log1p", "round", "sinh", "tan", "trunc"),
)
"""Ops of `math` that are functions of the library, of the same name."""

FLOAT: Mapping[str, str] = {
    "arith.addf": "{0} + {1}",
    "arith.subf": "{0} - {1}",
    "arith.mulf": "{0} * {1}",
    "arith.divf": "{0} / {1}",
    "arith.negf": "-{0}",
    "arith.remf": "library.fmod({0}, {1})",
    "arith.maximumf": f"tl.maximum({{0}}, {{1}}, {_NAN})",
    "arith.minimumf": f"tl.minimum({{0}}, {{1}}, {_NAN})",
    "arith.maxnumf": "tl.maximum({0}, {1})",
    "arith.minnumf": "tl.minimum({0}, {1})",
    "math.absf": "tl.abs({0})",
    "math.ceil": "tl.ceil({0})",
    "math.clampf": f"tl.minimum(tl.maximum({{0}}, {{1}}, {_NAN}), {{2}}, {_NAN})",
    "math.cos": "tl.cos({0})",
    "math.erf": "library.erf({0})",
    "math.exp": "tl.exp({0})",
    "math.exp2": "tl.exp2({0})",
    "math.floor": "tl.floor({0})",
    "math.fma": "{0} * {1} + {2}",
    "math.log": "tl.log({0})",
    "math.log2": "tl.log2({0})",
    "math.powf": "library.power({0}, {1})",
    "math.roundeven": "library.round_even({0})",
    "math.rsqrt": "tl.rsqrt({0})",
    "math.sin": "tl.sin({0})",
    "math.sqrt": "tl.sqrt({0})",
    "math.tanh": "library.tanh({0})",
    **{
        f"math.{name}": f"library.{name}({{0}}{', {1}' if name in ('atan2', 'copysign') else ''})"
        for name in _OF_LIBRARY
    },
}

POWERS: Mapping[float, str] = {
    -2.0: "1.0 / ({0} * {0})",
    -1.0: "1.0 / {0}",
    0.5: "library.half_power({0})",
    1.0: "{0}",
    2.0: "{0} * {0}",
    3.0: "{0} * {0} * {0}",
    4.0: "({0} * {0}) * ({0} * {0})",
}
"""Exponent of `math.powf` -> the power in a few operations; one of any exponent takes hundreds."""

DOUBLE: Mapping[str, str] = {
    "math.roundeven": "library.round_even_f64({0})",
    "math.tanh": "library.tanh_f64({0})",
}
"""Forms of f64, where they differ."""

SHORT: Mapping[str, str] = {
    "math.exp": "tl.exp2({0} * 1.4426950408889634)",
    "math.erf": "library.short_erf({0})",
    "math.expm1": "library.short_expm1({0})",
    "math.log": "library.short_log({0})",
    "math.log10": "library.short_log10({0})",
    "math.log1p": "library.short_log1p({0})",
    "math.log2": "library.short_log2({0})",
    "math.tanh": "library.short_tanh({0})",
}
"""Cheaper forms in f32, wrong by 1e-5 of the result, at most."""

SHORT_OF_HALVES: Mapping[str, str] = {
    "math.cos": "library.half_cos({0})",
    "math.sin": "library.half_sin({0})",
}
"""Those of ops of f16, whose operands are infinite above its numbers; Gluon's kernels have none."""

SHORT_OF_TILES: Mapping[str, str] = {
    "math.cos": "library.short_cos({0})",
    "math.sin": "library.short_sin({0})",
}
"""Those with a branch for a whole tile, of which a thread has many elements."""

OF_LARGE_TILES: Mapping[str, str] = {
    "math.cos": "library.tile_cos({0})",
    "math.sin": "library.tile_sin({0})",
}
"""The same with the precision of f32."""

ABOVE: Mapping[str, str] = {
    "math.tanh": "library.quotient(2.0, tl.exp2({0} * -2.8853900817779268) + 1.0)"
}
"""The same of their sum with one, which needs no care near zero: wrong by 1e-6 of the sum, and by
1e-5 of one that is nearly zero, where the sum itself has no correct digit in f32."""

QUOTIENT = "library.quotient({0}, {1})"
"""`arith.divf` by numbers that are normal in f32, and have normal inverses or count as infinite."""

SHORT_ROUND = "library.short_round({0})"
"""`math.roundeven` of f32 that was and becomes f16 or bf16."""

CLASSES: Mapping[str, str] = {
    "math.isfinite": 'tl.abs({0}) < float("inf")',
    "math.isinf": 'tl.abs({0}) == float("inf")',
    "math.isnan": "{0} != {0}",
}
"""Questions about a number."""

INTEGER: Mapping[str, str] = {
    "arith.addi": "{0} + {1}",
    "arith.subi": "{0} - {1}",
    "arith.muli": "{0} * {1}",
    "arith.divsi": "{0} // {1}",
    "arith.remsi": "{0} % {1}",
    "arith.floordivsi": "library.floor_divide({0}, {1})",
    "arith.ceildivsi": "library.ceil_divide({0}, {1})",
    "arith.andi": "{0} & {1}",
    "arith.ori": "{0} | {1}",
    "arith.xori": "{0} ^ {1}",
    "arith.maxsi": "tl.maximum({0}, {1})",
    "arith.minsi": "tl.minimum({0}, {1})",
    "arith.shli": "{0} << {1}",
    "arith.shrsi": "{0} >> {1}",
    "arith.select": "tl.where({0}, {1}, {2})",
    "math.absi": "tl.abs({0})",
}

UNSIGNED: Mapping[str, str] = {
    "arith.divui": "{0} // {1}",
    "arith.remui": "{0} % {1}",
    "arith.ceildivui": "tl.where({0} == 0, 0, ({0} - 1) // {1} + 1)",
    "arith.maxui": "tl.maximum({0}, {1})",
    "arith.minui": "tl.minimum({0}, {1})",
    "arith.shrui": "{0} >> {1}",
}
"""Forms of operands that were cast to unsigned types; so is the result."""

BITS: Mapping[str, str] = {
    "math.ctlz": "library.leading_zeros({0})",
    "math.ctpop": "library.ones({0})",
    "math.cttz": "library.trailing_zeros({0})",
}
"""Counts of bits of operands that were cast to unsigned types."""

BOOLEAN: Mapping[str, str] = {
    "arith.addi": "{0} ^ {1}",
    "arith.subi": "{0} ^ {1}",
    "arith.muli": "{0} & {1}",
    "arith.maxsi": "{0} & {1}",
    "arith.minsi": "{0} | {1}",
    "arith.maxui": "{0} | {1}",
    "arith.minui": "{0} & {1}",
}
"""Forms of i1, whose true is -1 as a signed number."""

# Numbers are those of `arith.cmpf` and `arith.cmpi`. A comparison of Triton is ordered, and `!=` is
# not.
COMPARE_FLOAT: Mapping[int, str] = {
    0: "({0} == {1}) & ({0} != {1})",
    1: "{0} == {1}",
    2: "{0} > {1}",
    3: "{0} >= {1}",
    4: "{0} < {1}",
    5: "{0} <= {1}",
    6: "({0} < {1}) | ({0} > {1})",
    7: "({0} == {0}) & ({1} == {1})",
    8: "({0} == {1}) | ({0} != {0}) | ({1} != {1})",
    9: "({0} > {1}) | ({0} != {0}) | ({1} != {1})",
    10: "({0} >= {1}) | ({0} != {0}) | ({1} != {1})",
    11: "({0} < {1}) | ({0} != {0}) | ({1} != {1})",
    12: "({0} <= {1}) | ({0} != {0}) | ({1} != {1})",
    13: "{0} != {1}",
    14: "({0} != {0}) | ({1} != {1})",
    15: "({0} == {1}) | ({0} != {1})",
}

COMPARE_INTEGER: Mapping[int, str] = {
    0: "{0} == {1}",
    1: "{0} != {1}",
    2: "{0} < {1}",
    3: "{0} <= {1}",
    4: "{0} > {1}",
    5: "{0} >= {1}",
}

FIRST_UNSIGNED = 6
"""The first predicate of `arith.cmpi` of unsigned numbers, in the order of the signed ones."""
