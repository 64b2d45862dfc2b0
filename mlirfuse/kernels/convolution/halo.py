"""Convolutions on Hopper whose tiles load their part of the image once: which ones, and their text.

What they do is in `triton/hopper_windows.py` and, for few channels, in `triton/hopper_lines.py`;
the epilogue's lines are those of `convolution.py`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from mlirfuse.kernels.convolution.problem import ConvolutionConfig
from mlirfuse.kernels.convolution.taps import PAIR, Terms
from mlirfuse.kernels.matmul.persistent_sm90 import BLOCK_K as BLOCK

HIGH = 64
"""Rows of a matrix instruction, those of a tile that a group of warps computes."""

LINE = 128
"""Bytes of a block of terms."""

_FEW = 16
"""Pixels that are loaded at a time."""

_ASIDE = 3072
"""Bytes of workgroup memory for zeros and barriers."""

_PLACES = 4
"""The most tiles whose pixels are in workgroup memory."""

_FARTHEST = 3
"""Pixels for each row of a tile: with two 19 us were measured where 23 had been taken, with five,
in steps of two, 28 where 19 had."""

_GROUPS, _GROUPS_FEW = 2, 3
"""Groups of warps that compute; the same of few channels."""

_LINES = 3
"""Tiles whose lines are in workgroup memory."""

_ALIGNED = 16
"""Bytes that are loaded at once."""

_COLUMNS = (64, 128)
"""Output channels of few channels: a workgroup has all of them."""

_PIECE = 1024
"""Bytes in which the memory of lines is counted."""


@dataclasses.dataclass(frozen=True, slots=True)
class Windows:
    """The last numbers of a `hopper_windows.Shape`, in its order."""

    reach: int
    places: int
    programs: int


def windows(
    terms: Terms,
    rows: Sequence[int],
    columns: int,
    tiling: ConvolutionConfig,
    memory: int,
    num_sms: int,
) -> Windows | None:
    """How a convolution of 64 channels uses workgroup memory; None where it cannot.

    Args:
      terms: its terms.
      rows: sizes of the loops of its rows.
      columns: output channels.
      tiling: its tiles.
      memory: bytes of workgroup memory.
      num_sms: multiprocessors of the device.
    """
    moves, height, across = terms.moves(), tiling.block_m, columns // tiling.block_n
    if terms.channels != BLOCK or len(moves) == 1 or across > num_sms:
        return None
    if (height, tiling.consumer_warpgroups) != (HIGH * _GROUPS, _GROUPS):
        return None
    reach = _reach(terms, rows, height)
    if reach is None or reach > _FARTHEST * height:
        return None
    tiles = -(-math.prod(rows) // height) * across
    programs = min(tiles, num_sms // across * across)
    room = memory - _ASIDE - len(moves) * tiling.block_n * LINE
    most = min(_PLACES, -(-tiles // programs))
    places = min(most, room // (reach * LINE))
    return Windows(reach, places, programs) if places >= min(2, most) else None


def _reach(terms: Terms, rows: Sequence[int], height: int) -> int | None:
    """Pixels that the windows of a tile touch; None where these are not side by side."""
    steps = terms.steps()
    for number, step in enumerate(steps):
        inside = zip(steps[number + 1 :], rows[number + 1 :], strict=True)
        if step <= 0 or step < sum(inner * (size - 1) for inner, size in inside):
            return None
    cycle = math.prod(rows[1:])

    def first(row: int) -> int:
        total = row // cycle * steps[0]
        for step, size, inner in zip(steps[1:], rows[1:], _inner(rows[1:]), strict=True):
            total += row // inner % size * step
        return total

    # Tiles begin at as many different places of an image.
    starts = range(0, min(math.prod(rows), math.lcm(height, cycle)), height)
    most = max(first(start + height - 1) - first(start) for start in starts)
    return -(-(most + max(terms.moves()) + 1) // _FEW) * _FEW


def _inner(sizes: Sequence[int]) -> list[int]:
    """Rows from one index of each loop to the next."""
    return [math.prod(sizes[number + 1 :]) for number in range(len(sizes))]


@dataclasses.dataclass(frozen=True, slots=True)
class Lines:
    """The numbers of a `hopper_lines.Shape` between its columns and its workgroups."""

    height: int
    width: int
    tall: int
    line: int
    step: int
    stride: int
    low: int
    before: int
    lead: int
    inside: int
    lines: int
    together: int
    tiles: int
    left: int
    pitch: int
    pieces: int


def lines(
    terms: Terms, rows: Sequence[int], columns: int, tiling: ConvolutionConfig, memory: int
) -> Lines | None:
    """How a convolution of few channels lies in workgroup memory; None where it cannot.

    Args:
      terms: its terms.
      rows: sizes of the loops of its rows.
      columns: output channels.
      tiling: its tiles; they are as high as this one, or a little higher.
      memory: bytes of workgroup memory.
    """
    strides, line, channels = terms.strides(), terms.line, terms.channels
    if strides is None or line is None or columns != tiling.block_n or columns not in _COLUMNS:
        return None
    if tiling.consumer_warpgroups != _GROUPS_FEW:
        return None
    tall, wide = (size or 0 for size in terms.image[1:3])
    count, height, width = rows
    if wide * channels * 2 % _ALIGNED:
        return None
    (low, _), (left, _) = terms.padded[1:3]
    before = left * channels + line.lead
    pairs = line.size // PAIR
    last = (width - 1) * strides[1] * channels + line.size - before
    space = -(-before * 2 // _ALIGNED) * _ALIGNED
    pitch = space + -(-max(wide * channels, last) * 2 // _ALIGNED) * _ALIGNED
    filters = -(-terms.windows[0] * pairs // 32) * columns * LINE
    for together in range(1, height + 1):
        held = (together - 1) * strides[0] + terms.windows[0] + 1
        pieces = -(-held * pitch // _PIECE)
        whole = height % together == 0 and together * width % HIGH == 0
        if whole and together * width >= tiling.block_m:
            if _LINES * pieces * _PIECE + filters + _ASIDE > memory or pairs < 4:
                return None
            return Lines(
                height,
                width,
                tall,
                wide * channels,
                strides[1] * channels,
                strides[0],
                low,
                before,
                line.lead,
                line.inside,
                terms.windows[0],
                together,
                count * height // together,
                space,
                pitch,
                pieces,
            )
    return None
