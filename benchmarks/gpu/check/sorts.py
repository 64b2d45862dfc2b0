"""Forms of `sort_triton_kernel`: sorted rows, their first elements, and one by its rank."""

from __future__ import annotations

import torch

from benchmarks.gpu.check.case import FLOATS, Chance, Input, Tensor, Work, named
from benchmarks.gpu.check.movements import shape_of, spelled

MAX_ROW = 500
"""Longest row that one kernel sorts: its build takes longer for longer ones."""

MAX_LONG_ROW, MAX_LONG_ROWS = 1 << 19, 4
"""Longest row that is merged from chunks, and the most of each other dimension."""


def _rows(chance: Chance) -> tuple[tuple[int, ...], int]:
    """A shape, and the dimension that is sorted."""
    shape = list(shape_of(chance, chance.pick(1, 2, 3)))
    dim = chance.pick(*range(len(shape)))
    long = chance.likely(0.4)
    shape = [min(size, MAX_LONG_ROWS if long else MAX_ROW) for size in shape]
    shape[dim] = chance.size(MAX_LONG_ROW, 2) if long else max(2, shape[dim])
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
    # The first one alone is an extreme.
    count, largest = chance.size(shape[dim], 2), chance.likely(0.5)

    def program(x: Tensor) -> Tensor:
        return torch.topk(x, count, dim, largest).values

    words = f"{count} of {spelled(shape)} along {dim}"
    return Work(program, (Input(shape),), chance.dtype(*FLOATS), words)


def order_statistics(chance: Chance) -> Work:
    """An element by its rank: the median of each row, or another one."""
    shape, dim = _rows(chance)
    rank, median = chance.size(shape[dim]), chance.likely(0.5)

    def program(x: Tensor) -> Tensor:
        return (torch.median(x, dim) if median else torch.kthvalue(x, rank, dim)).values

    words = f"{'median' if median else f'rank {rank}'} of {spelled(shape)} along {dim}"
    return Work(program, (Input(shape),), chance.dtype(*FLOATS), words)


SORTS = named(sorted_rows, first_elements, order_statistics)
