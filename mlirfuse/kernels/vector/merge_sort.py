"""Sorts rows of some length, one in each lane, by blocks and by merges of them.

for each group of rows, as many as a vector has lanes:
  a vector of records for each column, each a key with its index
  each block of columns by a network
  for each size of a merge, from two blocks on:
    exchanges with the columns at the mirrored place of the other half
    exchanges at half of the distance, and so on, until they are inside of blocks
    the rest of the merge in each block, by a network
  store the first vectors

The number of columns need not be a power of two: exchanges with columns that do not exist, which
would be the largest ones, change nothing and are left out.
"""

from __future__ import annotations

import functools

from mlirfuse.kernels.vector import network_sort
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.merge_network import comparators
from mlirfuse.kernels.vector.network_sort import NetworkKernel
from mlirfuse.kernels.vector.row_sort import RowSort
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.targets.base import CpuDevice

MAX_NETWORK_EXCHANGES = 1024
"""Exchanges of a network that is written out: as many are compiled in about a second."""

UNROLL = 4
"""Exchanges of one iteration of the loops between blocks."""


@functools.cache
def block_columns() -> int:
    """Columns of a block: the largest power of two whose network can be written out."""
    size = 2 * UNROLL
    while len(comparators(2 * size, 2 * size)) <= MAX_NETWORK_EXCHANGES:
        size *= 2
    return size


def held_columns(problem: RowSort) -> int:
    """Columns of whole blocks."""
    block = block_columns()
    return -(-problem.columns // block) * block


def cycles(problem: RowSort, device: CpuDevice) -> float:
    """The modelled cycles of a group of rows."""
    block, held = block_columns(), held_columns(problem)
    levels = (held // block - 1).bit_length()
    inside = len(comparators(block, block)) / block + levels * (block.bit_length() - 1) / 2
    between = levels * (levels + 1) / 4
    exchanges = held * (inside + 2 * between)
    return network_sort.group_cycles(problem, device, exchanges)


def held_bytes(problem: RowSort, device: CpuDevice) -> int:
    """Bytes of the records of the rows of a vector."""
    return held_columns(problem) * device.vector_bytes


def kernel(problem: RowSort, entry: str, device: CpuDevice) -> VectorKernel:
    """Writes the kernel that sorts a row in each lane, by merges.

    Raises:
      Unsupported: a comparator that kernels cannot compute.
    """
    return _MergeKernel(problem, device).write(entry)


class _MergeKernel(NetworkKernel):
    """Writes one kernel."""

    @property
    def held_columns(self) -> int:
        return held_columns(self.problem)

    def cycles(self) -> float:
        return cycles(self.problem, self.device)

    def sort(self) -> None:
        """Writes the sort of the blocks, and the loop over the sizes of merges."""
        writer, block, held = self.writer, block_columns(), self.held_columns
        for column in range(self.problem.columns, held):
            self.put(self.ops.constant(-1, self.problem.record), Linear(constant=column))

        def sort_block(column: str, _: list[str]) -> list[str]:
            self.exchange_all(comparators(block, block), linear(column), block, block)
            return []

        writer.loop(0, held, block, [], [], sort_block)
        levels = (held // block - 1).bit_length()
        writer.loop(0, levels, 1, [], [], self._merge)

    def _merge(self, level: str, _: list[str]) -> list[str]:
        """Writes one size of merges: 2 blocks, 4, ..."""
        writer, block, held = self.writer, block_columns(), self.held_columns
        half = writer.binary("shli", block, level)
        whole = writer.binary("shli", block, linear(level) + 1)

        def mirror(base: str, _: list[str]) -> list[str]:
            end = writer.index(linear(base) + linear(whole))
            missing = writer.binary("maxsi", linear(end) + -held, 0)

            def exchange(number: str, _: list[str]) -> list[str]:
                for step in range(UNROLL):
                    opposite = linear(end) + linear(number) * -1 + (-1 - step)
                    self._exchange(linear(base) + linear(number) + step, opposite)
                return []

            writer.loop(missing, half, UNROLL, [], [], exchange)
            return []

        def clean(step: str, _: list[str]) -> list[str]:
            distance = writer.binary("shrui", half, step)
            double = writer.index(linear(distance) * 2)

            def pair(base: str, _: list[str]) -> list[str]:
                left = writer.index(linear(base) * -1 + linear(distance) * -1 + held)
                stop = writer.binary("minsi", left, distance)

                def exchange(number: str, _: list[str]) -> list[str]:
                    for step in range(UNROLL):
                        first = linear(base) + linear(number) + step
                        self._exchange(first, first + linear(distance))
                    return []

                writer.loop(0, stop, UNROLL, [], [], exchange)
                return []

            writer.loop(0, held, double, [], [], pair)
            return []

        def finish(column: str, _: list[str]) -> list[str]:
            exchanges = []
            distance = block // 2
            while distance:
                exchanges += [(n, n + distance) for n in range(block) if not n & distance]
                distance //= 2
            self.exchange_all(exchanges, linear(column), block, block)
            return []

        writer.loop(0, held, whole, [], [], mirror)
        writer.loop(1, linear(level) + 1, 1, [], [], clean)
        writer.loop(0, held, block, [], [], finish)
        return []

    def _exchange(self, first: Linear, second: Linear) -> None:
        """Writes an exchange of two columns in memory."""
        one, other = self.exchanged(self.held(first), self.held(second))
        self.put(one, first)
        self.put(other, second)
