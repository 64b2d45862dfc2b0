"""Rows of a few contiguous elements as one vector for each column, and back.

[a0 a1 a2 b0], [b1 b2 c0 c1], [c2 d0 d1 d2]  <->  [a0 b0 c0 d0], [a1 b1 c1 d1], [a2 b2 c2 d2]

One prime factor of the number of columns after the other: every p-th element of p vectors is one
vector, by p - 1 shuffles of two vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirfuse.kernels.vector.writer import Writer


def deinterleaved(writer: Writer, kind: str, lanes: int, vectors: Sequence[str]) -> list[str]:
    """The vectors of the columns, from as many vectors of contiguous elements.

    Args:
      writer: the lines of the kernel.
      kind: the type of the vectors.
      lanes: their elements, one for each row.
      vectors: the elements of the rows, as they are in memory.
    """
    count = len(vectors)
    if count == 1:
        return list(vectors)
    factor = _smallest_factor(count)
    columns = [""] * count
    for first in range(factor):
        places = [divmod(lane * factor + first, lanes) for lane in range(lanes)]
        parts = [
            merged(writer, kind, vectors[group : group + factor], places)
            for group in range(0, count, factor)
        ]
        columns[first::factor] = deinterleaved(writer, kind, lanes, parts)
    return columns


def interleaved(writer: Writer, kind: str, lanes: int, columns: Sequence[str]) -> list[str]:
    """Vectors of contiguous elements, from those of the columns; see `deinterleaved`."""
    count = len(columns)
    if count == 1:
        return list(columns)
    factor = _smallest_factor(count)
    parts = [interleaved(writer, kind, lanes, columns[n::factor]) for n in range(factor)]
    found = []
    for group in zip(*parts, strict=True):
        for number in range(factor):
            elements = range(number * lanes, (number + 1) * lanes)
            places = [(n % factor, n // factor) for n in elements]
            found.append(merged(writer, kind, group, places))
    return found


def _smallest_factor(count: int) -> int:
    return next(n for n in range(2, count + 1) if count % n == 0)


def merged(
    writer: Writer, kind: str, vectors: Sequence[str], places: Sequence[tuple[int, int]]
) -> str:
    """One vector, from the number of a vector and a lane of it for each of its lanes."""
    lanes, found = len(places), vectors[0]
    for number in range(1, len(vectors)):
        order = [
            lanes + lane if source == number else lane if number == 1 else place
            for place, (source, lane) in enumerate(places)
        ]
        found = writer.value(f"vector.shuffle {found}, {vectors[number]} {order} : {kind}, {kind}")
    return found
