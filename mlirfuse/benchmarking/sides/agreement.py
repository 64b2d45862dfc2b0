"""Results of several sides beside each other: those that differ from the others are named."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from mlirfuse.core import Numerics
from mlirfuse.debug.compare import TOLERANCES, errors
from mlirfuse.runtime.arrays import dtype_name
from mlirfuse.runtime.inputs import Array


@dataclasses.dataclass(frozen=True, slots=True)
class Distance:
    """The largest error between the results of two sides.

    Attributes:
      error: relative to the largest magnitude of the result; infinite where shapes, NaNs or the
        number of results differ.
      allowed: the tolerance of that result.
    """

    error: float
    allowed: float

    @property
    def ok(self) -> bool:
        """Whether the error is allowed."""
        return self.error <= self.allowed


def distance(
    got: Sequence[Array], wanted: Sequence[Array], tolerance: float | None = None
) -> Distance:
    """The distance of results from others.

    Args:
      got: results in order.
      wanted: the others, which give the scale.
      tolerance: allowed error; None for that of frameworks, which accumulate in other orders, by
        the coarser element type of a result. Integers and booleans have to be equal.
    """
    if len(got) != len(wanted):
        return Distance(float("inf"), 0.0)
    worst = Distance(0.0, 0.0)
    known = TOLERANCES[Numerics.PRECISION_CHANGING]
    for one, other in zip(got, wanted, strict=True):
        types = dtype_name(one), dtype_name(other)
        allowed = max(known.get(name, 0.0) for name in types) if tolerance is None else tolerance
        found = Distance(float(max(errors(one, other))), allowed)
        if found.error - found.allowed > worst.error - worst.allowed:
            worst = found
    return worst


def differing(
    results: Mapping[str, Sequence[Array]], tolerance: float | None = None
) -> tuple[str, dict[str, Distance]]:
    """The sides whose results are not those of most others.

    Args:
      results: side -> its results, in order; of equal numbers of agreements the later side is
        taken to be right.
      tolerance: as for `distance`.

    Returns:
      A side that agrees with most, and side -> its distance from that one, for those that differ.
    """
    names = [*results][::-1]
    table = {
        (one, other): distance(results[one], results[other], tolerance)
        for one in names
        for other in names
    }
    agreements = [sum(table[one, name].ok for one in names) for name in names]
    right = names[int(np.argmax(agreements))]
    return right, {name: table[name, right] for name in results if not table[name, right].ok}
