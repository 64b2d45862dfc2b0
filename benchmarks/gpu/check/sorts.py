"""Forms of `sort_triton_kernel`: sorted rows, and their first elements."""

from __future__ import annotations

import torch

from benchmarks.gpu.check.case import FLOATS, Chance, Input, Tensor, Work, named
from benchmarks.gpu.check.movements import shape_of, spelled

MAX_ROW = 500
"""Longest row of a case: the build of a kernel takes longer for longer ones."""


def _rows(chance: Chance) -> tuple[tuple[int, ...], int]:
    """A shape, and the dimension that is sorted."""
    shape = [min(size, MAX_ROW) for size in shape_of(chance, chance.pick(1, 2, 3))]
    dim = chance.pick(*range(len(shape)))
    shape[dim] = max(2, shape[dim])
    return tuple(shape), dim


def sorted_rows(chance: Chance) -> Work:
    """Elements of a dimension in order, and where they were; many are equal."""
    shape, dim = _rows(chance)
    descending, equal = chance.likely(0.5), chance.likely(0.5)

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.round(x * 2.0) if equal else x
        values, indices = torch.sort(y, dim=dim, descending=descending, stable=True)
        return values, indices

    words = f"{spelled(shape)} along {dim}{', descending' if descending else ''}"
    return Work(program, (Input(shape),), chance.dtype(*FLOATS), words)


def first_elements(chance: Chance) -> Work:
    """The largest or smallest elements of a dimension."""
    shape, dim = _rows(chance)
    count, largest = chance.size(shape[dim]), chance.likely(0.5)
    count = max(2, count)

    def program(x: Tensor) -> Tensor:
        return torch.topk(x, count, dim, largest).values

    words = f"{count} of {spelled(shape)} along {dim}"
    return Work(program, (Input(shape),), chance.dtype(*FLOATS), words)


SORTS = named(sorted_rows, first_elements)
