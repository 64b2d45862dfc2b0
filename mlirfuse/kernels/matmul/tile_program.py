"""Kernels of one tile per CTA: placement, grid and epilogue around any main loop."""

from __future__ import annotations

from collections.abc import Sequence

from mlirfuse.kernels.codegen.iteration_space import known_product
from mlirfuse.kernels.codegen.module_text import TextOf
from mlirfuse.kernels.codegen.tile_writer import Launch
from mlirfuse.kernels.matmul import aligned_copies, epilogue
from mlirfuse.kernels.matmul.aligned_copies import ENTRY
from mlirfuse.kernels.matmul.analysis import Part, problem_of
from mlirfuse.kernels.matmul.epilogue import Accumulate
from mlirfuse.kernels.matmul.placement import tile_placement
from mlirfuse.kernels.matmul.problem import MIN_DOT_M
from mlirfuse.kernels.matmul.tile_space import KernelTiles, M, N
from mlirfuse.kernels.plan import Extent, Plan


def plan_tiles(
    kernel: KernelTiles,
    accumulate: Accumulate,
    *,
    placement: Sequence[str] = (),
    early_loads: bool = True,
    text: TextOf | None = None,
) -> Plan:
    """Plans a kernel of one tile per CTA; nothing of it is written yet.

    Args:
      kernel: the kernel.
      accumulate: writes the accumulators of a part.
      placement: lines that compute the indices of the CTA's tile, where they are not Triton's.
      early_loads: whether CTAs of a small M load the operands of the epilogue before the main loop.
      text: writer of the module, where it is not Triton's.
    """
    analysis, config, tiles = kernel.analysis, kernel.config, kernel.tiles
    tiles.body.writer.write(placement or placement_of(kernel))
    early = early_loads and config.block_m <= MIN_DOT_M

    def accumulated(kernel: KernelTiles, part: Part) -> None:
        if early:
            epilogue.load_early(kernel, part)
        accumulate(kernel, part)
        if analysis.loops.m is None and config.block_m > 1:
            _keep_first_row(kernel, part)

    epilogue.write_parts(kernel, "tl.program_id(2)", accumulated)
    grid = (
        Extent(
            analysis.m or 1,
            config.block_m,
            () if analysis.m else (0,),
            -(-analysis.n // config.block_n),
        ),
        Extent(known_product(analysis.batch)),
        Extent(len(analysis.parts)),
    )
    return tiles.plan(
        ENTRY,
        tiles.body.writer.lines,
        analysis.results,
        f"Matmul with K = {analysis.k}, tiles of {config.block_m} by {config.block_n}.",
        launch=Launch(
            grid=grid,
            first=(M, 0),
            num_warps=config.num_warps,
            num_stages=config.num_stages,
        ),
        problem=problem_of(analysis),
        text=text or aligned_copies.text_with(),
    )


def placement_of(kernel: KernelTiles) -> list[str]:
    """The lines that compute the batch, and the indices of a CTA's tile and their masks."""
    cast = ".to(tl.int64)" if kernel.wide else ""
    return [
        f"batch = tl.program_id(1){cast}",
        *tile_placement(kernel.tiles.space, M, N, kernel.config, wide=kernel.wide),
    ]


def _keep_first_row(kernel: KernelTiles, part: Part) -> None:
    """Reduces accumulators to their first row: a vector A is the first row of a tile."""
    for index in range(len(part)):
        name = f"accumulator{index}"
        first = f"tl.where(offs_m == 0, {name}, 0)"
        kernel.tiles.body.writer.line(f"{name} = tl.sum({first}, 0, keep_dims=True)")
