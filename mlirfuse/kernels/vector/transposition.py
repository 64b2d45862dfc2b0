"""Squares of a vector's lanes, transposed in registers.

rows = transposed(writer, rows, "f32")     rows[i][j] becomes rows[j][i]
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirfuse.kernels.vector.writer import Writer


def transposed(writer: Writer, rows: Sequence[str], element: str) -> list[str]:
    """The columns of a square.

    Args:
      writer: the lines of the kernel.
      rows: as many vectors as each of them has elements, a power of two.
      element: type of the elements.
    """
    lanes, found = len(rows), list(rows)
    kind = f"vector<{lanes}x{element}>"
    distance = 1
    while distance < lanes:
        # Squares of this size off the diagonal of larger ones change places.
        low = [j if not j & distance else lanes + j - distance for j in range(lanes)]
        high = [j + distance if not j & distance else lanes + j for j in range(lanes)]
        for i in range(lanes):
            if not i & distance:
                pair = found[i], found[i + distance]
                found[i], found[i + distance] = (
                    writer.value(f"vector.shuffle {pair[0]}, {pair[1]} {order} : {kind}, {kind}")
                    for order in (low, high)
                )
        distance *= 2
    return found
