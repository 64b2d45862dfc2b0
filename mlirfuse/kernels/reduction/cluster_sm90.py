"""Reductions across the CTAs of a thread block cluster on Hopper, which share a row.

Each CTA reduces its columns; `device/reduction_sm90.py` exchanges the partial results through
distributed shared memory.
"""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.codegen.writer import Writer


@dataclasses.dataclass(slots=True)
class Cluster:
    """Writes the cluster-wide part of a kernel.

    Attributes:
      size: CTAs of a cluster.
      exchanged: whether an exchange has been written; the first one waits for all CTAs to run.
    """

    size: int
    exchanged: bool = False

    def row(self, program_id: str) -> str:
        """The row of a CTA."""
        return f"({program_id} // {self.size})"

    def first_column(self, program_id: str, columns: int) -> str:
        """The first column of a CTA that has so many."""
        return f"{program_id} % {self.size} * {columns}"

    def begin(self, writer: Writer) -> None:
        """Announces to the other CTAs that this one runs."""
        writer.line("reduction_sm90.announce()")

    def all_reduce(self, partial: str, combiner: str) -> str:
        """The reduction of one number of each CTA, as an expression.

        Args:
          partial: the number, a tile of one f32.
          combiner: a key of `reduction_sm90.COMBINERS`.
        """
        first, self.exchanged = not self.exchanged, True
        return f'reduction_sm90.all_reduce({partial}, "{combiner}", {self.size}, {first})'
