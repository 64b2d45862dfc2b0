"""The text of a kernel of attention.

for each head, each part of its queries:               a workgroup
  for each tile of queries:
    blocks of keys                                     `attention_blocks`
"""

from __future__ import annotations

import math

from iree.compiler import ir

from mlirfuse.kernels.vector.attention_blocks import AttentionBlocks
from mlirfuse.kernels.vector.attention_matrix import MatrixBlocks
from mlirfuse.kernels.vector.attention_problem import AttentionTile, Problem
from mlirfuse.kernels.vector.attention_products import VectorBlocks
from mlirfuse.kernels.vector.attention_stack import Layout
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.pointwise import Pointwise
from mlirfuse.kernels.vector.tile_registers import TileRegisters
from mlirfuse.kernels.vector.workgroups import BLOCKS_PER_CORE, MIN_BLOCK_OPERATIONS
from mlirfuse.kernels.vector.writer import SPECIAL_OPERATIONS, Linear, Writer, linear
from mlirfuse.targets.base import CpuDevice
from mlirfuse.targets.cpu_rates import MATRIX_SPEEDUP


def kernel(
    problem: Problem, tile: AttentionTile, matrix_tile: AttentionTile | None, device: CpuDevice
) -> VectorKernel:
    """Writes the kernel of an attention.

    Args:
      problem: the attention.
      tile: how it is blocked for multiply-adds of vectors.
      matrix_tile: how it is blocked for tile registers; None where they are not used.
      device: the CPU.

    Raises:
      Unsupported: the region has an op or an access that the kernel cannot compute.
    """
    return _AttentionKernel(problem, tile, matrix_tile, device).write()


def vector_layout(tile: AttentionTile, keys: int, heads: tuple[int, int], lanes: int) -> Layout:
    """The stack of a tile whose products are multiply-adds.

    Args:
      tile: the tile.
      keys: all keys.
      heads: elements of a query and of a value.
      lanes: lanes of a vector.
    """
    columns = -(-heads[1] // lanes) * lanes if keys > tile.keys else 0
    return Layout(tile.vectors * lanes, tile.keys, columns, heads[0])


def matrix_layout(tile: AttentionTile, v_head: int, lanes: int) -> Layout:
    """The stack of a tile whose products are those of tile registers.

    Args:
      tile: the tile.
      v_head: elements of a value.
      lanes: lanes of a vector.
    """
    return Layout(tile.vectors * lanes, tile.keys, -(-v_head // lanes) * lanes, 0)


class _AttentionKernel:
    """Writes one kernel."""

    def __init__(
        self,
        problem: Problem,
        tile: AttentionTile,
        matrix_tile: AttentionTile | None,
        device: CpuDevice,
    ) -> None:
        self.problem, self.device = problem, device
        self.tile, self.matrix_tile = tile, matrix_tile
        self.writer, self.lanes = Writer(), device.lanes
        self.body = Pointwise(self.writer, self.lanes, gathers=True)

    def write(self) -> VectorKernel:
        """Writes the whole kernel."""
        problem, writer = self.problem, self.writer
        heads = problem.qk_head, problem.v_head
        layouts = [vector_layout(self.tile, problem.keys, heads, self.lanes)]
        if self.matrix_tile is not None:
            layouts.append(matrix_layout(self.matrix_tile, problem.v_head, self.lanes))
        kind = f"memref<{max(layout.size for layout in layouts)}xf32>"
        stack = writer.stack(kind), kind
        width = max(layout.width for layout in layouts)
        count, tiles = math.prod(problem.outer), -(-problem.queries // width)
        chunks, size = self._chunks(count, tiles, width)
        number = writer.value("hal.interface.workgroup.id[0] : index")
        *outer, chunk = writer.split(number, (*problem.outer, chunks))
        first = chunk * (size * width)
        last = linear(writer.binary("minsi", first + size * width, problem.queries))
        common = self.body, self.device, stack
        blocks = VectorBlocks(problem, self.tile, layouts[0], *common)
        scratch: tuple[ir.Type, ...] = ()
        if self.matrix_tile is None:
            self._write_tiles(blocks, outer, first, last)
        else:
            registers = TileRegisters(writer)
            tiled = MatrixBlocks(problem, self.matrix_tile, layouts[1], *common, registers)
            scratch = (tiled.scratch(count * chunks),)

            def allowed() -> list[str]:
                self._write_tiles(tiled, outer, first, last)
                registers.release()
                return []

            def refused() -> list[str]:
                self._write_tiles(blocks, outer, first, last)
                return []

            writer.choose(registers.permission(), [], allowed, refused)
        return self.body.kernel("attention", problem.results, (count * chunks, 1), scratch)

    def _write_tiles(
        self, blocks: AttentionBlocks, outer: list[Linear], first: Linear, last: Linear
    ) -> None:
        """Writes the tiles of a workgroup, which end with its last query."""
        writer, width = self.writer, blocks.width
        whole, left = divmod(self.problem.queries, width)
        blocks.begin(outer, last)

        def tile(start: str, _: list[str]) -> list[str]:
            blocks.write(linear(start), width)
            return []

        if whole:
            end = writer.binary("minsi", last, whole * width)
            writer.loop(first, end, width, [], [], tile)
        if left:
            queries = writer.index(self.problem.queries)
            ends = writer.value(f"arith.cmpi eq, {writer.index(last)}, {queries} : index")
            with writer.block(f"scf.if {ends} {{"):
                blocks.write(linear(whole * width), left)

    def _chunks(self, heads: int, tiles: int, width: int) -> tuple[int, int]:
        """The number of workgroups of a head, and the tiles of queries of each."""
        problem = self.problem
        wanted = max(1, -(-BLOCKS_PER_CORE * self.device.cores // heads))
        products = problem.qk_head + problem.v_head
        if self.matrix_tile is not None:
            products //= MATRIX_SPEEDUP
        work = width * problem.keys * (products + SPECIAL_OPERATIONS)
        size = min(tiles, max(-(-tiles // wanted), -(-MIN_BLOCK_OPERATIONS // work)))
        return -(-tiles // size), size
