"""Accumulators of reductions in vectors: their type, their start, their loops, and their end.

Narrow floats are accumulated in f32 and rounded once; booleans in i32, of which the lowest bit is
the result. A lane starts with the combiner's neutral element; the init of the reduction joins at
the end. Long sums of floats are taken in blocks, whose sums are added:

    for each block of columns
      %partial = for each vector of the block: addf, from zero
      %sum = addf %sum, %partial
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from mlirfuse.kernels.codegen.combiners import COMBINERS
from mlirfuse.kernels.vector.row_analysis import RowReduction
from mlirfuse.kernels.vector.writer import Linear, Writer, linear

MAX_SERIAL_ADDITIONS = 64
"""Elements that are added to one accumulator before its sum joins that of other blocks: a sum of n
elements has the rounding errors of 64 additions for each level of blocks, log64(n), and not of n.
One addition more for each 64 costs less than 2 %."""

_ACCUMULATOR_TYPES = {"f16": "f32", "bf16": "f32", "i1": "i32"}
"""Element types that are accumulated in another type."""


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
        return self._vectors.vector_type(self.element(one))

    def element(self, one: RowReduction) -> str:
        """The element type of accumulators."""
        return _ACCUMULATOR_TYPES.get(one.element, one.element)

    def neutral(self, one: RowReduction) -> str:
        """Accumulators that change nothing."""
        element = self.element(one)
        return self._vectors.splat(_neutral(one.combine.name, element), element)

    def combined(self, one: RowReduction, total: str, term: str) -> str:
        """Two vectors of accumulators combined."""
        return self._writer.value(f"{one.combine.name} {total}, {term} : {self.kind(one)}")

    def widened(self, one: RowReduction, term: str) -> str:
        """Elements of the reduction in the type of its accumulators."""
        if one.element not in _ACCUMULATOR_TYPES:
            return term
        narrow = self._vectors.vector_type(one.element)
        op = "extsi" if one.element == "i1" else "extf"
        return self._writer.value(f"arith.{op} {term} : {narrow} to {self.kind(one)}")

    def masked(self, one: RowReduction, mask: str, made: str, total: str) -> str:
        """Accumulators that are updated where a mask is true, or all without a mask."""
        if not mask:
            return made
        lanes, kind = self._vectors.vector_type("i1"), self.kind(one)
        return self._writer.value(f"arith.select {mask}, {made}, {total} : {lanes}, {kind}")

    def finished(self, one: RowReduction, total: str) -> str:
        """Accumulators combined with the init of the reduction, in its element type."""
        if not COMBINERS[one.combine.name].ignores(one.init, one.element):
            # The bits of a boolean are equal, as where it is widened.
            init = -int(bool(one.init)) if one.element == "i1" else one.init
            element = self.element(one)
            start = self._vectors.splat(_literal(init, element), element)
            total = self.combined(one, total, start)
        if one.element in _ACCUMULATOR_TYPES:
            narrow = self._vectors.vector_type(one.element)
            op = "trunci" if one.element == "i1" else "truncf"
            total = self._writer.value(f"arith.{op} {total} : {self.kind(one)} to {narrow}")
        return total

    def loop(
        self,
        ones: Sequence[RowReduction],
        bounds: tuple[Linear | int | str, Linear | int | str, int],
        most: int,
        held: Sequence[str],
        body: Callable[[str, list[str]], Sequence[str]],
        terms: int = 1,
    ) -> list[str]:
        """Writes a loop that carries accumulators, long sums of floats in blocks.

        Args:
          ones: the reduction of each accumulator.
          bounds: first index, the index before which it ends, and the distance of the indices.
          most: iterations at most.
          held: the accumulators before the loop.
          body: writes an iteration, from its index and the accumulators; returns the next ones.
          terms: additions of an iteration to an accumulator.

        Returns:
          The accumulators after the loop.
        """
        kinds, (start, stop, step) = [self.kind(one) for one in ones], bounds
        block = _block(most, terms)
        if block == most or not any(map(_rounds, ones)):
            return self._writer.loop(start, stop, step, held, kinds, body)

        def blocks(at: str, outer: list[str]) -> list[str]:
            end = self._writer.binary("minsi", linear(at) + block * step, stop)
            begun = self._begun(ones, outer)
            made = self.loop(ones, (at, end, step), block, begun, body, terms)
            return self._joined(ones, outer, made)

        return self._writer.loop(start, stop, block * step, held, kinds, blocks)

    def _begun(self, ones: Sequence[RowReduction], held: Sequence[str]) -> list[str]:
        """The accumulators with which a block begins: those of sums of floats are zero."""
        pairs = zip(ones, held, strict=True)
        return [self.neutral(one) if _rounds(one) else total for one, total in pairs]

    def _joined(
        self, ones: Sequence[RowReduction], held: Sequence[str], made: Sequence[str]
    ) -> list[str]:
        """The accumulators behind a block, from those before it and those that it made."""
        trios = zip(ones, held, made, strict=True)
        return [self.combined(one, a, b) if _rounds(one) else b for one, a, b in trios]


def additions(iterations: int, terms: int) -> int:
    """Additions to an accumulator of a sum of floats in a loop, those inside of blocks left out.

    Args:
      iterations: those of the loop.
      terms: additions of an iteration.
    """
    block = _block(iterations, terms)
    return iterations * terms if block == iterations else -(-iterations // block)


def _block(iterations: int, terms: int) -> int:
    """Iterations of the outermost blocks of a loop; all of them where it needs none."""
    if iterations * terms <= MAX_SERIAL_ADDITIONS:
        return iterations
    block = max(1, MAX_SERIAL_ADDITIONS // terms)
    while block * MAX_SERIAL_ADDITIONS < iterations:
        block *= MAX_SERIAL_ADDITIONS
    return min(block, iterations)


def _rounds(one: RowReduction) -> bool:
    """Whether a reduction adds floats, whose sums are rounded."""
    return str(one.combine.name) == "arith.addf"


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
