"""A program beside stock IREE's for the same model: kernels matched by their source ops."""

from __future__ import annotations

import dataclasses

from mlirfuse.profiling.measured import Comparison, MatchedSet
from mlirfuse.profiling.result import Profile


def compare(ours: Profile, stock: Profile) -> Profile:
    """Our profile with the comparison.

    Args:
      ours: the profile of our program.
      stock: that of stock IREE's, called with the same arguments.
    """
    whole = MatchedSet(ours.kernels, stock.kernels)
    comparison = Comparison(
        stock,
        sets=_sets(ours, stock),
        ratio=stock.min_wall_us / ours.min_wall_us,
        kernel_ratio=whole.ratio,
    )
    return dataclasses.replace(ours, comparison=comparison)


def _sets(ours: Profile, stock: Profile) -> tuple[MatchedSet, ...]:
    """The components of the graph whose edges join kernels that share an op of one layer."""
    if not any(k.origins for k in ours.kernels) or not any(k.origins for k in stock.kernels):
        return ()
    kernels = [*ours.kernels, *stock.kernels]
    parent = list(range(len(kernels)))

    def root(index: int) -> int:
        while parent[index] != index:
            index = parent[index]
        return index

    holder: dict[tuple[str, str], int] = {}
    for index, kernel in enumerate(kernels):
        for origin in kernel.origins:
            parent[root(index)] = root(holder.setdefault(origin, index))
    members: dict[int, list[int]] = {}
    for index in range(len(kernels)):
        members.setdefault(root(index), []).append(index)
    first = len(ours.kernels)
    return tuple(
        MatchedSet(
            tuple(kernels[index] for index in found if index < first),
            tuple(kernels[index] for index in found if index >= first),
        )
        for found in members.values()
    )
