"""Sums and maxima across the lanes of vectors.

[a0 a1 a2 a3], [b0 b1 b2 b3], ...  ->  [a0 + a1 + a2 + a3, b0 + b1 + b2 + b3, ...]

Adjacent elements are added, first single ones and then quadruples, two vectors at a time: each step
is an addition of two shuffles, each of which is one instruction: `vshufps`, `vperm2f128`,
`vshuff32x4`, `uzp1` and `uzp2` of ARM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirfuse.kernels.vector.writer import Writer

QUAD = 4
"""Elements of f32 of the 128 bits in which x86 shuffles single elements."""


def lane_sums(
    writer: Writer, lanes: int, count: int, vectors: Callable[[int, int], Sequence[Sequence[str]]]
) -> list[str]:
    """Writes the sums of vectors of f32: lane `n` of each result is the sum of vector `n`.

    Args:
      writer: the lines of the kernel.
      lanes: lanes of a vector, a power of two, from four on.
      count: number of vectors, at most that of the lanes; the lanes behind it have any value.
      vectors: writes at most `QUAD` vectors from a number on, of each of several sequences; called
        in order, when they are needed.

    Returns:
      A vector for each of the sequences.
    """

    def summed(first: int, size: int) -> list[str]:
        if size == QUAD:
            return [quad(held) for held in vectors(first, min(QUAD, count - first))]
        half = size // 2
        low = summed(first, half)
        high = summed(first + half, half) if first + half < count else low
        return [_added(writer, lanes, QUAD, *pair) for pair in zip(low, high, strict=True)]

    def quad(held: Sequence[str]) -> str:
        pairs = [(held[n], held[min(n + 1, len(held) - 1)]) for n in range(0, len(held), 2)]
        low, *high = [_added(writer, lanes, 1, *pair) for pair in pairs]
        return _added(writer, lanes, 1, low, high[0] if high else low)

    return summed(0, lanes)


def _added(writer: Writer, lanes: int, chunk: int, low: str, high: str) -> str:
    """Adjacent chunks of two vectors added: in each four chunks, two of each vector."""
    kind, block = f"vector<{lanes}xf32>", min(QUAD * chunk, lanes)
    sides = []
    for parity in (0, 1):
        order = [
            vector * lanes + start + at + element
            for start in range(0, lanes, block)
            for vector in (0, 1)
            for at in range(parity * chunk, block, 2 * chunk)
            for element in range(chunk)
        ]
        sides.append(writer.value(f"vector.shuffle {low}, {high} {order} : {kind}, {kind}"))
    return writer.value(f"arith.addf {sides[0]}, {sides[1]} : {kind}")


def across_lanes(
    writer: Writer, kind: str, lanes: int, vector: str, combined: Callable[[str, str], str]
) -> str:
    """Writes the lanes of a vector combined, in all lanes.

    Args:
      writer: the lines of the kernel.
      kind: the vector's type.
      lanes: its lanes, a power of two.
      vector: the vector.
      combined: writes the combination of two vectors.
    """
    distance = lanes // 2
    while distance:
        order = [lane ^ distance for lane in range(lanes)]
        other = writer.value(f"vector.shuffle {vector}, {vector} {order} : {kind}, {kind}")
        vector = combined(vector, other)
        distance //= 2
    return vector
