"""Configurations of matmuls, computed from the problem and the device.

The default of large M minimizes a model of time, `cost_model`. A small M is bound by the loads of B
instead: its tiles keep enough bytes in flight on every SM. Stages of software pipelines follow from
shared memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from mlirfuse.kernels.codegen.dot_precision import uses_warpgroups
from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.matmul import few_rows, tile_shapes
from mlirfuse.kernels.matmul.cost_model import (
    LAUNCH_COST,
    fills_device,
    num_ctas,
    row_of_a,
    row_of_b,
    stage_bytes,
    time,
    vector_bytes,
)
from mlirfuse.kernels.matmul.problem import (
    LINE_BYTES,
    MAX_STREAMED_M,
    MIN_DOT_M,
    MIN_STREAMED_M,
    VECTOR_BYTES,
    MatmulConfig,
    MatmulProblem,
)
from mlirfuse.kernels.matmul.stages import (
    MAX_ACCUMULATORS_PER_THREAD,
    shared_stages,
    shares_sm,
    stages_that_fit,
)
from mlirfuse.targets.base import Target

C = TypeVar("C", bound=MatmulConfig)

SHORT_K = 64
"""K up to which the epilogue takes longer than the products; half of the accumulators leave its
functions enough registers: on an H200 `log1p(x @ w)` of 28x1120x32 and 32x256 bf16 took 34 us with
128 of them in a thread, and 16 with 64. Half of these where rows of the result are not aligned, so
that each element is an access of its own: 2x3392x1651x16 f16 with a gate took 55 us with 64, and 44
with 32."""

MIN_SPLIT_BYTES = 512
"""Bytes of a row of an operand along K that are worth a CTA of their own, at least: four blocks,
which fill a pipeline."""

MIN_LONG_SPLIT_K, MIN_F32_SPLIT_K = 1024, 256
"""The same where small tiles fill the device without a split, which then allows larger ones: on an
H200 304x5000x704 f16 took 20.7 us in tiles of 64 by 32, and 10.8 in four parts of tiles of 64 by
128; 1000x8192x1000 59 in those of 64 by 128, and 39 in four parts of those of 128 by 256. And of
f32 with a longer K, where those of a tile leave SMs idle: 512x1200x512 took 21.0 us in parts of
1024 or more, and 17.9, 300x1500x700 28.3 and 22.4, 3x3 over 256 channels of 16x16 pixels 21.6 and
17.2, over 81 of 8x15x15 51 and 26, a transposed 7x7 over 81 of 8x8x8 67 and 24; but 200x900x1000
17.9, and 24.9 in parts."""

MIN_SAVED, MIN_SAVED_OF_16 = 0.2, 0.25
"""Share of the modelled time that one more kernel has to save: the model's error, an estimate. Of
operands of 16 bits the model has 23 % for 768x3072x768 in parts of K, which took longer."""

MIN_SAVED_BY_COPIES = 4 * LAUNCH_COST
"""Modelled time that a copy of operands saves at least: the latency of narrow loads, which is most
of it, was measured for operands in memory alone."""

LARGEST_OF_WARPGROUP = 128 * 128
"""Elements of a tile of which a warpgroup holds 128 in each thread."""

SMALLEST_TILE = MatmulConfig(64, 32, 64, 4, 1)
"""The smallest tile that is efficient."""

MAX_STAGES = 8
"""Stages of a software pipeline, beyond which latency is hidden."""

FEW_BLOCKS = 4
"""Blocks of K up to which the elements that the last one masks count: on an H200 844x1664x84 f32
took 12 us in tiles of 64 by 64 with blocks of 32, which are 96 of K."""

MAX_SHARED_STAGES = 4
"""Stages of tiles of which an SM has several, so that they all have room."""

THIN_TILE, MAX_THIN_N, MAX_THIN_K = MatmulConfig(64, 16, 128, 4, 1), 32, 224
"""Tiles of one or two blocks of a short K, whose N is that of B: no loop of one, and no pipeline.
On an H200 130368x72x8 bf16 took 9.7 us so, 10.8 in tiles of 128 rows by four warps, 11.1 in those
of 128x32, and 20.1 in three blocks of 32; torch.compile's kernel 15.3. 200000x64x16 f16 took 9.1 us
so, and 10.8 as before; 500000x33x5 26.2, 43.3 as before, and 37.4 with a copy of A; 118448x136x8
15.7 in two blocks, 16.2 in one, and 22.8 in tiles of 128x32 with five of 32; 40000x200x16 7.0 and
11.8, but 100000x256x8 26.6 and 20.3."""

_BLOCK_BYTES = 128
"""Bytes along K of a block: a row of shared memory without bank conflicts."""


def has_room(config: MatmulConfig, problem: MatmulProblem, target: Target) -> bool:
    """Whether registers and shared memory hold the tiles of `tl.dot` of all accumulators."""
    gpu = gpu_of(target)
    if config.consumer_warpgroups or config.weight_streaming or config.block_m == 1:
        return True
    per_thread = config.block_m * config.block_n * problem.accumulators
    per_thread //= config.num_warps * gpu.warp_size
    shared = stage_bytes(config, problem) * config.num_stages
    return per_thread <= max_accumulators(problem) and shared <= gpu.shared_memory_per_cta


def leaves_registers(config: MatmulConfig, problem: MatmulProblem, target: Target) -> bool:
    """Whether a tile of `tl.dot` leaves the epilogue of a problem enough registers."""
    if not problem.wide_epilogue or config.consumer_warpgroups or config.weight_streaming:
        return True
    threads = config.num_warps * gpu_of(target).warp_size
    elements = config.block_m * config.block_n * problem.accumulators
    return elements <= max_accumulators(problem) * threads


def max_accumulators(problem: MatmulProblem) -> int:
    """Accumulators of a thread at most; products of wide operands need registers of their own."""
    short = problem.k <= SHORT_K
    most = MAX_ACCUMULATORS_PER_THREAD // (2 if short or problem.wide_epilogue else 1)
    if short and vector_bytes(problem.n, problem.operand_bits) < VECTOR_BYTES:
        most //= 2
    return most // max(1, problem.operand_bits // 16)


def default_config(problem: MatmulProblem, target: Target) -> MatmulConfig:
    """The configuration computed from the problem and the device.

    With a small M quantized weights are streamed; where they cannot be, `dot_config` serves.
    """
    if problem.streamed_bits and problem.m <= MAX_STREAMED_M and target.name == "cuda":
        return streaming_config(problem, 2 if problem.m <= MIN_DOT_M else 1, num_warps=8)
    return dot_config(problem, target, whole=True)


def streaming_config(
    problem: MatmulProblem, lines: int, num_warps: int, block_n: int = 0
) -> MatmulConfig:
    """A configuration that streams weights of 4 or 8 bits, whose warps split K.

    Args:
      problem: the problem.
      lines: pieces of `LINE_BYTES` along K per warp.
      num_warps: warps of a CTA.
      block_n: size of a tile along N; depends on M when left out.
    """
    block_m = max(MIN_STREAMED_M, min(2 * MIN_DOT_M, power_of_two(problem.m)))
    return MatmulConfig(
        block_m,
        block_n or max(16, block_m),
        lines * num_warps * LINE_BYTES * 8 // problem.streamed_bits,
        num_warps,
        1,
        split_k=num_warps,
        weight_streaming=True,
    )


def dot_config(problem: MatmulProblem, target: Target, *, whole: bool = False) -> MatmulConfig:
    """The computed configuration of one tile per CTA, which any region can have.

    Args:
      problem: the problem.
      target: the target.
      whole: whether operands are whole tensors in memory, so that they may be copied to aligned
        rows, or read in classes of rows.
    """
    few = few_rows.config(problem, target, whole=whole)
    if few is not None:
        return few
    tiles = (
        [*tile_configs(problem, target)]
        if problem.m > MIN_DOT_M or problem.whole_rows
        else _small_m_configs(problem, target)
    )
    splits = [split for config in tiles for split in k_split_configs(config, problem, target)]
    # Each element of A is loaded once where B is few columns of a short K.
    copied = whole and not _is_thin(problem, target)
    copying = [c for one in (*tiles, *splits) if copied for c in copy_configs(one, problem)]
    found = min(tiles, key=lambda c: time(c, problem, target))
    found = _with_one_warpgroup(cheaper(found, splits, problem, target), problem, target)
    most = time(found, problem, target) - MIN_SAVED_BY_COPIES
    copying = [config for config in copying if time(config, problem, target) < most]
    found = cheaper(found, copying, problem, target)
    if problem.m <= MIN_DOT_M and "b" in found.aligned_copies and not problem.b_k_contiguous:
        return few_rows.of_copy(found.aligned_copies, problem, target)
    return found


def cheaper(config: C, others: Iterable[C], problem: MatmulProblem, target: Target) -> C:
    """A configuration, or the best of others with one more kernel if that saves `MIN_SAVED`."""
    return cheaper_by(lambda c: time(c, problem, target), config, others, problem.operand_bits)


def cheaper_by(
    modelled: Callable[[C], float], config: C, others: Iterable[C], operand_bits: int
) -> C:
    """The same by a time of each configuration."""
    best = min(others, key=modelled, default=config)
    saved = MIN_SAVED_OF_16 if operand_bits == 16 else MIN_SAVED
    return best if modelled(best) <= modelled(config) * (1 - saved) else config


def _small_m_configs(problem: MatmulProblem, target: Target) -> list[MatmulConfig]:
    """The configuration of a small M; where its CTAs are few, the tile whose CTAs split K, too."""
    config = _small_m_config(problem, target)
    if problem.m == 1 or fills_device(num_ctas(problem, config), target):
        return [config]
    wider = MatmulConfig(MIN_DOT_M, 64, 2 * _BLOCK_BYTES * 8 // problem.operand_bits, 4, 2)
    num_stages = min(4, max(2, stages_that_fit(wider, problem, target)))
    return [config, dataclasses.replace(wider, num_stages=num_stages)]


def _with_one_warpgroup(
    config: MatmulConfig, problem: MatmulProblem, target: Target
) -> MatmulConfig:
    """A configuration whose CTAs have an SM and a part of K each, by one warpgroup.

    It has twice the accumulators of two. On an H200 512x65536x376 bf16 took 52 us so, and 66 by
    two; 640x30000x640 f16 50 and 63; without parts of K times differ by 10 % in both directions.
    """
    largest = config.block_m * config.block_n == LARGEST_OF_WARPGROUP and config.num_warps == 8
    lone = num_ctas(problem, config) * config.k_splits <= gpu_of(target).num_sms
    if config.k_splits == 1 or not largest or not lone or problem.wide_epilogue:
        return config
    return dataclasses.replace(config, num_warps=config.num_warps // 2)


def fills_with_small_tiles(problem: MatmulProblem, target: Target) -> bool:
    """Whether the smallest efficient tiles fill the device."""
    if problem.m <= MIN_DOT_M:
        smallest = MatmulConfig(16, 16, 64, 4, 1)
    else:
        smallest = MatmulConfig(64, tile_shapes.block_n_each(64, problem.accumulators), 64, 4, 1)
    return fills_device(num_ctas(problem, smallest), target)


def _small_m_config(problem: MatmulProblem, target: Target) -> MatmulConfig:
    """Small M: narrow tiles and large blocks of K, which warps split for operands in memory."""
    num_warps, accumulators = 4, problem.accumulators
    plain = not problem.prologue and accumulators == 1 and problem.operand_bits in (16, 32)
    contiguous = problem.a_k_contiguous and problem.b_k_contiguous
    split_k = num_warps if plain and contiguous and target.name == "cuda" else 1
    block_n = 32
    while block_n > 16 and not fills_device(-(-problem.n // block_n) * problem.batch, target):
        block_n //= 2
    block_k = (512 if split_k > 1 else 256) * 16 // max(16, problem.operand_bits)
    block_k = min(block_k, max(64, power_of_two(problem.k)))
    config = MatmulConfig(MIN_DOT_M, block_n, block_k, num_warps, 2, split_k=split_k)
    while config.block_k > 64 and stages_that_fit(config, problem, target) < 3:
        config = dataclasses.replace(config, block_k=config.block_k // 2)
    num_stages = min(4, max(2, stages_that_fit(config, problem, target)))
    return dataclasses.replace(config, num_stages=num_stages)


def tile_configs(problem: MatmulProblem, target: Target) -> Iterator[MatmulConfig]:
    """One configuration per tile whose accumulators and stages fit."""
    accumulators, warp_size = problem.accumulators, gpu_of(target).warp_size
    if _is_thin(problem, target):
        block_n, block_k = (max(MIN_DOT_M, power_of_two(n)) for n in (problem.n, problem.k))
        block_k = min(block_k, THIN_TILE.block_k)
        stages = min(2, -(-problem.k // block_k))
        yield dataclasses.replace(THIN_TILE, block_n=block_n, block_k=block_k, num_stages=stages)
        return
    for block_m, block_n, num_warps in tile_shapes.tiles(problem, target):
        block_n = tile_shapes.block_n_each(block_n, accumulators)
        elements = block_m * block_n * accumulators
        by_warps = problem.operand_bits == 32 and not uses_warpgroups(block_m, num_warps, target)
        block_k = _BLOCK_BYTES * 8 // problem.operand_bits
        lone = tile_shapes.is_lone(problem, block_m, block_n, target)
        narrow = (block_m, block_n, num_warps) == tile_shapes.NARROW_F32_TILE
        if block_m + block_n * accumulators <= 128 and (lone or narrow or not by_warps):
            block_k *= 2
        smallest_k = 32 if problem.operand_bits < 64 else 16
        block_k = min(block_k, max(smallest_k, power_of_two(problem.k)))
        tile = MatmulConfig(block_m, block_n, block_k, num_warps, 2)
        while tile.block_k > smallest_k and (
            stages_that_fit(tile, problem, target) < 3 or _masks_much(tile, problem)
        ):
            tile = dataclasses.replace(tile, block_k=tile.block_k // 2)
        num_stages = stages_that_fit(tile, problem, target)
        if shares_sm(tile, problem, target):
            num_stages = min(num_stages, shared_stages(tile, problem, target))
        smallest = block_m == 64 and block_n * accumulators <= 32
        fits = elements // (num_warps * warp_size) <= max_accumulators(problem)
        if smallest or (fits and num_stages >= 2):
            most = 3 if problem.prologue else MAX_STAGES
            most = min(most, MAX_SHARED_STAGES if by_warps else MAX_STAGES)
            most = min(most, -(-problem.k // tile.block_k))
            yield dataclasses.replace(tile, num_stages=max(2, min(num_stages, most)))


def _is_thin(problem: MatmulProblem, target: Target) -> bool:
    """Whether B is a few columns of a short K, and A has rows for all SMs: a copy of A, nearly."""
    small = problem.n <= MAX_THIN_N and problem.k <= MAX_THIN_K and problem.operand_bits == 16
    many = problem.m * problem.batch >= THIN_TILE.block_m * gpu_of(target).num_sms
    return small and many and problem.accumulators == 1 and not problem.prologue


def _masks_much(config: MatmulConfig, problem: MatmulProblem) -> bool:
    """Whether the last of few blocks of K has half of its elements or fewer."""
    blocks = -(-problem.k // config.block_k)
    return 1 < blocks <= FEW_BLOCKS and 2 * (blocks * config.block_k - problem.k) >= config.block_k


def k_split_configs(
    config: C, problem: MatmulProblem, target: Target, *, smallest: MatmulConfig = SMALLEST_TILE
) -> Iterator[C]:
    """The configurations with parts of K that are long enough for a CTA each.

    Powers of two, the numbers that fill all SMs once and twice, and the largest one.

    Args:
      config: a tile.
      problem: the matmul.
      target: the machine.
      smallest: the smallest tile that the kernel may have: where it fills the device, only long
        parts are worth a CTA.
    """
    num_sms, ctas = gpu_of(target).num_sms, num_ctas(problem, config)
    if not problem.splits_k or ctas > num_sms or config.split_k > 1:
        return
    filled = fills_device(num_ctas(problem, smallest), target)
    shortest = MIN_SPLIT_BYTES * 8 // problem.operand_bits
    if filled:
        is_long = problem.operand_bits == 32 and problem.k >= MIN_LONG_SPLIT_K
        idle = is_long and not fills_device(ctas, target)
        shortest = MIN_F32_SPLIT_K if idle else MIN_LONG_SPLIT_K
    most = min(few_rows.MAX_K_SPLITS, problem.k // shortest)
    powers = (1 << exponent for exponent in range(1, most.bit_length()))
    for splits in sorted({*powers, num_sms // ctas, 2 * num_sms // ctas, most}):
        if 1 < splits <= most:
            yield dataclasses.replace(config, k_splits=splits)


def copy_configs(config: C, problem: MatmulProblem) -> Iterator[C]:
    """The configurations that copy operands whose rows are not aligned, or along a batch."""
    if not problem.is_plain:
        return
    rows = {"a": row_of_a(problem), "b": row_of_b(problem)}
    unaligned = [
        operand
        for operand, row in rows.items()
        if vector_bytes(row, problem.operand_bits) < VECTOR_BYTES
        or operand in problem.batch_innermost
    ]
    for copied in {*unaligned, "".join(unaligned)} - {""}:
        yield dataclasses.replace(config, aligned_copies=copied)
