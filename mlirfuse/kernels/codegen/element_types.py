"""Element types in a kernel's text: Triton's spelling, pointers, constants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

TYPES = {
    "f16": "tl.float16",
    "bf16": "tl.bfloat16",
    "f32": "tl.float32",
    "f64": "tl.float64",
    "i1": "tl.int1",
    "i4": "tl.int8",
    "i8": "tl.int8",
    "i16": "tl.int16",
    "i32": "tl.int32",
    "i64": "tl.int64",
    "index": "tl.int64",
}
"""Element types that kernels compute with, in Triton's spelling."""

POINTERS = {
    "f16": "*fp16",
    "bf16": "*bf16",
    "f32": "*fp32",
    "f64": "*fp64",
    "i1": "*i8",
    "i4": "*i8",
    "i8": "*i8",
    "i16": "*i16",
    "i32": "*i32",
    "i64": "*i64",
}
"""The same in memory; an i1 takes a byte there, two i4 one."""

WIDE = {**TYPES, "f16": "tl.float32", "bf16": "tl.float32"}
"""Types of kernels that compute in f32 and round to f16 and bf16 only where they store."""

HIDING = frozenset({"f16", "bf16", "i8"})
"""Element types of results whose rounding hides a relative error of 1e-5."""


_CONSTANT = "tl.full([1, 1], "
"""The start of a constant in a kernel's text, which has the dimensions of a tile."""


class Unsupported(Exception):
    """A scalar op, type or value that has no translation; the message names it."""


def literal(number: float, element: str, types: Mapping[str, str] = TYPES, layout: str = "") -> str:
    """A constant in a kernel's text; with a layout, in Gluon's."""
    if element not in types:
        raise Unsupported(f"a constant of type {element}")
    if isinstance(number, float) and not math.isfinite(number):
        text = f'float("{number}")'
    elif isinstance(number, float):
        text = repr(number)
    elif element == "i1":
        text = "1" if number else "0"
    else:
        text = str(number)
    if layout:
        return f"gl.full([1, 1], {text}, {types[element]}, {layout})"
    return f"{_CONSTANT}{text}, {types[element]})"


def with_constants_of(shape: str, lines: Sequence[str]) -> list[str]:
    """The lines of a kernel whose constants have another shape than `[1, 1]`.

    Args:
      shape: `[]` for a function of scalars, `[1]` for tiles of one dimension.
      lines: lines of Triton.
    """
    return [line.replace(_CONSTANT, f"tl.full({shape}, ") for line in lines]
