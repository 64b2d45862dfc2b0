"""Accumulators of reductions in vectors: their type, their start, and their end.

Narrow floats are accumulated in f32 and rounded once. A lane starts with the combiner's neutral
element; the init of the reduction joins at the end.
"""

from __future__ import annotations

import math
from typing import Protocol

from mlirfuse.kernels.reduction.combiners import COMBINERS
from mlirfuse.kernels.vector.row_analysis import RowReduction
from mlirfuse.kernels.vector.writer import Writer

_NARROW_FLOATS = frozenset({"f16", "bf16"})
"""Floats that are accumulated in f32."""


class Vectors(Protocol):
    """The vectors of a kernel."""

    def vector_type(self, element: str) -> str:
        """The type of a vector of an element type."""

    def splat(self, number: str, element: str) -> str:
        """A vector whose lanes are a literal."""


class Accumulators:
    """The accumulators of a kernel's reductions.

    Args:
      writer: takes the lines of the kernel.
      vectors: the kernel's vectors.
    """

    def __init__(self, writer: Writer, vectors: Vectors) -> None:
        self._writer, self._vectors = writer, vectors

    def kind(self, one: RowReduction) -> str:
        """The type of a vector of accumulators."""
        return self._vectors.vector_type(_element(one))

    def neutral(self, one: RowReduction) -> str:
        """Accumulators that change nothing."""
        element = _element(one)
        return self._vectors.splat(_neutral(one.combine.name, element), element)

    def widened(self, one: RowReduction, term: str) -> str:
        """Elements of the reduction in the type of its accumulators."""
        if one.element not in _NARROW_FLOATS:
            return term
        narrow = self._vectors.vector_type(one.element)
        return self._writer.value(f"arith.extf {term} : {narrow} to {self.kind(one)}")

    def finished(self, one: RowReduction, total: str) -> str:
        """Accumulators combined with the init of the reduction, in its element type."""
        kind, element = self.kind(one), _element(one)
        if not COMBINERS[one.combine.name].ignores(one.init, one.element):
            start = self._vectors.splat(_literal(one.init, element), element)
            total = self._writer.value(f"{one.combine.name} {total}, {start} : {kind}")
        if one.element in _NARROW_FLOATS:
            narrow = self._vectors.vector_type(one.element)
            total = self._writer.value(f"arith.truncf {total} : {kind} to {narrow}")
        return total


def _element(one: RowReduction) -> str:
    """The element type of accumulators."""
    return "f32" if one.element in _NARROW_FLOATS else one.element


def _neutral(name: str, element: str) -> str:
    """The literal of a combiner's neutral element."""
    value = COMBINERS[name].neutral
    if isinstance(value, float):
        return _literal(value, element)
    bits = 1 if element == "i1" else int(element[1:])
    unsigned = COMBINERS[name].unsigned
    lowest = 0 if unsigned else -(1 << bits - 1)
    highest = -1 if unsigned else (1 << bits - 1) - 1
    found = {"zero": 0, "one": 1, "ones": -1, "lowest": lowest, "highest": highest}[str(value)]
    return _literal(found, element)


def _literal(number: float, element: str) -> str:
    """The literal of a number."""
    if element == "i1":
        return "true" if number else "false"
    if isinstance(number, int) and element[0] == "i":
        return str(number)
    if math.isfinite(number):
        return f"{number:.17e}"
    table = {"f32": ("0x7F800000", "0xFF800000", "0x7FC00000")}
    positive, negative, nan = table[element]
    return nan if math.isnan(number) else positive if number > 0 else negative
