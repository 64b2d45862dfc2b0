"""Networks of exchanges that sort, or that select the first elements.

comparators(4, 4)      ((0, 1), (2, 3), (0, 2), (1, 3), (1, 2))

Source: Batcher, Sorting networks and their applications, 1968.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator


@functools.lru_cache(maxsize=64)
def comparators(size: int, count: int) -> tuple[tuple[int, int], ...]:
    """The exchanges of an odd-even merge sort, each of which puts the lesser one first.

    Args:
      size: elements.
      count: elements that are needed in order: exchanges of which none depends are left out.
    """
    whole = 1 << (size - 1).bit_length() if size > 1 else 1
    # What is behind the last element is larger than all of them, and is never exchanged.
    every = [pair for pair in _sorted(0, whole) if pair[1] < size]
    needed, kept = set(range(count)), []
    for first, second in reversed(every):
        if first in needed or second in needed:
            needed |= {first, second}
            kept.append((first, second))
    return tuple(reversed(kept))


def _sorted(start: int, size: int) -> Iterator[tuple[int, int]]:
    if size < 2:
        return
    half = size // 2
    yield from _sorted(start, half)
    yield from _sorted(start + half, half)
    yield from _merged(start, size, 1)


def _merged(start: int, size: int, step: int) -> Iterator[tuple[int, int]]:
    """Merges both halves of the elements at a distance of `step`."""
    double = 2 * step
    if double >= size:
        yield start, start + step
        return
    yield from _merged(start, size, double)
    yield from _merged(start + step, size, double)
    for first in range(start + step, start + size - step, double):
        yield first, first + step
