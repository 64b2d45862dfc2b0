"""Convolutions to a few channels, by the products of each pixel with all taps."""

from __future__ import annotations

import dataclasses
import math

from iree.compiler import ir

from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import convolution_loops, convolutions, spread_images
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops
from mlirfuse.structured.recognize.spread_images import Surround


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """A dimension of pixels.

    Attributes:
      pixels: the loop over them.
      taps: the loop over taps; None without one.
      distance: elements between taps.
      surround: the zeros around the image.
    """

    pixels: int
    taps: int | None
    distance: int
    surround: Surround


@dataclasses.dataclass(frozen=True, slots=True)
class NarrowConvolution:
    """A convolution whose image has channels first.

    Attributes:
      loops: its loops.
      channels: the loop over input channels.
      batches: the loop over images; empty without one.
      windows: the dimensions of pixels.
      image: the image without zeros: batch, channels, pixels.
    """

    loops: ConvolutionLoops
    channels: int
    batches: tuple[int, ...]
    windows: tuple[Window, ...]
    image: ir.Value

    @property
    def outputs(self) -> tuple[int, ...]:
        """The loop over output channels; empty with a single one."""
        return () if self.loops.n_loop is None else (self.loops.n_loop,)


def find(root: ir.Operation) -> NarrowConvolution | None:
    """Reads a static convolution of floats, of stride one and without groups; None for others."""
    if not convolutions.is_convolution(root) or None in ops.loop_sizes(root):
        return None
    if not ops.is_float(root.results[0]):
        return None
    loops = convolution_loops.classify(root)
    if not isinstance(loops, ConvolutionLoops) or loops.group_loops or not loops.tap_loops:
        return None
    channels = loops.channel_loop
    if channels is None:
        return None
    image = root.operands[loops.image]
    pad = spread_images.producer(image, root)
    surrounds = (Surround(),) * len(loops.image_dims)
    if pad is not None:
        surrounds, image = spread_images.surrounds(pad) or (), pad.operands[0]
    place = next(d for d, dim in enumerate(loops.image_dims) if dim == ((channels, 1),))
    image, order = _channels_first(image, place)
    if place not in order[:2] or place == order[-1]:
        return None
    windows = []
    for d in order[order.index(place) + 1 :]:
        window = _window(loops.image_dims[d], loops, surrounds[d])
        if window is None:
            return None
        windows.append(window)
    outer = order[: order.index(place)]
    taps = {window.taps for window in windows} - {None}
    if any(not surrounds[d].is_empty for d in (*outer, place)) or taps != {*loops.tap_loops}:
        return None
    if any(len(loops.image_dims[d]) > 1 for d in outer):
        return None
    batches = tuple(loops.image_dims[d][0][0] for d in outer)
    return NarrowConvolution(loops, channels, batches, tuple(windows), image)


def _window(
    dim: tuple[tuple[int, int], ...], loops: ConvolutionLoops, surround: Surround
) -> Window | None:
    """The loops along a dimension of the image; None for other than pixels, each of them."""
    pixels = [(loop, step) for loop, step in dim if loop in loops.m_loops]
    taps = [(loop, step) for loop, step in dim if loop in loops.tap_loops]
    if len(pixels) != 1 or len(taps) > 1 or len(dim) != len(pixels) + len(taps):
        return None
    (loop, step), (tap, distance) = pixels[0], taps[0] if taps else (None, 0)
    return Window(loop, tap, distance, surround) if step == surround.stride == 1 else None


def _channels_first(image: ir.Value, place: int) -> tuple[ir.Value, list[int]]:
    """The image, or the one that it transposes, and the dimensions of the first that it has.

    Args:
      image: the image.
      place: its dimension of channels, which may be last in the image alone.
    """
    whole = list(range(len(ops.shape(image))))
    op = ops.defining_op(image)
    moved = None if op is None or place != whole[-1] else ops.moved_input(op)
    if op is None or moved is None or None in ops.indexing_maps(op):
        return image, whole
    read, written = (list(ops.plain_maps(op)[n]) for n in (moved, -1))
    if None in read or sorted(map(str, read)) != sorted(map(str, written)):
        return image, whole
    return op.operands[moved], [written.index(loop) for loop in read]


def num_taps(root: ir.Operation, found: NarrowConvolution) -> int:
    """Taps of the filter."""
    sizes = ops.loop_sizes(root)
    return math.prod(sizes[loop] or 0 for loop in found.loops.tap_loops)
