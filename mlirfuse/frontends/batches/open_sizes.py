"""Sizes that a model leaves open."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence


def is_one_batch(shapes: Iterable[Sequence[Hashable]]) -> bool:
    """Whether the open sizes are one number of samples, the first of arguments.

    Args:
      shapes: of the arguments; a size that is no number is open, and equal ones are one size.
    """
    opened = [
        (axis, size)
        for shape in shapes
        for axis, size in enumerate(shape)
        if not isinstance(size, int)
    ]
    return not any(axis for axis, _ in opened) and len({size for _, size in opened}) == 1
