"""Configurations of scan kernels: computed from the device, or measured."""

from __future__ import annotations

import dataclasses
import math

from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.codegen.loop_nest import tile_width
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.matmul.cost_model import vector_bytes
from mlirfuse.kernels.matmul.problem import VECTOR_BYTES
from mlirfuse.kernels.scan.problem import ScanConfig, ScanProblem
from mlirfuse.targets.base import GpuDevice, Target

TILE_ELEMENTS = 2048
"""Elements of a tile: 16 for each of 128 threads, of which each scans its own first."""

ELEMENTS_PER_THREAD = 16

ROWS_ELEMENTS = 1024
"""Elements of a tile of whole rows. On an H100 cumulative sums of 191688 rows of 75 took 62 us in
tiles of 512 or 1024 elements, 88 of 2048, and 165 in blocks of 16 columns, which mask fewer."""

LONG_ROW_ELEMENTS, LONG_ROW_WARPS, MAX_ROW_PADDING = 4096, 4, 1.6
"""Elements of a whole row in a tile at most, its warps, and elements with padding for each one of
it, at most. On an H200 sums of 2000 rows of 3000 f32 took 11.4 us so, and 12.9 in blocks of 1024;
of the cosines of 1456 rows of 2931 24.5 and 48.4."""

FEW_ROW_COLUMNS, FEW_ROW_WARPS = 1024, 4
"""Columns and warps of the blocks of longer rows that are so few that CTAs of as many warps do not
fill the device: on an H200 reversed sums of sigmoids of 712 rows of 6419 f32 took 63.6 us in blocks
of two rows by 512 columns and two warps, 33.6 so, and 57.1 in blocks of 2048 columns."""

WARP_COLUMNS, MIN_WARP_ROWS = 1024, 2
"""Columns of rows that one warp scans, which waits for no other, and rows of such a warp, whose
loads overlap: on an H200 sums of 191688 rows of 75 f16 took 22.9 us with one warp and 32.8 with
two; of 45680 rows of 593 bf16 39.1 us with two rows of one warp, 54.0 with one, and 63.5 with one
row of two warps. There are `CTAS_PER_SM` of them, too: of 5717 rows of 57 bf16 4.9 us in warps of
16 rows, and 2.5 in those of eight or four."""

STRIDED_COLUMNS, STRIDED_WARPS, STRIDED_CTAS_PER_SM = 32, 2, 8
"""Columns and warps of the blocks of a scan that is not along the contiguous dimension, and their
CTAs on each SM. On an H200 sums of 1208 columns of 2048 f32 took 10.9 us so, and 16.0 in blocks of
64 by four warps; log-sum-exps 46 and 95 us; sums along the middle of 8x3000x128 bf16 11.5 and
20.1."""

FEW_SCANS = 2
"""Times that a tile has as many threads where scans are so few that it has those of some places
alone, which are less than a line side by side, but adjacent in memory. On an H200 products of 512
places of 121 by 8 bf16 took 2.4 us by four warps, 2.9 by two, and 9.3 in parts of blocks of 32 by
64."""

MAX_FEW_ELEMENTS, MIN_FEW_LANES = 1 << 20, 4
"""Elements up to which scans are not split if a tile holds that many whole ones: the second kernel
takes longer than loads of parts of lines. On an H200 sums along the middle of 64x250x16 bf16 took
2.1 us so and 7.0 in parts of blocks of 32 by 64, of 128x500x6 f16 2.6 and 5.8."""

LANE_BYTES = 128
"""Bytes of a tile along the dimensions after the scanned one: a line of the cache."""

HALF_LINE_CTAS_PER_SM = 4
"""CTAs of half lines on each SM from which a strided scan is not split, which would compute what is
in front of it twice. On an H200 sums of 17024 columns of 558 f32 took 34.1 us in two parts and 21.9
in half lines, of their softplus 60.7 and 33.7, log-sum-exps of 9000 columns of 600 110.9 and 87.6;
but sums of 5000 columns of 1000 f16, 1.2 CTAs on each SM, 17.3 and 26.6."""

MIN_SERIAL_SCANS, SERIAL_ROWS, MAX_SERIAL_SHARE = 16, (8, 7, 6, 5), 5
"""Strided scans from which threads walk along their own; rows that are loaded together, those that
divide a scan first; and parts of a scan, in square roots of its blocks, at most: a CTA combines the
totals of all parts before its own, and a block of rows takes 1.5 times as long as eight totals. On
an H200 log-sum-exps of 896 columns of 6208 bf16 took 389 us in blocks of 32 rows and 64 columns,
whose totals 371 are of, and 35.5 so; of 200 of 16x300 f32 26.5 and 11.3, of 9000 of 600 88 and 50,
of 3000 of 64x20 33 and 12.5."""

CTAS_PER_SM = 4
"""CTAs on each SM that hide the latency from block to block of a scan; below, scans are split."""

MIN_BLOCKS_PER_SEGMENT = 2
"""Blocks of a part of a strided scan, at least: the totals of the parts take a launch."""

MAX_TOTALS = 8192
"""Totals of parts in a tile, at most: each CTA scans those of all parts."""

MAX_WARPS, MAX_WIDE_WARPS = 32, 16
"""Warps of a CTA at most; of one whose elements have 64 bits, and take twice the registers.

Parts of scans of 64 bits have the fewest warps: with Triton 3.6, the second kernel of 100 sums of
5000 i64 took 17 ms on an H200 in two parts of one block by eight warps, right but as of one thread,
and 5 us by four. Why is not known.
"""

PIPELINED_TILES = 4
"""Tiles in shared memory while a CTA walks along a scan: the next two blocks, of two operands."""

BLOCK_CYCLES = 1100
"""Cycles from one block of a scan to the next: its loads, and the scan of its warps."""

WARP_CYCLES = 20
"""Cycles that each pair of a block's warps adds: they scan their totals in shared memory. Fitted to
an H200: 256 sums of 20000 f16 took 10.8, 8.9 and 14.2 us in blocks of 4, 8 and 16 warps; 16
products of 47467 30.6 us in three blocks of 32 warps, and 7.5 in 32 parts of one of 4 warps."""

WIDE_CYCLES, SCALAR_CYCLES = 1, 1
"""Cycles that each element of a block adds that has 64 bits, and that is loaded alone, since rows
are not aligned. On an H200 32 sums of 11655 f32 took 11.6 us in six blocks of 2048 by four warps,
7.5 in three of 4096 by eight, and 4.4 and 4.1 in six and three parts; counts of truths 22.2, 16.5
and 5.1; 100 counts of 5000 5.6 us in three blocks, and 4.3 in three parts."""

MAX_MASKED = 0.3
"""Masked columns of a block of the largest size above which half of the warps have it: on an H200
counts of 7040 rows of 1054 truths bf16 took 34.9 us by four warps and 26.8 by two, sums of 9000
rows of 1100 f16 12.4 and 10.9, of 1300 f32 23.7 and 23.5."""

LAUNCH_CYCLES = 4000
"""Cycles until a kernel that waits for the one before begins: 2.3 us at 1.7 GHz."""


def choose_config(problem: ScanProblem, target: Target) -> ScanConfig:
    """The nearest measured configuration, else the computed one."""
    return lookup.choose(target, problem, ScanConfig, default_config)


def default_config(problem: ScanProblem, target: Target) -> ScanConfig:
    """The configuration computed from the problem and the device.

    Tiles have a line of the cache along the contiguous dimension, and more of it where scans are
    short; scans that leave SMs idle are split.
    """
    gpu = gpu_of(target)
    if problem.inner == 1:
        return _contiguous(problem, gpu)
    if problem.long and problem.outer * problem.inner >= MIN_SERIAL_SCANS:
        return _serial(problem, gpu)
    wanted = LANE_BYTES * 8 // problem.element_bits
    longest = TILE_ELEMENTS // min(TILE_ELEMENTS, power_of_two(problem.columns))
    # Fewer scans than a line side by side: a tile has those of several places before theirs.
    scans = problem.inner if problem.inner >= wanted else problem.outer * problem.inner
    lanes = min(max(wanted, longest), power_of_two(scans))
    busy, columns = gpu.num_sms * CTAS_PER_SM, power_of_two(problem.columns)
    place = min(wanted, power_of_two(problem.inner))
    whole = columns * place <= TILE_ELEMENTS
    while lanes > (place if whole else wanted) and _ctas(problem, lanes) < busy:
        lanes //= 2
    if whole and lanes < wanted:
        return ScanConfig(columns, lanes, _num_warps(FEW_SCANS * columns * lanes, gpu))
    if lanes == wanted and TILE_ELEMENTS // lanes < problem.columns <= 2 * TILE_ELEMENTS // lanes:
        # One block of half lines: 147944 sums of 37 bf16 took 13 us on an H200, not 25.
        lanes //= 2
    columns = min(TILE_ELEMENTS // lanes, power_of_two(problem.columns))
    if problem.columns <= columns:
        return ScanConfig(columns, lanes, _num_warps(columns * lanes, gpu), 1)
    columns = min(STRIDED_COLUMNS, columns)
    blocks = -(-problem.columns // columns)
    parts = -(-gpu.num_sms * STRIDED_CTAS_PER_SM // _ctas(problem, lanes))
    segments = min(parts, blocks // MIN_BLOCKS_PER_SEGMENT, MAX_TOTALS // lanes)
    warps = min(STRIDED_WARPS, _num_warps(columns * lanes, gpu))
    scan, elements = power_of_two(problem.columns), problem.columns * problem.outer * problem.inner
    if segments > 1 and scan * MIN_FEW_LANES <= TILE_ELEMENTS and elements <= MAX_FEW_ELEMENTS:
        return ScanConfig(scan, TILE_ELEMENTS // scan, _num_warps(TILE_ELEMENTS, gpu))
    half = lanes // 2
    if segments > 1 and lanes == wanted <= problem.inner:
        per_sm = _ctas(problem, half) // gpu.num_sms
        if per_sm >= HALF_LINE_CTAS_PER_SM:
            return ScanConfig(columns, half, 1 if per_sm >= STRIDED_CTAS_PER_SM else warps)
    return ScanConfig(columns, lanes, warps, max(1, segments))


def _serial(problem: ScanProblem, gpu: GpuDevice) -> ScanConfig:
    """The configuration of scans that threads walk along, in parts that fill the device."""
    lanes = max(gpu.warp_size, LANE_BYTES * 8 // problem.element_bits)
    lanes = min(lanes, power_of_two(problem.outer * problem.inner))
    rows = next((n for n in SERIAL_ROWS if problem.columns % n == 0), SERIAL_ROWS[0])
    blocks, ctas = -(-problem.columns // rows), _ctas(problem, lanes)
    parts = -(-gpu.num_sms * STRIDED_CTAS_PER_SM // ctas)
    most = MAX_SERIAL_SHARE * math.isqrt(blocks)
    segments = min(parts, blocks // MIN_BLOCKS_PER_SEGMENT, most)
    return ScanConfig(rows, lanes, 1, max(1, segments), serial=True)


def _ctas(problem: ScanProblem, lanes: int) -> int:
    """CTAs with so many strided scans each."""
    if lanes > problem.inner:
        return -(-problem.outer * problem.inner // lanes)
    return problem.outer * -(-problem.inner // lanes)


def _contiguous(problem: ScanProblem, gpu: GpuDevice) -> ScanConfig:
    """The configuration of scans along the contiguous dimension."""
    columns = power_of_two(problem.columns)
    many = problem.outer >= gpu.num_sms * CTAS_PER_SM
    whole = TILE_ELEMENTS < columns <= min(LONG_ROW_ELEMENTS, MAX_ROW_PADDING * problem.columns)
    if many and whole and problem.element_bits <= 32:
        return ScanConfig(columns, 1, LONG_ROW_WARPS)
    if columns > TILE_ELEMENTS and many:
        if problem.outer * FEW_ROW_WARPS < _resident_warps(gpu):
            return ScanConfig(FEW_ROW_COLUMNS, 1, FEW_ROW_WARPS)
        columns = tile_width(problem.columns, TILE_ELEMENTS)
    elif columns > TILE_ELEMENTS:
        return min(_long(problem, gpu), key=lambda config: _cycles(problem, config, gpu))
    by_warp = columns <= WARP_COLUMNS and problem.outer >= gpu.num_sms * gpu.warp_size
    least = MIN_WARP_ROWS if by_warp else 1
    lanes = min(max(least, ROWS_ELEMENTS // columns), power_of_two(problem.outer))
    while lanes > 1 and problem.outer < lanes * gpu.num_sms:
        lanes //= 2
    while lanes > least and by_warp and problem.outer < lanes * gpu.num_sms * CTAS_PER_SM:
        lanes //= 2
    warps = 1 if by_warp else _num_warps(columns * lanes, gpu)
    if columns == TILE_ELEMENTS and columns - problem.columns > MAX_MASKED * columns:
        warps //= 2
    return ScanConfig(columns, lanes, warps)


def _num_warps(elements: int, gpu: GpuDevice) -> int:
    """The warps of a tile of so many elements."""
    return max(1, min(4, elements // ELEMENTS_PER_THREAD // gpu.warp_size))


def _long(problem: ScanProblem, gpu: GpuDevice) -> list[ScanConfig]:
    """The configurations of few and long scans: tiles of a CTA, and parts of a scan."""
    found, least = [], _num_warps(TILE_ELEMENTS, gpu)
    most = MAX_WARPS if problem.element_bits <= 32 else MAX_WIDE_WARPS
    for warps in (least << n for n in range((most // least).bit_length())):
        columns = warps * gpu.warp_size * ELEMENTS_PER_THREAD
        blocks, pipelined = -(-problem.columns // columns), PIPELINED_TILES * columns
        fits = pipelined * problem.element_bits // 8 <= gpu.shared_memory_per_cta
        if blocks > 1 and warps > least and not fits:
            continue
        filling = _resident_warps(gpu) // (warps * problem.outer)
        parts = {1, max(1, min(blocks, filling))} | {-(-blocks >> n) for n in range(16)}
        found += [
            ScanConfig(columns, 1, warps, segments)
            for segments in sorted(parts)
            if 1 <= segments <= min(blocks, MAX_TOTALS)
            and (segments == 1 or warps == least or problem.element_bits <= 32)
        ]
    return found


def _resident_warps(gpu: GpuDevice) -> int:
    """Warps that registers leave the device at a time: half of what it can have."""
    return gpu.num_sms * gpu.max_threads_per_sm // gpu.warp_size // 2


def _cycles(problem: ScanProblem, config: ScanConfig, gpu: GpuDevice) -> int:
    """An estimate of the cycles of all kernels of a long scan."""
    block = BLOCK_CYCLES + WARP_CYCLES * config.num_warps**2
    block += WIDE_CYCLES * config.block_columns if problem.element_bits > 32 else 0
    if problem.outer > 1 and vector_bytes(problem.columns, 32) < VECTOR_BYTES:
        block += SCALAR_CYCLES * config.block_columns
    blocks = -(-problem.columns // config.block_columns)
    waves = -(-problem.outer * config.segments * config.num_warps // _resident_warps(gpu))
    kernel = LAUNCH_CYCLES + waves * -(-blocks // config.segments) * block
    if config.segments == 1:
        return kernel
    # The second kernel scans the totals of the first one.
    return 2 * kernel + waves * -(-config.segments // config.block_columns) * block


def configs(problem: ScanProblem, target: Target) -> list[ScanConfig]:
    """The configurations that the tuner measures, with the default first."""
    default = default_config(problem, target)
    found = [default]
    for columns in (default.block_columns // 2, default.block_columns * 2):
        for warps in (2, 4, 8):
            if 16 <= columns <= 2 * power_of_two(problem.columns):
                found.append(dataclasses.replace(default, block_columns=columns, num_warps=warps))
    found += [dataclasses.replace(default, num_warps=warps) for warps in (1, 2, 4, 8)]
    return list(dict.fromkeys(found))
