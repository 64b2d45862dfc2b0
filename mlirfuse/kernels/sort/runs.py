"""Sorted runs of a row: those of its chunks, then the ones that they are merged into.

5000 columns, chunks of 1024     5 runs: 4 of 1024, the last of 904
merged by fours                  2 runs: one of 4096, the last of 904
the first 10 alone               5 runs of 10, then 2 of 10
"""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.codegen.iteration_space import power_of_two

CANDIDATES = 4
"""Least elements of parts of a chunk for each selected one, which make a limit, and candidates that
a short network sorts."""


@dataclasses.dataclass(frozen=True, slots=True)
class Runs:
    """Sorted runs that follow each other.

    Attributes:
      count: runs.
      length: elements of each but the last one.
      last: elements of the last one.
    """

    count: int
    length: int
    last: int

    @property
    def total(self) -> int:
        """Elements of all runs."""
        return (self.count - 1) * self.length + self.last

    def merged(self, width: int, kept: int) -> Runs:
        """The runs after so many at a time are merged, of which the first elements are kept."""
        count = -(-self.count // width)
        left = self.total - (count - 1) * width * self.length
        return Runs(count, min(width * self.length, kept), min(left, kept))


def runs_of_chunks(columns: int, chunk: int, kept: int) -> Runs:
    """The sorted chunks of a row, of which the first elements are kept."""
    count = -(-columns // chunk)
    return Runs(count, min(chunk, kept), min(columns - (count - 1) * chunk, kept))


def first_candidates(count: int, tile: int) -> int:
    """Candidates for so many first elements of a chunk that the least elements of tiles leave.

    0 where these are too many for a limit.
    """
    candidates = CANDIDATES * max(2, power_of_two(count))
    return candidates if candidates <= tile else 0
