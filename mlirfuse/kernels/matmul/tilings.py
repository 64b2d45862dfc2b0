"""How workgroups share a product: what a tiling says, which one is chosen, what a search tries."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping

from mlirfuse.kernels.codegen.iteration_space import Space, known_product, product_text
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.plan import Key
from mlirfuse.targets.base import Target, Tuned


@dataclasses.dataclass(frozen=True, slots=True)
class Tiling:
    """How a workgroup computes its tile.

    Attributes:
      height: rows of the tile; with one, terms are multiplied and summed without matrix units.
      width: columns of the tile.
      block: terms of the sums at a time.
      warps: subgroups.
      stages: blocks of the operands in workgroup memory.
      band: rows of tiles whose workgroups run together and share columns of the right operand.
      shares: of the terms of a block, each multiplied by warps of its own; a power of two.
      groups: groups of warps that compute in a kernel whose workgroups stay; see `hopper_matmul`.
      alternate: whether each of these has its own tile.
      once: whether a tile of a convolution loads its part of the image once, for all places of its
        windows; see `convolution_windows`.
      straight: whether weights go from memory straight to matrix units; see `weights`.
    """

    height: int
    width: int
    block: int
    warps: int
    stages: int
    band: int = 8
    shares: int = 1
    groups: int = 0
    alternate: int = 0
    once: int = 0
    straight: int = 0


# The first whose tiles fill the device; the large ones reach the most operations for each byte.
# Estimates from the sizes of registers and workgroup memory, for sizes far from all measured ones.
_ESTIMATES: Mapping[str, tuple[Tiling, ...]] = {
    "sm_90": (
        Tiling(128, 256, 64, 8, 3),
        Tiling(128, 128, 64, 8, 4),
        Tiling(64, 128, 64, 4, 4),
        Tiling(64, 64, 64, 4, 4),
    ),
    "sm_80": (
        Tiling(128, 256, 32, 8, 3),
        Tiling(128, 128, 32, 4, 4),
        Tiling(64, 128, 32, 4, 4),
        Tiling(64, 64, 32, 4, 4),
    ),
}
_ESTIMATES_AMD: tuple[Tiling, ...] = (
    Tiling(128, 128, 32, 8, 2),
    Tiling(64, 64, 64, 4, 2),
)
_LOW: tuple[Tiling, ...] = (
    Tiling(16, 64, 128, 4, 4),
    Tiling(16, 32, 256, 4, 3),
    Tiling(16, 16, 256, 4, 4),
)

_ROW = (
    (2, 2048, 4, 1),
    (2, 4096, 8, 1),
    (4, 2048, 4, 1),
    (4, 2048, 8, 1),
    (4, 1024, 4, 3),
    (8, 512, 4, 3),
)
"""Tiles of a single row: width, block, warps, stages."""

_SHARED = (
    (32, 512, 4, 3),
    (32, 256, 4, 4),
    (16, 512, 4, 4),
    (16, 256, 4, 4),
)
"""The same of few rows, whose warps share the terms."""

_FEW = (
    (64, 128, 4, 4),
    (64, 64, 4, 6),
    (128, 64, 4, 4),
    (32, 128, 4, 4),
    (32, 128, 4, 5),
    (32, 256, 4, 3),
    (16, 256, 4, 4),
    (16, 512, 4, 3),
    (32, 256, 4, 4),
    (32, 256, 8, 4),
    (64, 256, 8, 3),
)
"""The same of warps beside each other."""

_SOME = (
    (64, 32, 128, 4, 6),
    (64, 64, 128, 4, 6),
    (64, 128, 64, 4, 8),
    (64, 128, 128, 4, 4),
    (128, 128, 64, 8, 6),
    (16, 16, 512, 4, 4, 8, 4),
    (32, 16, 512, 4, 4, 8, 4),
    (32, 32, 256, 4, 4, 8, 4),
    (32, 32, 512, 4, 3, 8, 4),
)
"""Tiles of up to `SOME_ROWS`, beside those of more: many stages, so that one tile for each
multiprocessor keeps memory busy; warps share the terms of what has few columns, too."""

_STRAIGHT = ((16, 2, 4), (16, 2, 8), (16, 4, 8), (16, 1, 8), (32, 1, 8), (32, 2, 8))
"""The same where weights go straight to matrix units: width, lines of a warp, warps."""

LINE = 64
"""Bytes of a column that threads beside each other load at once, there."""

MOST_STRAIGHT = 128
"""Rows up to which that is faster than taking weights apart for large tiles."""

FILLED = 100
"""Workgroups that fill a device: nearly those of an A100 or H100 (108, 132 multiprocessors)."""

PROGRAMS = 132
"""Workgroups, one on each multiprocessor of an H100 SXM or an H200."""

UNKNOWN_ROWS = 512
"""What a dynamic number of rows counts as: between the few and the thousands that it may be."""

TALLEST = 4
"""Tiles above each other up to which a measured tile of few rows is one for more."""

LOWEST = 8
"""Rows of a tile that are the columns of a matrix instruction."""

FEW_ROWS = 16
"""Rows of the lowest tile of matrix units."""

SOME_ROWS = 1024
"""Up to which a power of two of rows counts: as many rows of tiles as the next one has."""

MOST_SUMS = 128
"""Of a thread, which has 255 registers."""

_BYTES = 2
"""Of the widest operands."""


def tiling(
    target: Target, key: Key, together: int, allowed: Callable[[Tiling], bool] = lambda _: True
) -> Tiling:
    """The tiling for a product.

    Args:
      target: what is compiled for.
      key: what it is chosen by.
      together: sums that a workgroup holds.
      allowed: which measured tilings the kernel can have.
    """
    rows = key.sizes[0]

    def fits(entry: Tuned) -> bool:
        found = Tiling(*entry.tiling)
        return (
            _is_high_enough(found.height, rows)
            and _tells(entry, key)
            and _has_room(found, together, target)
            and allowed(found)
        )

    numbers = lookup.tiling(target, key, lambda entry: _is_filled(entry, key) and fits(entry))
    if numbers is not None:
        return Tiling(*numbers)
    found, fills = _estimate(target, key, together)
    numbers = None if fills else lookup.tiling(target, key, fits)
    return found if numbers is None else Tiling(*numbers)


def _estimate(target: Target, key: Key, together: int) -> tuple[Tiling, bool]:
    """A tiling without a measurement, and whether it fills the device."""
    tilings = _ESTIMATES["sm_90" if target.arch == "sm_90" else "sm_80"]
    if target.name == "rocm":
        tilings = _ESTIMATES_AMD
    if key.sizes[0] <= FEW_ROWS:
        tilings = _LOW
    for tiling in tilings:
        width = max(16, tiling.width // together)
        found = dataclasses.replace(tiling, width=width)
        if _workgroups(found, key.sizes) >= FILLED:
            return found, True
    return found, False


def _is_high_enough(height: int, rows: int) -> bool:
    """Whether a measured tile is one for so many rows, too."""
    return height > FEW_ROWS or rows == 1 or (height > 1 and rows <= height * TALLEST)


def _tells(entry: Tuned, key: Key) -> bool:
    """Whether what was measured says something of weights that are taken apart, if they are.

    Of some rows these want tiles of their own: larger ones, or to go straight to matrix units.
    """
    apart = narrow_bits(key.form) and entry.form != key.form
    return not apart or not FEW_ROWS < entry.sizes[0] < SOME_ROWS


def _has_room(tiling: Tiling, sums: int, target: Target) -> bool:
    """Whether registers and workgroup memory hold the tiles of several sums.

    That of workgroups that stay is in `hopper_matmul.fits`.
    """
    if tiling.groups or tiling.straight or tiling.height == 1 or sums == 1:
        return True
    held = (tiling.height + tiling.width * sums) * tiling.block * tiling.stages * _BYTES
    each = tiling.height * tiling.width * sums // (tiling.warps * 32)
    return each <= MOST_SUMS and held <= (target.shared_memory or held)


def _is_filled(entry: Tuned, key: Key) -> bool:
    """Whether a measured tiling leaves less than half of the device idle, or of what it filled.

    Few rows, and weights that go straight to matrix units, want other things more.
    """
    found = Tiling(*entry.tiling)
    if key.sizes[0] <= FEW_ROWS or found.straight:
        return True
    filled = min(PROGRAMS, _workgroups(found, entry.sizes))
    return 2 * _workgroups(found, key.sizes) > filled


def _workgroups(tiling: Tiling, sizes: tuple[int, ...]) -> int:
    rows, columns, _, batch = sizes
    return -(-rows // tiling.height) * -(-columns // tiling.width) * batch


def counted(rows: int) -> int:
    """What a number of rows counts as where tiles are chosen."""
    return 1 << (rows - 1).bit_length() if FEW_ROWS < rows <= SOME_ROWS else rows


def narrow_bits(form: str) -> int:
    """Bits of weights that lie straight for matrix units, by the form of a key; 0 for others."""
    found = re.fullmatch(r".*k inside, k inside, computed, ([48]) bits.*", form)
    return int(found[1]) if found else 0


def lowered(tiling: Tiling, rows: int) -> Tiling:
    """The tiling without rows of a tile that no product of so many rows has."""
    least = max(LOWEST, 1 << (rows - 1).bit_length())
    return dataclasses.replace(tiling, height=min(tiling.height, least))


def candidates(key: Key) -> list[Tiling]:
    """The tilings that a search measures."""
    rows = key.sizes[0]
    straight = []
    if rows <= MOST_STRAIGHT and (bits := narrow_bits(key.form)):
        low = max(LOWEST, min(2 * FEW_ROWS, 1 << (rows - 1).bit_length()))
        straight = [
            Tiling(low, width, lines * warps * LINE * 8 // bits, warps, 1, 8, warps, straight=1)
            for width, lines, warps in _STRAIGHT
        ]
    if rows <= FEW_ROWS:
        found = [Tiling(1, *numbers) for numbers in _ROW] if rows == 1 else []
        shared = [Tiling(16, *numbers, shares=numbers[2]) for numbers in _SHARED]
        return straight + found + shared + [Tiling(16, *numbers) for numbers in _FEW]
    shapes: list[tuple[int, ...]] = [
        (64, 64, 64, 4, 4),
        (64, 64, 128, 4, 3),
        (64, 128, 64, 4, 4),
        (128, 64, 64, 4, 4),
        (128, 128, 64, 8, 4),
        (128, 128, 64, 8, 3),
        (128, 128, 64, 4, 4),
    ]
    if rows <= SOME_ROWS:
        shapes += _SOME
    if rows > 64:
        shapes += [(128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (256, 128, 64, 8, 3)]
    found = [Tiling(*numbers) for numbers in shapes if numbers[0] <= max(64, rows)]
    if rows >= SOME_ROWS:
        found += [Tiling(128, 256, 64, 8, 3, 4), Tiling(128, 256, 64, 8, 3, 16)]
    return straight + found


def placed(space: Space, rows: int, columns: int, tiling: Tiling, *, wide: bool) -> list[str]:
    """The lines that say which rows and columns a workgroup has.

    Args:
      space: the iteration space.
      rows: number of its group of rows.
      columns: the same of the columns, which are static.
      tiling: the tile.
      wide: whether 32 bits do not number the elements.
    """
    height, width = tiling.height, tiling.width
    bound, whole = (
        product_text(space.groups[rows].sizes),
        known_product(space.groups[columns].sizes),
    )
    return [
        f"row_tile, column_tile = library.tile_of(tl.program_id(0), tl.cdiv({bound}, "
        f"{height}), {-(-whole // width)}, {tiling.band})",
        f"row = (row_tile * {height} + tl.arange(0, {height}))"
        f"{'.to(tl.int64)' if wide else ''}[:, None]",
        f"column = (column_tile * {width} + tl.arange(0, {width}))[None, :]",
        *space.inside(rows, columns),
    ]


def passing(tiling: Tiling, sums: int) -> Tiling:
    """The tiling of workgroups with one tile each, instead of one whose workgroups stay."""
    return Tiling(128, max(tiling.width, 128) // sums, 64, 8, 3, tiling.band)
