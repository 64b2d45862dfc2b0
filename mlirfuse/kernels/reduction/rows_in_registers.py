"""Kernels that hold whole rows in registers, of a CTA or of the CTAs of a cluster.

Every operand is read once and every result written once, whatever the region computes in between.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen import row_reductions
from mlirfuse.kernels.codegen.element_types import HIDING, TYPES, WIDE
from mlirfuse.kernels.codegen.iteration_space import (
    MAX_INDEX,
    UNKNOWN_ROWS,
    Space,
)
from mlirfuse.kernels.codegen.row_reductions import Reduction, reduces
from mlirfuse.kernels.codegen.tile_writer import Launch, Tiles
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.kernels.reduction.analysis import COLUMN, ROW, ReductionAnalysis, spans_rows
from mlirfuse.kernels.reduction.cluster_sm90 import Cluster
from mlirfuse.kernels.reduction.distribution import (
    MAX_COLUMNS,
    MAX_THREADS_PER_CTA,
    Distribution,
    distribute,
    max_columns,
)
from mlirfuse.kernels.reduction.heuristics import has_clusters, leaves_half_of_sm, packed_registers
from mlirfuse.kernels.reduction.problem import ReductionConfig, ReductionProblem
from mlirfuse.kernels.reduction.region_problem import problem_of
from mlirfuse.kernels.reduction.row_blocks import RowBlocks, row_blocks
from mlirfuse.kernels.reduction.row_tiles import RowTiles, columns_of_tile, compares_values
from mlirfuse.kernels.reduction.schedule import late_order
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target

ENTRY = "row_kernel"

MAX_HELD = 16
"""Elements of 16 bits of a thread of which 32 registers hold all that a norm computes."""

REGISTER_PRESSURE = 16
"""Elements of a tile per thread from which each value is computed just before its first user."""


def can_run(analysis: ReductionAnalysis, config: ReductionConfig, target: Target) -> NoMatch | None:
    """Why the kernel cannot compute a region with a configuration; None if it can."""
    gpu = gpu_of(target)
    longest = max_columns(gpu)
    if analysis.columns > longest or (config.block_rows and analysis.columns > MAX_COLUMNS):
        return NoMatch(
            Reason.NOT_PROFITABLE,
            f"rows of {analysis.columns} columns, more than {longest} in registers",
        )
    if not has_clusters(config, problem_of(analysis), gpu):
        return NoMatch(Reason.TARGET_UNSUPPORTED, f"{target} has no thread block clusters")
    return None


def plan(analysis: ReductionAnalysis, config: ReductionConfig, target: Target) -> Plan:
    """Plans the kernel of a region that it `can_run`.

    Raises:
      Unsupported: an op has no translation.
    """
    problem = problem_of(analysis)
    rows = UNKNOWN_ROWS if analysis.num_dynamic else analysis.rows
    distribution = distribute(config, rows, analysis.columns, gpu_of(target))
    blocks = row_blocks(analysis, distribution.rows)
    distribution = _of_height(distribution, blocks.height)
    packed = config.packed and _can_pack(analysis, distribution, target)
    threads = distribution.num_warps * gpu_of(target).warp_size
    cluster = Cluster(distribution.cluster_size) if distribution.cluster_size > 1 else None
    # As many threads as a CTA may have get 32 registers each where an SM holds two CTAs. On an H100
    # a batch norm of 26x96x64x64 f16 with a residual took 30.9 us so, and 43.4 in f32 with 44.
    compares = compares_values(analysis)
    narrow = (packed or threads >= MAX_THREADS_PER_CTA) and not compares
    tiles = _HeldTiles(
        _space(analysis, blocks, distribution, cluster, threads),
        analysis.loops,
        TYPES if narrow else WIDE,
        short=all(ops.element_type(v) in HIDING for v in analysis.results),
    )
    tiles.evict_first, tiles.rounds = config.evict_first, compares
    _write_indices(tiles, blocks, distribution, cluster)
    elements = distribution.rows * distribution.columns
    late = packed or elements >= REGISTER_PRESSURE * threads
    _write_ops(tiles, analysis, cluster, late=late, packed=packed)
    note = f"{distribution.rows} at a time"
    if cluster is not None:
        note = f"{cluster.size} CTAs for each"
    found = tiles.plan(
        ENTRY,
        tiles.body.writer.lines,
        analysis.results,
        f"Rows of {analysis.columns}, {note}.",
        launch=Launch(
            grid=(blocks.extent(distribution.cluster_size), Extent(1), Extent(1)),
            first=(ROW, 0),
            num_warps=distribution.num_warps,
            cluster_size=distribution.cluster_size,
        ),
        problem=problem,
    )
    if not (packed or _fits_half_of_sm(problem, elements // threads, threads, target)):
        return found
    limited = dataclasses.replace(found.program, max_registers=packed_registers(gpu_of(target)))
    return dataclasses.replace(found, program=limited)


def _fits_half_of_sm(problem: ReductionProblem, each: int, threads: int, target: Target) -> bool:
    """Whether a CTA of all threads leaves the registers of another one, which ptxas has to be told.

    On an H200 group norms with SiLU of 864 rows of 116224 f16 took 201 us so, and 308 where the
    driver's compiler took more than 32 registers.
    """
    whole = threads == MAX_THREADS_PER_CTA and each <= MAX_HELD and target.name == "cuda"
    return whole and leaves_half_of_sm(problem)


def _can_pack(analysis: ReductionAnalysis, distribution: Distribution, target: Target) -> bool:
    """Whether rows are kept as pairs of 16 bits by PTX: one unmasked row in a CTA."""
    whole = distribution.rows == 1 and analysis.columns == distribution.columns
    pairs = all(ops.element_bits(value) == 16 for value in analysis.row_operands)
    return whole and pairs and target.name == "cuda"


def _of_height(distribution: Distribution, height: int) -> Distribution:
    """The distribution with so many rows, a power of two, and as many elements of a thread."""
    num_warps = max(1, distribution.num_warps * height // distribution.rows)
    return dataclasses.replace(distribution, rows=height, num_warps=num_warps)


def _space(
    analysis: ReductionAnalysis,
    blocks: RowBlocks,
    distribution: Distribution,
    cluster: Cluster | None,
    threads: int,
) -> Space:
    """The iteration space, with the masks that its tiles need."""
    width = distribution.columns
    whole = analysis.columns == width * distribution.cluster_size
    each = distribution.rows * width // threads
    first, mask = _first_column(cluster, width), "" if whole else "column_mask"
    return Space((blocks.group(), columns_of_tile(analysis, width, each, first, mask)))


def _first_column(cluster: Cluster | None, width: int) -> str:
    """What is added to the columns of the first CTA of a cluster; empty where there is no other."""
    return "" if cluster is None else f"{cluster.first_column('tl.program_id(0)', width)} + "


def _write_indices(
    tiles: Tiles, blocks: RowBlocks, distribution: Distribution, cluster: Cluster | None
) -> None:
    """Writes the rows and columns of a CTA, and their masks."""
    writer, width, analysis = tiles.body.writer, distribution.columns, blocks.analysis
    row = "tl.program_id(0)"
    if cluster is not None:
        row = cluster.row(row)
    is_wide = analysis.num_dynamic > 0 or analysis.rows * analysis.columns >= MAX_INDEX
    wide = ".to(tl.int64)" if is_wide else ""
    writer.write(blocks.indices(row, wide))
    # The offset of a column of several outer dimensions is as large as that of a row.
    apart = analysis.rows * analysis.columns >= MAX_INDEX and not analysis.has_trailing_columns
    columns = f"tl.arange(0, {width})[None, :]{'.to(tl.int64)' if apart else ''}"
    writer.line(f"column = {_first_column(cluster, width)}{columns}")
    writer.write(tiles.space.inside(ROW, COLUMN))
    if cluster is not None:
        cluster.begin(writer)


def _write_ops(
    tiles: _HeldTiles,
    analysis: ReductionAnalysis,
    cluster: Cluster | None,
    *,
    late: bool,
    packed: bool,
) -> None:
    """Writes all ops and stores.

    Args:
      tiles: the tiles of the kernel.
      analysis: the region.
      cluster: the CTAs that share a row, if several do.
      late: whether each value is computed just before its first user.
      packed: whether values are computed again from packed rows after each reduction.
    """
    group: Sequence[ir.Operation] = analysis.group
    if late:
        group = late_order(group, analysis.results, recompute=packed)
    unstored = dict(enumerate(analysis.results))
    for op in group:
        if reduces(op):
            _reduce(tiles, op, analysis.reductions[op], cluster)
            if packed:
                tiles.pack(tiles.tile(op.results[0]))
        else:
            tiles.elementwise(op)
        # At once: registers do not hold two results of a long row.
        for index in [index for index, value in unstored.items() if value.owner == op]:
            value = unstored.pop(index)
            tiles.store(f"y{index}", value, tiles.written_axes(value))


class _HeldTiles(RowTiles):
    """The tiles of a kernel that holds rows in registers."""

    def pack(self, reduced: str) -> None:
        """Lets later ops read the rows from the registers of their loads.

        Args:
          reduced: the tile that the rows were reduced to.
        """
        for (value, axes), name in self._loaded.items():
            if spans_rows(axes):
                text = f"library.packed({name}, {reduced})"
                self._loaded[value, axes] = self.body.name(text)


def _reduce(
    tiles: RowTiles, op: ir.Operation, reduction: Reduction, cluster: Cluster | None
) -> None:
    """Reduces all columns of each row."""
    mask = tiles.space.groups[COLUMN].mask or "column >= 0"
    all_reduce = None if cluster is None else cluster.all_reduce
    row_reductions.write(tiles, op, reduction, mask, all_reduce)
