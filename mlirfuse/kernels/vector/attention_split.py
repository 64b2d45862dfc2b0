"""Kernels of attention with few queries, whose keys may be divided among workgroups.

for each batch and head of keys, some of the rows that share it, and part of the keys:
  the rows' maxima, sums and accumulators of the part          `attention_rows`
for each row: those of all parts combined, epilogue            `attention_merge`

A part of all keys ends with the epilogue, in one kernel.
"""

from __future__ import annotations

import dataclasses
import math

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.vector import attention_merge, stages
from mlirfuse.kernels.vector.attention_merge import Partials
from mlirfuse.kernels.vector.attention_problem import Problem
from mlirfuse.kernels.vector.attention_rows import RowBlocks, RowLayout
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.pointwise import Pointwise
from mlirfuse.kernels.vector.stages import Stages
from mlirfuse.kernels.vector.workgroups import block_size, num_parts
from mlirfuse.kernels.vector.writer import SPECIAL_OPERATIONS, Linear, Writer, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

STACK_BYTES = 28 << 10
"""Bytes of the stack for the rows of a workgroup, of the 32 KiB that IREE allows a dispatch."""

MAX_KEY_BLOCK = 256
"""Keys of a block at most: their weights, keys and values are in the first caches together."""


@dataclasses.dataclass(frozen=True, slots=True)
class Division:
    """The work of a workgroup.

    Attributes:
      layout: places on the stack, for the rows and the keys of a block.
      row_chunks: parts of the rows that share keys.
      blocks: blocks of keys of a part.
      parts: parts of the keys.
      size: chunks of rows, each with a part of keys, of a workgroup.
    """

    layout: RowLayout
    row_chunks: int
    blocks: int
    parts: int
    size: int

    @property
    def part(self) -> int:
        """Keys of a part."""
        return self.blocks * self.layout.keys


def refusal(qk_head: int, v_head: int, device: CpuDevice) -> NoMatch | None:
    """The reason why there are no kernels for heads of these sizes; None where there are.

    Args:
      qk_head: elements of a query and a key.
      v_head: elements of a value.
      device: the CPU.
    """
    row = RowLayout.of((qk_head, v_head), 1, MAX_KEY_BLOCK, device.lanes)
    if 4 * row.size <= STACK_BYTES:
        return None
    return NoMatch(Reason.NOT_PROFITABLE, f"heads of {max(qk_head, v_head)} exceed the stack")


def divide(problem: Problem, device: CpuDevice) -> Division:
    """Divides the rows and keys of an attention among workgroups.

    Args:
      problem: the attention.
      device: the CPU.
    """
    keys, rows, heads = problem.keys, problem.rows, (problem.qk_head, problem.v_head)
    block = min(MAX_KEY_BLOCK, -(-keys // device.lanes) * device.lanes)
    most = STACK_BYTES // 4 // RowLayout.of(heads, 1, block, device.lanes).size
    chunks = -(-rows // most)
    chunk = -(-rows // chunks)
    units = math.prod(problem.shared) * chunks
    elements = sum(heads)
    work = chunk * keys * (elements + SPECIAL_OPERATIONS)
    read = keys * elements * ops.element_bits(problem.operands[1]) // 8
    parts = num_parts(units, work, read, 1, device)
    blocks = -(-keys // (parts * block))
    block = -(-keys // (parts * blocks * device.lanes)) * device.lanes
    parts = -(-keys // (blocks * block))
    layout = RowLayout.of(heads, chunk, block, device.lanes)
    units *= parts
    groups = -(-units // block_size(units, work / parts, read / parts, device))
    if groups > device.cores:
        groups = -(-groups // device.cores) * device.cores
    return Division(layout, chunks, blocks, parts, -(-units // groups))


def kernels(problem: Problem, device: CpuDevice) -> Stages:
    """Writes the kernels of an attention with few queries.

    Raises:
      Unsupported: the region has an op or an access that the kernels cannot compute.
    """
    division = divide(problem, device)
    if division.parts == 1:
        return stages.alone(_Kernel(problem, division, device).write())
    partials = Partials.of(problem, division.parts, device.lanes)
    first = _Kernel(problem, division, device).write(partials)
    last = attention_merge.kernel(problem, partials, device)
    returned = tuple((1, n) for n in range(len(problem.results)))
    return Stages((first, last), returned)


class _Kernel:
    """Writes the kernel that reads the keys."""

    def __init__(self, problem: Problem, division: Division, device: CpuDevice) -> None:
        self.problem, self.division = problem, division
        self.writer = Writer()
        self.body = Pointwise(self.writer, device.lanes, gathers=True)
        self.blocks = RowBlocks(problem, division.layout, self.body, device)

    def write(self, partials: Partials | None = None) -> VectorKernel:
        """Writes the kernel.

        Args:
          partials: what it writes of each part of the keys; None where it writes the results.
        """
        writer, problem, division = self.writer, self.problem, self.division
        units = math.prod(problem.shared) * division.row_chunks * division.parts
        first = linear(writer.value("hal.interface.workgroup.id[0] : index")) * division.size
        last = writer.binary("minsi", first + division.size, units)

        def unit(number: str, _: list[str]) -> list[str]:
            self._write_unit(number, partials)
            return []

        writer.loop(first, last, 1, [], [], unit)
        grid = (-(-units // division.size), 1)
        if partials is None:
            return self.body.kernel("attention", problem.results, grid)
        return self.body.kernel("attention", [], grid, partials.kinds)

    def _write_unit(self, number: str, partials: Partials | None) -> None:
        writer, problem, division = self.writer, self.problem, self.division
        rows = division.layout.rows
        sizes = (*problem.shared, division.row_chunks, division.parts)
        *outer, chunk, part = writer.split(number, sizes)
        start = chunk * rows
        if problem.rows % rows:
            # The last rows may be those of two chunks.
            start = linear(writer.binary("minsi", start, problem.rows - rows))
        self.blocks.begin(outer, start)
        self._write_blocks(part)

        def row(number: str, _: list[str]) -> list[str]:
            self._write_row(linear(number), part, partials)
            return []

        writer.loop(0, rows, 1, [], [], row)

    def _write_blocks(self, part: Linear) -> None:
        """Writes the loop over the blocks of a part, the last of which may be smaller."""
        writer, keys, division = self.writer, self.problem.keys, self.division
        block = division.layout.keys
        whole = keys // block * block
        first = part * division.part
        last = writer.binary("minsi", first + division.part, whole)

        def full(key: str, _: list[str]) -> list[str]:
            self.blocks.write_block(linear(key), block)
            return []

        if whole:
            writer.loop(first, last, block, [], [], full)
        if whole == keys:
            return
        if division.parts == 1:
            self.blocks.write_block(linear(whole), keys - whole)
            return
        number = writer.index(division.parts - 1)
        ends = writer.value(f"arith.cmpi eq, {writer.index(part)}, {number} : index")
        with writer.block(f"scf.if {ends} {{"):
            self.blocks.write_block(linear(whole), keys - whole)

    def _write_row(self, row: Linear, part: Linear, partials: Partials | None) -> None:
        """Writes the results of a row, or what the last kernel makes them of."""
        blocks, total = self.blocks, self.blocks.sums(row)
        index = blocks.index(row)
        columns = [blocks.accumulator(row, n) for n in range(blocks.results.columns)]
        if partials is None:
            for column, held in enumerate(columns):
                blocks.results.write(index, column, held, total)
            return
        partials.store(self.body, (index, part), columns, (blocks.maximum(row), total))
