"""How rows are distributed over CTAs, warps and the CTAs of a thread block cluster."""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.reduction.problem import ReductionConfig
from mlirfuse.targets.base import GpuDevice

MAX_COLUMNS = 32768
"""Columns of a CTA at most: 32 elements of each value in a thread of 32 warps."""

MAX_THREADS_PER_CTA = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Distribution:
    """The tile of a CTA.

    Attributes:
      rows: rows of a CTA; one where a cluster shares it.
      columns: columns of a CTA, a power of two.
      num_warps: warps of a CTA.
      cluster_size: CTAs that share a row; one for no cluster.
    """

    rows: int
    columns: int
    num_warps: int
    cluster_size: int


def distribute(config: ReductionConfig, rows: int, columns: int, gpu: GpuDevice) -> Distribution:
    """The tiles that a configuration means for so many rows and columns."""
    if config.block_rows:
        width = config.block_columns or power_of_two(columns)
        return Distribution(config.block_rows, width, config.num_warps, 1)
    cluster_size = min(gpu.max_cluster_size, -(-columns // config.max_columns_per_cta))
    width = power_of_two(-(-columns // cluster_size))
    # Each CTA has columns.
    cluster_size = -(-columns // width)
    height = 1
    if cluster_size == 1:
        height = min(max(1, config.tile_elements // width), power_of_two(rows))
    num_warps = height * width // (gpu.warp_size * config.elements_per_thread)
    most = MAX_THREADS_PER_CTA // gpu.warp_size
    return Distribution(height, width, min(most, max(1, num_warps)), cluster_size)


def max_columns(gpu: GpuDevice) -> int:
    """Columns of a row that registers hold: those of a CTA, or of a cluster's."""
    return MAX_COLUMNS * gpu.max_cluster_size
