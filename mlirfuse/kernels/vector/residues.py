"""Taps that read elements, and no zeros between them, of the image of a transposed convolution.

Its tap t reads for position o the spread image at o + t * dilation - low, which is an element where
the spread divides that. For all o of a residue class of the spread these are the same taps, first,
first + period, ..., and adjacent positions of a class read adjacent elements. Along x a kernel has
code for each class; along other axes it computes the first tap from the position.
"""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.vector.tiled import Window
from mlirfuse.kernels.vector.writer import Linear, Writer, linear


@dataclasses.dataclass(frozen=True, slots=True)
class Taps:
    """Taps of a window at one of its positions.

    Attributes:
      first: the first of them; the next ones are at the window's period.
      element: the index of the element that it reads, inside of the image or not.
      count: their number.
    """

    first: Linear
    element: Linear
    count: Linear


def taps(window: Window, origin: Linear, writer: Writer) -> Taps:
    """The taps that read elements, of a window that begins at an index of the spread image.

    Args:
      window: the window.
      origin: its index less the zeros before the first element.
      writer: writes the code.
    """
    spread, period = window.spread, window.period
    if spread == 1:
        return Taps(Linear(), origin, Linear(constant=window.taps))
    shared = spread // period
    # The added multiple of the spread makes the index non-negative.
    behind = writer.binary("remui", origin + origin.constant // spread * -spread, spread)
    shifted = behind if shared == 1 else writer.binary("divui", behind, shared)
    inverse = -pow(window.move, -1, period) % period
    first = linear(writer.binary("remui", linear(shifted) * inverse, period))
    element = writer.binary("divsi", origin + first * window.dilation, spread)
    count = writer.binary("divui", first * -1 + (window.taps + period - 1), period)
    if shared > 1:
        rest, zero = writer.binary("remui", behind, shared), writer.index(0)
        reads = writer.value(f"arith.cmpi eq, {rest}, {zero} : index")
        count = writer.value(f"arith.select {reads}, {count}, {zero} : index")
    return Taps(first, linear(element), linear(count))
