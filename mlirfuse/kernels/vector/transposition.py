"""Transposition of vectors in registers, by exchanges of blocks of lanes.

    for each distance of 1, 2, 4, ... below the number of lanes, for each pair of vectors at it:
      [a0 a1 a2 a3], [b0 b1 b2 b3]  ->  [a0 b0 a2 b2], [a1 b1 a3 b3]        distance 1, 4 lanes

Each exchange is one or two instructions: `vunpcklpd`, `vmovsldup` with a mask, `trn1` of ARM.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirfuse.kernels.vector.writer import Writer


def transposed(writer: Writer, rows: Sequence[str], element: str, lanes: int) -> list[str]:
    """Writes the transposition of vectors.

    Args:
      writer: the lines of the kernel.
      rows: the vectors, at most as many as each has lanes.
      element: their element type.
      lanes: their number of lanes, a power of two.

    Returns:
      As many vectors as lanes, whose lane `i` is from row `i`; lanes beyond the last row are zeros.
    """
    kind = f"vector<{lanes}x{element}>"
    held = list(rows)
    if len(held) < lanes:
        zero = "0.0" if element.startswith(("f", "bf")) else "0"
        held += [writer.constant(f"dense<{zero}>", kind)] * (lanes - len(held))
    numbers = range(lanes)
    distance = 1
    while distance < lanes:
        low = [n + lanes - distance if n & distance else n for n in numbers]
        high = [n + lanes if n & distance else n + distance for n in numbers]
        for one in numbers:
            if one & distance:
                continue
            pair = f"{held[one]}, {held[one + distance]}"
            held[one], held[one + distance] = (
                writer.value(f"vector.shuffle {pair} {order} : {kind}, {kind}")
                for order in (low, high)
            )
        distance *= 2
    return held
