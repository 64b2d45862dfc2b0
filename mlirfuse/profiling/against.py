"""A program beside stock IREE's for the same model: kernels matched by their source ops."""

from __future__ import annotations

import dataclasses

from mlirfuse.profiling.measured import Comparison, MatchedSet
from mlirfuse.profiling.result import Profile
from mlirfuse.support.components import components


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
    """The kernels that share an op of one layer."""
    if not any(k.origins for k in ours.kernels) or not any(k.origins for k in stock.kernels):
        return ()
    origins = [[kernel.origins for kernel in side.kernels] for side in (ours, stock)]
    return tuple(
        MatchedSet(
            tuple(ours.kernels[index] for index in first),
            tuple(stock.kernels[index] for index in second),
        )
        for first, second in components(*origins)
    )
