"""Computed configurations: whole rows in registers, or loops over their columns.

`default_config` of `heuristics` distributes rows whose columns are contiguous and fit registers.
This module decides about all others:

    few columns, of which only numbers are left, or whose rows are innermost:          in threads
    columns innermost, more than registers hold, or few rows of which little is left,
        or in several runs without vectors:                                            loop
    rows innermost, one pass and no result with columns:                               loop
    rows innermost, runs of less than a sector, results with columns:                  small tiles
    rows innermost, else: tiles of all columns, as many contiguous rows as fit registers; or loop

Registers would hold elements of several runs at an index of their own each: on an H200 a batch norm
of 64x100x3001 f16 took 150 us so and 60 in loops, of 256x512x49 54 and 18, of 32x96x75x75 f32 133
and 68.

Where a tensor has columns innermost and the others rows, no thread has all columns of a row: each
load of one column would take as many lines as rows. An RMS norm over eight channels of 256 images
of 37x37 bf16 with such a residual took 29 us so on an H200, and 8.2 in tiles of all columns, whose
loads have a layout each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mlirfuse.kernels.codegen.combiners import COMBINERS
from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.codegen.loop_nest import VECTOR
from mlirfuse.kernels.configs.device import SECTOR_BITS, gpu_of
from mlirfuse.kernels.reduction.cost_model import loads_scalars, loops_us
from mlirfuse.kernels.reduction.distribution import MAX_COLUMNS, max_columns
from mlirfuse.kernels.reduction.problem import ReductionConfig, ReductionProblem
from mlirfuse.targets.base import GpuDevice, Target

LOOP_ELEMENTS_PER_THREAD = (16, 8, 4)
"""Elements of a tensor that a thread may load in one iteration: 64 bytes of f32, or 16 at least."""

LOOP_WARPS = 8
"""Warps of a CTA that loops over columns. Where rows of several tensors are loaded one by one,
threads have half of the elements: on an H200 the dot products of seven pairs of rows of 885529 f32
took 20.0 us with four warps and 14.4 with eight, of 1000000, whose loads are vectors, 16 to 17."""

LARGE_ELEMENTS = 16384
"""Elements for each SM from which threads of such loops have the most elements: `any` of the sums
of those rows took 14.9 us so, and 22.9 in tiles of half as many elements and twice the iterations.
Threads that load vectors have at least half of them: the variance of 53 million f16 took 60.9 us
with four elements of a thread, 50.3 with eight and 47.6 with 16; of contiguous rows squares of two
of 120 million bf16 69.5, 67.3 and 57.9, the largest tangent of 27 million f32 41.9, 36.3 and 32.7,
but sums of 60 million f16 32.3, 32.4 and 35.6."""

UNALIGNED_WARPS, UNALIGNED_ELEMENTS = 8, 2
"""Warps of a CTA, and rows of a thread at most, where columns do not start at sectors: on an H200
`any` of eight rows of 3481869 f32 took 55 us so, and 89 with four rows in a thread, the sum of six
rows of 3000001 f16 12.2 us, and 17.2 with eight."""

MIN_CONTIGUOUS_ROWS = 16
"""The same where all columns are in registers: 32 bytes of f16, one sector."""

LINE_BITS = 1024
"""Bits of the contiguous rows of a tile, a line of the caches. On an H200 softmax
over the first dimension of 2048x161 f32 took 6.5 us in a loop over tiles of one line of rows, and
15.2 with two, of 4000x160 6.9 and 10.2, the variance of 5000x300 6.5 and 7.5."""

SHORT_LINE_BITS = 512
"""The same where all columns of a line are too many for `TILE_ELEMENTS`: two sectors, which memory
moves together. On an H100 an RMS norm over 320 channels of four images of 16384 f16 took 37.6 us
with one sector and 33.0 with two, over 768 of sixteen of 1024 24.1 and 19.9."""

UNALIGNED_LINES = 4
"""Lines where columns do not start at sectors, so that the ends of a tile are loaded twice: an RMS
norm over 256 channels of 53 images of 82x82 f32 took 358 us with one line and 257 with four."""

WRITTEN_LINES, MIN_WRITTEN_RUN = 4, 256
"""Lines of a tile of a loop that writes more of f32 than the L2 cache holds, in runs of so many
rows at least and no whole lines, and times as many partial results as otherwise: a line of the
result is written at once. On an H200 the differences from their mean of 57856 rows of 856 took 196
us in tiles of one line, 230 in those of four by as many CTAs, and 173 with three times as many
parts (torch.compile 154); 64 times 4000 rows of 300 495 and 228 us (360); but 500000 rows of 100
153 and 207, 200000 of 777 f16 261 and 359."""

TILE_WARPS, MAX_TILE_WARPS = 4, 16
"""Warps of a tile with all columns: as few as hold it, so that most of a column is reduced within
threads. On an H200 RMS norms over 104 channels of 256 images of 80 pixels, f32, took 8.2 us with 16
warps and 5.7 with four; softmax over 64 channels of 16 images of 1024, f16, 7.3 and 3.6 us; a layer
norm over 320 channels of four images of 4096 12.0 us with 16 warps and 8.7 with eight."""

TILE_ELEMENTS_PER_THREAD = 64
"""Elements of such a tile in a thread, at most; half of them where it reads several tensors."""

MIN_TILE_ELEMENTS, TILE_ELEMENTS = 2048, 16384
"""Elements of such a tile, unless it has few rows, and unless it has many columns."""

MIN_THREAD_ELEMENTS = 4
"""Elements of a thread of a tile of few rows and columns."""

MAX_STREAMED_COLUMNS = 2048
"""Columns up to which such tiles are for sums, too: the mean over 1072 rows of 788 bf16 took 2.6 us
on an H200, and 7.7 in splits of the columns; over 392 of 9x690 f16 3.4 and 6.5. Rows that fill the
device without splits are for loops: the sum over 637 of 196352 f32 took 171 us in tiles and 112 in
a loop, of their cosines 203 and 152, of sines of 300 of 100000 f16 43 and 34."""

SPLIT_WARPS = 4
"""Warps of a loop over contiguous rows."""

MAX_ROW_SPLITS, MAX_SINGLE_SPLITS, MIN_SPLIT_ITERATIONS = 256, 512, 16
"""Partial results of contiguous rows for each of several sums, which are some way apart in memory:
the variance of 9749 rows of 64 bf16 took 17.9 us on an H200 with 610 of them, and 7.8 with 102; of
20000 rows of 40 f32 8.4 with 313 and 7.1 with 105. Of one sum 1024 are combined in 2 to 3 us, and
an iteration less saves 0.8: log-sum-exp of 41379 rows of 22 f16 took 11.7 us with 108, 7.4 with
324, and of 8000 rows of 100 bf16 11.2 with 125, 9.2 with 250. There are more
where each is of so many tiles: squares of 1358875 rows of 69 f32 took 222 us with 256 and 107 with
1024; the position of the largest of 1950920 rows of four f16 47 us with 128 and 18 with 512."""

MAX_IDLE_SHARE, MIN_SHARED_COLUMNS = 4, 1024
"""SMs for each CTA of such tiles from which loops share columns, where there are more than so many:
three quarters of the device are idle otherwise."""

MAX_CTAS_PER_SM = 8
"""CTAs of `LOOP_WARPS` warps that an SM may hold."""

WARPS_PER_SM = 2 * LOOP_WARPS
"""Warps of the CTAs of all rows for each SM from which CTAs share none: those of four warps need as
many as those of eight. On an H200 the largest of GELUs of 9984 rows of 4544 f32 took 194 us in 312
CTAs of four warps, and torch.compile's kernels of parts of rows 74."""

MAX_SPLITS = 1024
"""Partial results of a row that one CTA combines."""

MAX_PARTIALS = 8192
"""Partial results of all its rows that a CTA combines before it reads their columns again: 32
registers of each of 256 threads."""

MIN_ITERATIONS = 2
"""Iterations of a split at least."""

MAX_UNROLLED_COLUMNS = 16
"""Columns that a thread reduces alone, where adjacent rows are adjacent in memory: its lanes load
whole sectors of each column, and nothing is exchanged between threads."""

MAX_LONG_UNROLLED_COLUMNS, LONG_UNROLLED_ROWS, UNROLLED_CTAS_PER_SM = 64, 2, 4
"""The same of many rows, of which a thread has so many and a warp is a CTA, at least so many of
which there are for each SM. On an H200 the largest of 32 of 1019392 rows f16 took 17 us so, 28 in a
loop, and 47 in tiles of all columns; the mean of 48 of 96000 rows bf16 3.8 us and 10.3; the sum of
20 of 639936 rows f32 14.4 both. Each tensor, and each reduction, counts: the deviation of 24
products of two f16 of 1122880 rows took 312 us so, where 118 are possible."""

MAX_STRIDED_COLUMNS = VECTOR - 1
"""The same where a row is contiguous: the lanes of a load are one row apart, so each column's load
takes as many lines of L1 as all columns together have."""

MAX_WRITTEN_COLUMNS = 8
"""The same where the columns are written, whose values then stay in registers."""

MAX_WRITTEN_RUN_COLUMNS, MAX_RUN_COLUMNS = 4, 1024
"""Written columns that a thread has alone, and that a tile of small ones has, where contiguous rows
are a sector at most. The lanes of a load are then as far apart as their columns are many: softmax
over eight pairs of 200000 f32 took 21.1 us on an H200 so, and 11.6 in tiles."""

RUN_ELEMENTS, RUN_WARPS, MIN_RUN_ROWS, MAX_RUN_ROWS = 512, 2, 8, 64
"""Elements, warps and rows of such tiles: rows of few runs are near each other in memory, and half
of a CTA's lanes wait less. On an H200 softmax over 14 pairs of 40000 f32 took 9.3 us in tiles of
128 rows by four warps, 5.7 of 64 by four, 3.8 of 32 by two and 4.5 of 16; over 30 of 16000x5 f16
13.0, 12.1, 10.6 and 6.6; over 100 of 6000x3 f32 20.3 us, and 5.1 of eight rows by two warps. CTAs
of one warp and 128 elements are started no faster than one each 0.65 ns. Odd runs of 16 bits have
twice the warps: over six of 200000x3 f16 11.4 and 7.6 us, over 30 of 16000x5 6.6 and 5.8."""

VECTOR_RUN, VECTOR_RUN_ELEMENTS = 4, 1024
"""Rows from which a load has vectors of a run, and elements of the tile of such a thread. One warp
then has all columns of its rows, which several would exchange by shared memory: a layer norm over
24 of 40000x8 f16 took 38.8 us by four warps, 15.9 by two and 8.4 by one; softmax over 24 of
40000x16 f16 58.6, 26.9 and 15.0, over 20 of 40000x8 f32 21.6, 14.3 and 12.3."""

MIN_SPLIT_COLUMNS = 8192
"""Columns up to which the CTA of a row is never too few."""


MAX_MASKED_NUMBERS, MIN_STREAMED_COLUMNS, MAX_STREAMED_SHARE = 0.3, 4096, 1.25
"""Masked lanes of a row of which a number is left, of all lanes that would hold it, above which a
loop reads it, and its columns at least; and the share by which tiles of the loop may read more than
smaller ones. On an H200 the largest of 17664 GELUs, 2000 times, took
45.8 us in 32768 lanes and 33.2 in a loop, of 5504 f16, 8000 times, 23.3 and 20.3; sums of 17664
17.2 and 16.8, of 1400 bf16 12.2 and 14.0, positions of 9000 f32 26.9 and 30.6."""


def streamed_config(problem: ReductionProblem, gpu: GpuDevice) -> ReductionConfig | None:
    """A loop over rows that leave many lanes of a CTA masked; None for other rows.

    Args:
      problem: rows that registers hold, of which only numbers are left.
      gpu: the device.
    """
    masked = 1 - problem.columns / power_of_two(problem.columns)
    if masked < MAX_MASKED_NUMBERS or problem.columns < MIN_STREAMED_COLUMNS:
        return None
    if problem.passes > 1 or len(problem.combiners.split()) > 1:
        return None
    large, small = (_loop_tile(problem, n, gpu) for n in LOOP_ELEMENTS_PER_THREAD[:2])
    read = [_padded(problem.columns, tile.block_columns) for tile in (large, small)]
    loop = large if read[0] <= MAX_STREAMED_SHARE * read[1] else small
    return loop if _fills(problem, loop, gpu) else None


def has_cluster_forms(problem: ReductionProblem) -> bool:
    """Whether the CTAs of a cluster can reduce together: by combiners of floats."""
    return all(COMBINERS[name].cluster for name in problem.combiners.split())


def other_config(problem: ReductionProblem, target: Target) -> ReductionConfig | None:
    """The configuration of a problem that is not one of rows in registers; None where it is."""
    gpu = gpu_of(target)
    unrolled = MAX_UNROLLED_COLUMNS if problem.contiguous_rows > 1 else MAX_STRIDED_COLUMNS
    if problem.writes and problem.contiguous_rows > 1:
        short = problem.contiguous_rows * problem.operand_bits <= SECTOR_BITS
        unrolled = MAX_WRITTEN_RUN_COLUMNS if short else MAX_WRITTEN_COLUMNS
    mixed = problem.turned and problem.contiguous_rows > 1
    alone = not problem.writes or problem.contiguous_rows > 1
    if problem.columns <= unrolled and alone and not mixed:
        return _unrolled(problem, gpu)
    if _is_long_unrolled(problem, gpu):
        return _threads_of_rows(gpu.warp_size * LONG_UNROLLED_ROWS, LONG_UNROLLED_ROWS, 1)
    if problem.contiguous_rows > 1:
        return _of_contiguous_rows(problem, target)
    longest = max_columns(gpu) if has_cluster_forms(problem) else MAX_COLUMNS
    if problem.writes == 0 or problem.scattered:
        longest = MIN_SPLIT_COLUMNS
    return loop_config(problem, target) if problem.columns > longest else None


def _of_contiguous_rows(problem: ReductionProblem, target: Target) -> ReductionConfig:
    """The configuration of rows that are innermost in memory: tiles of all columns, or a loop."""
    gpu = gpu_of(target)
    if (found := _short_runs(problem, gpu)) is not None:
        return found
    loop = loop_config(problem, target)
    if problem.writes == 0 and len(problem.combiners.split()) == 1:
        many = problem.columns > MAX_STREAMED_COLUMNS
        if many or (loop.splits == 1 and _fills(problem, loop, gpu)):
            return loop
    return _all_columns(problem, gpu) or loop


def _unrolled(problem: ReductionProblem, gpu: GpuDevice) -> ReductionConfig:
    """A thread for each row, or for several where there are more than half of the device's."""
    elements, warps = VECTOR * 16 // problem.operand_bits, TILE_WARPS
    while elements > 1 and problem.rows < gpu.num_sms * gpu.max_threads_per_sm // 2 * elements:
        elements //= 2
    if problem.contiguous_rows * problem.operand_bits % SECTOR_BITS and elements > 1:
        warps, elements = UNALIGNED_WARPS, UNALIGNED_ELEMENTS
    while warps > 1 and problem.rows < gpu.num_sms * gpu.warp_size * warps * elements:
        warps //= 2
    return _threads_of_rows(gpu.warp_size * warps * elements, elements, warps)


def _is_long_unrolled(problem: ReductionProblem, gpu: GpuDevice) -> bool:
    """Whether threads reduce more columns alone: numbers of so many rows that all SMs are busy."""
    if problem.writes or problem.contiguous_rows == 1 or problem.passes > 1 or problem.turned:
        return False
    least = UNROLLED_CTAS_PER_SM * gpu.num_sms * gpu.warp_size * LONG_UNROLLED_ROWS
    held = problem.columns * problem.reads * len(problem.combiners.split())
    return held <= MAX_LONG_UNROLLED_COLUMNS and problem.rows >= least


def _threads_of_rows(rows: int, rows_per_thread: int, warps: int) -> ReductionConfig:
    """CTAs whose threads reduce rows of their own."""
    return ReductionConfig(
        rows, rows_per_thread, MAX_COLUMNS, block_rows=rows, block_columns=1, num_warps=warps
    )


def _short_runs(problem: ReductionProblem, gpu: GpuDevice) -> ReductionConfig | None:
    """Small tiles of written rows of which less than a sector is contiguous; None for others."""
    run, width = problem.contiguous_rows, power_of_two(problem.columns)
    if run * problem.operand_bits > SECTOR_BITS or width > MAX_RUN_COLUMNS:
        return None
    if not problem.writes or problem.turned:
        return None
    elements, warps = RUN_ELEMENTS, RUN_WARPS
    if run % 2 and problem.operand_bits == 16:
        warps *= 2
    if run % VECTOR_RUN == 0:
        elements, warps = VECTOR_RUN_ELEMENTS, 1
    height = min(max(MIN_RUN_ROWS, elements // width), MAX_RUN_ROWS)
    while height > MIN_RUN_ROWS and problem.rows < height * gpu.num_sms:
        height //= 2
    tile = height * width
    warps = max(warps, tile // elements)
    each = max(1, tile // (warps * gpu.warp_size))
    return ReductionConfig(tile, each, MAX_COLUMNS, block_rows=height, num_warps=warps)


def _all_columns(problem: ReductionProblem, gpu: GpuDevice) -> ReductionConfig | None:
    """Tiles with all columns and some contiguous rows; None where registers do not hold them."""
    width, least = power_of_two(problem.columns), MIN_TILE_ELEMENTS
    if problem.rows * width < gpu.num_sms * gpu.max_threads_per_sm * VECTOR:
        least //= 2
    bits, most = problem.operand_bits, TILE_ELEMENTS
    line = LINE_BITS
    if problem.contiguous_rows * bits % SECTOR_BITS:
        line, most = UNALIGNED_LINES * line, 2 * most
    height = min(max(line // bits, least // width), power_of_two(problem.rows))
    each = TILE_ELEMENTS_PER_THREAD // (2 if problem.reads > 1 else 1)
    held = each * MAX_TILE_WARPS * gpu.warp_size
    while height > MIN_CONTIGUOUS_ROWS and (
        problem.rows < height * gpu.num_sms
        or height * width > (held if height * bits <= SHORT_LINE_BITS else min(held, most))
    ):
        height //= 2
    tile = height * width
    warps = max(TILE_WARPS, -(-tile // (each * gpu.warp_size)))
    few = problem.rows * MAX_IDLE_SHARE < height * gpu.num_sms and width > MIN_SHARED_COLUMNS
    if warps > MAX_TILE_WARPS or few:
        return None
    while warps > 1 and tile < MIN_THREAD_ELEMENTS * warps * gpu.warp_size:
        warps //= 2
    elements = max(1, tile // (warps * gpu.warp_size))
    return ReductionConfig(tile, elements, MAX_COLUMNS, block_rows=height, num_warps=warps)


def loop_config(problem: ReductionProblem, target: Target) -> ReductionConfig:
    """A loop over tiles, and the CTAs that share the columns of a row: the fastest by the model.

    Tiles of fewer elements are for problems that larger ones leave SMs without a CTA.
    """
    gpu = gpu_of(target)
    large = problem.rows * problem.columns >= gpu.num_sms * LARGE_ELEMENTS
    sizes: Sequence[int] = LOOP_ELEMENTS_PER_THREAD
    if large:
        narrow = problem.reads == 1 and problem.operand_bits == 16
        first = 1 if narrow and problem.contiguous_rows > 1 else 0
        sizes = sizes[first : 1 if loads_scalars(problem) else 2]
    tiles = [_loop_tile(problem, n, gpu) for n in sizes]
    found = [
        dataclasses.replace(tile, splits=splits)
        for tile in dict.fromkeys(tiles)
        for splits in _splits(problem, tile, gpu_of(target))
    ]
    return min(found, key=lambda config: loops_us(problem, config, target))


def _loop_tile(problem: ReductionProblem, elements: int, gpu: GpuDevice) -> ReductionConfig:
    """The tile of a loop whose threads load so many elements of a tensor at a time."""
    warps = LOOP_WARPS if problem.contiguous_rows == 1 else SPLIT_WARPS
    tile = warps * gpu.warp_size * elements
    if problem.reads > 1:
        tile //= 2
    if problem.contiguous_rows > 1:
        run = power_of_two(problem.contiguous_rows)
        height = min(LINE_BITS // problem.operand_bits, power_of_two(problem.rows))
        height = min(height, max(run, MIN_CONTIGUOUS_ROWS // 2)) if run < height else height
        padded = _padded(problem.rows, height)
        if _writes_parts_of_lines(problem, gpu):
            height = min(WRITTEN_LINES * height, power_of_two(problem.rows))
        narrow = problem.operand_bits == 16
        if narrow and problem.rows < padded == _padded(problem.rows, 2 * height):
            height *= 2  # As many lanes without a row, in half of the tiles.
        width = min(tile // height, power_of_two(problem.columns))
        # Of few columns as many contiguous rows as leave each SM a tile.
        while (
            height * width < tile and 2 * height <= run and 2 * height * gpu.num_sms <= problem.rows
        ):
            height *= 2
    else:
        width = min(tile, power_of_two(problem.columns))
        height = min(max(1, tile // width), power_of_two(problem.rows))
    if loads_scalars(problem):
        elements //= 2
    num_warps = min(warps, max(1, height * width // (gpu.warp_size * elements)))
    return ReductionConfig(
        height * width,
        elements,
        MAX_COLUMNS,
        block_rows=height,
        block_columns=width,
        num_warps=num_warps,
    )


def _writes_parts_of_lines(problem: ReductionProblem, gpu: GpuDevice) -> bool:
    """Whether adjacent tiles of one line of rows write parts of the same lines of large results."""
    run, size = problem.contiguous_rows, problem.rows * problem.columns * 4
    if problem.operand_bits != 32 or run < MIN_WRITTEN_RUN or run * 32 % LINE_BITS == 0:
        return False
    return problem.writes > 0 and size > gpu.l2_bytes


def _padded(count: int, size: int) -> int:
    """The smallest multiple of a size that is not below a number."""
    return -(-count // size) * size


def _fills(problem: ReductionProblem, tile: ReductionConfig, gpu: GpuDevice) -> bool:
    """Whether rows are so many that CTAs that share none of them fill the device."""
    num_blocks = -(-problem.rows // tile.block_rows)
    return num_blocks * tile.num_warps >= WARPS_PER_SM * gpu.num_sms


def _splits(problem: ReductionProblem, tile: ReductionConfig, gpu: GpuDevice) -> list[int]:
    """Numbers of CTAs that may share a row: none shares one of many rows."""
    if _fills(problem, tile, gpu):
        return [1]
    num_blocks = -(-problem.rows // tile.block_rows)
    per_row, most = -(-problem.columns // tile.block_columns), MAX_SPLITS
    if problem.writes or problem.passes > 1:
        more = WRITTEN_LINES if _writes_parts_of_lines(problem, gpu) else 1
        most = min(most, more * MAX_PARTIALS // tile.block_rows)
    if problem.contiguous_rows > 1:
        sums = problem.combiners.count("arith.add")
        fewer = MAX_SINGLE_SPLITS if sums <= 1 else MAX_ROW_SPLITS // len(problem.combiners.split())
        most = min(most, max(fewer, per_row // MIN_SPLIT_ITERATIONS))
    wanted = {count * gpu.num_sms // num_blocks for count in range(1, MAX_CTAS_PER_SM + 1)}
    # Splits of whole tiles: as many as leave each the same number of them.
    sizes = {-(-per_row // max(1, min(splits, per_row, most))) for splits in wanted}
    return sorted({1, *(-(-per_row // size) for size in sizes)})
