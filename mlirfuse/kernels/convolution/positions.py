"""Flat indices of output positions, all of them or those of one residue class.

tile_m = ...                               ordinals of positions of a class
place2 = tile_m % 16                       one for each loop that classes divide
index2 = place2 * 2 + residue2
offs_m = (tile_m // 256 * 31 + index1) * 32 + index2
"""

from __future__ import annotations

from collections.abc import Mapping

from mlirfuse.kernels.codegen.iteration_space import Space, known_product, product_text
from mlirfuse.kernels.codegen.writer import Writer

Strides = Mapping[int, tuple[int, str]]
"""Axis of a group -> the stride of a residue class along it, and the name of its residue."""


def class_sizes(sizes: tuple[int | None, ...], strides: Strides) -> tuple[int | None, ...]:
    """The positions of one residue class along each axis; the last ones may be too many."""
    return tuple(
        size if size is None or axis not in strides else -(-size // strides[axis][0])
        for axis, size in enumerate(sizes)
    )


def is_exact(sizes: tuple[int | None, ...], strides: Strides, block: int) -> bool:
    """Whether tiles of `block` positions have no position out of bounds."""
    if None in sizes or known_product(class_sizes(sizes, strides)) % block:
        return False
    return all((sizes[axis] or 0) % stride == 0 for axis, (stride, _) in strides.items())


def write_positions(
    writer: Writer, space: Space, group: int, ordinals: str, strides: Strides
) -> dict[int, str]:
    """Writes the flat index of a group and its mask.

    Args:
      writer: gets the lines.
      space: the iteration space.
      group: index of the group.
      ordinals: the ordinals of the positions, of one class where there are any; empty where they
        were written before, for another class.
      strides: the axes that residue classes divide.

    Returns:
      Axis -> the name of the ordinal of a position of the class along it.
    """
    own = space.groups[group]
    if not strides:
        writer.line(f"{own.flat} = {ordinals}")
        writer.write(space.inside(group))
        return {}
    tile, sizes = f"{own.flat}_tile", class_sizes(own.sizes, strides)
    if ordinals:
        writer.line(f"{tile} = {ordinals}")
    flat, masks, places = "", [f"({tile} < {product_text(sizes)})"], {}
    for axis, size in enumerate(own.sizes):
        inner = known_product(sizes[axis + 1 :])
        text = tile if inner == 1 else f"{tile} // {inner}"
        text = f"({text} % {sizes[axis]})" if axis else f"({text})"
        if axis in strides:
            stride, residue = strides[axis]
            places[axis] = f"{own.flat}_place{axis}"
            writer.line(f"{places[axis]} = {text}")
            text = f"({places[axis]} * {stride} + {residue})"
            if (size or 0) % stride:
                masks.append(f"({text} < {size})")
        flat = text if not flat else f"({flat} * {size} + {text})"
    writer.line(f"{own.flat} = {flat}")
    if own.mask:
        writer.line(f"{own.mask} = {' & '.join(masks)}")
    return places
