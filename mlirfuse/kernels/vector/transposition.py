"""The transposition of a square of elements in registers.

16 vectors of 16 lanes: 4 stages of 16 shuffles of two vectors
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirfuse.kernels.vector.writer import Writer


def transposed(writer: Writer, rows: Sequence[str], kind: str) -> list[str]:
    """The columns of a square, as vectors.

    Stage `d` exchanges the elements of rows `r` and `r + d` whose bit `d` of row and lane differ.

    Args:
      writer: the lines of the kernel.
      rows: as many vectors as one has lanes, a power of 2.
      kind: the type of the vectors.
    """
    lanes = len(rows)
    found = list(rows)
    distance = 1
    while distance < lanes:
        lower = [n if not n & distance else lanes + n - distance for n in range(lanes)]
        upper = [n + distance if not n & distance else lanes + n for n in range(lanes)]
        for row in range(lanes):
            if row & distance:
                continue
            one, other = found[row], found[row + distance]
            for place, order in ((row, lower), (row + distance, upper)):
                text = f"vector.shuffle {one}, {other} {order} : {kind}, {kind}"
                found[place] = writer.value(text)
        distance *= 2
    return found
