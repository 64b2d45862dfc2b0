"""Configurations of convolutions, computed from the problem and the device.

A tile of M output pixels by N output channels reads blocks of K, input channels of taps. The
default of 16-bit elements is the largest tile whose CTAs fill the device. Where none does, and of
f32, it minimizes the modelled time of a matmul of these sizes, with K split among CTAs. Blocks of K
leave few masked elements, and two CTAs of an SM can hold the stages.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from mlirfuse.kernels.codegen import dot_precision
from mlirfuse.kernels.codegen.dot_precision import is_one_product
from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.configs.device import gpu_of, loads_and_warps
from mlirfuse.kernels.convolution.problem import (
    PACKED_CHANNELS,
    PERSISTENT_BITS,
    ConvolutionConfig,
    ConvolutionProblem,
)
from mlirfuse.kernels.matmul.cost_model import copy_time, fills_device, time
from mlirfuse.kernels.matmul.heuristics import cheaper, cheaper_by, k_split_configs
from mlirfuse.kernels.matmul.problem import MatmulProblem
from mlirfuse.kernels.matmul.search_space import persistent_configs
from mlirfuse.kernels.matmul.tile_shapes import f32_tiles, is_lone, lone_f32_tiles
from mlirfuse.targets import cuda
from mlirfuse.targets.base import Target

DEFAULT_TILES = ((128, 128), (128, 64), (64, 64))
"""M and N of default tiles: the larger ones load fewer bytes for each operation."""

TILES = ((64, 64), (64, 128), (128, 64), (128, 128), (128, 256), (256, 64), (256, 128))
"""M and N of the tiles that the tuner measures."""

BLOCK_K_BYTES = (128, 64)
"""Bytes of K of a block: as wide as a swizzle in shared memory, or half."""

LONG_BLOCK_K_BYTES = 256
"""The same of the small tiles that the tuner measures, too."""

MIN_BLOCK_N = 16
"""N of the smallest tile."""

WARPS = (4, 8)
"""Warps of a CTA."""

DEFAULT_ACCUMULATORS_PER_THREAD = 64
"""Accumulators of a thread above which a default tile takes more warps."""

MIN_ACCUMULATORS_PER_THREAD = 64
"""Accumulators of a thread below which a measured tile does not take more warps."""

MAX_ACCUMULATORS_PER_THREAD = 128
"""Accumulators of a thread, which has 255 registers."""

MIN_GAIN = 2
"""Times of the copy of an image that a convolution has to gain by it: a margin of the model."""

MIN_STAGES, MAX_STAGES = 3, 4
"""Stages of the software pipeline of loads. Those of TF32 have three, of which more CTAs have room:
on an H200 8421408 pixels, 64 channels and K = 256 took 2406 us in tiles of 128 by 64, and 2661 with
four stages."""

MAX_COLUMNS = 128
"""Columns of a tile of the direct kernel: its rows are then neighbours, whose taps overlap."""

MAX_DIRECT_ACCUMULATORS = 64
"""Accumulators of a thread of the direct kernel: a quarter of the registers that it may have."""

SLIDING_ELEMENTS = 4
"""Elements of a thread of the direct kernel whose taps move along rows, and are loaded one by one:
on an H200 3x3 by channel of 6x512x64x64 f16 took 71 us with 16 of them, 73 with 8, 39 with 4 and 42
with 2; 7x7 of 30x256x64x64 bf16 806, 755, 422 and 412."""

RUN, LONG_RUN, LONG_TAPS = 4, 8, 5
"""Adjacent outputs of a thread whose taps overlap; those where so many of them read an element, and
how many these are. Of n taps a run of r loads n + r - 1 elements in place of n * r. On an H200 5x5
by channel of 4x192x135x135 f16 took 287 us without runs, 42.8 with four and 39.4 with eight."""

DIRECT_WARPS_PER_SM = 16
"""Warps of an SM that hide the latency of loads: four for each of its schedulers, an estimate."""

VECTOR_BITS = 128
"""Bits of a vectorized load."""

ROCM_STAGES = 2
"""Stages on AMD GPUs, whose loads go through registers to the LDS."""


def default_config(
    problem: ConvolutionProblem, target: Target, classes: int = 1
) -> ConvolutionConfig:
    """The configuration of one tile per CTA for a problem.

    Args:
      problem: the convolution.
      target: the machine that is compiled for.
      classes: residue classes of the strides of a transposed convolution; each has a part of K.
    """
    if problem.is_direct:
        return _direct_config(problem, target)
    target = _with_own_precision(problem, target)
    gemm = as_matmul(problem)
    tiles = [
        _tile(*tile, block_k, problem, target)
        for tile in _default_tiles(problem, target)
        for block_k in _block_ks(problem, gemm, tile, target)
    ]
    if problem.operand_bits == 16:
        filling = [tile for tile in tiles if fills_device(num_ctas(problem, tile), target)]
        tiles = filling[:1] or tiles
    smallest = min(tiles, key=lambda tile: tile.block_m * tile.block_n)
    gemms = {tile.block_k: as_matmul(problem, tile.block_k) for tile in tiles}
    gemms = {size: dataclasses.replace(one, k=-(-one.k // classes)) for size, one in gemms.items()}

    def modelled(config: ConvolutionConfig) -> float:
        return time(config, gemms[config.block_k], target)

    splits = [
        split
        for tile in tiles
        for split in k_split_configs(tile, gemms[tile.block_k], target, smallest=smallest)
    ]
    found = cheaper_by(modelled, min(tiles, key=modelled), splits, problem.operand_bits)
    return _copying(found, problem, target)


def _default_tiles(problem: ConvolutionProblem, target: Target) -> Iterator[tuple[int, int, int]]:
    """M, N and warps of default tiles."""
    if problem.operand_bits == 32:
        # Elements of several taps are gathered one by one, in any layout.
        gathers = is_tf32(problem, target) and problem.in_channels < PACKED_CHANNELS
        along_k = problem.channels_last or gathers
        sizes = {
            (block_m, _clamp_n(block_n, problem.out_channels), warps)
            for block_m, block_n, warps in (
                *f32_tiles(target, a_k_contiguous=along_k),
                *lone_f32_tiles(as_matmul(problem), target),
            )
        }
        yield from sorted(sizes)
        return
    threads = WARPS[0] * gpu_of(target).warp_size
    for block_m, columns in DEFAULT_TILES:
        block_n = _clamp_n(columns, problem.out_channels)
        wide = block_m * block_n > DEFAULT_ACCUMULATORS_PER_THREAD * threads
        yield block_m, block_n, WARPS[1] if wide else WARPS[0]


def is_tf32(problem: ConvolutionProblem, target: Target) -> bool:
    """Whether a kernel multiplies f32 as TF32."""
    return problem.operand_bits == 32 and is_one_product(_with_own_precision(problem, target))


def _with_own_precision(problem: ConvolutionProblem, target: Target) -> Target:
    """The target whose matmuls have the precision of a convolution."""
    word = dot_precision.of_convolution(problem.operations, target)
    return dataclasses.replace(target, float32_matmul_precision=word)


def _tile(
    block_m: int,
    block_n: int,
    num_warps: int,
    block_k: int,
    problem: ConvolutionProblem,
    target: Target,
) -> ConvolutionConfig:
    """The configuration of a default tile."""
    stages = _stages(_stage_bytes(block_m, block_n, block_k, problem), target)
    if is_tf32(problem, target):
        stages = min(stages, MIN_STAGES)
    return ConvolutionConfig(block_m, block_n, block_k, num_warps, stages)


def _copying(
    config: ConvolutionConfig, problem: ConvolutionProblem, target: Target
) -> ConvolutionConfig:
    """A configuration that copies operands with narrow rows, where that pays."""
    copied = ["b"] if problem.narrow_filter else []
    copied += ["ab"] if problem.narrow_filter and problem.narrow_image else []
    copying = [dataclasses.replace(config, aligned_copies=operands) for operands in copied]
    return cheaper(config, copying, as_matmul(problem), target)


def as_matmul(problem: ConvolutionProblem, block_k: int = 0) -> MatmulProblem:
    """The implicit GEMM, whose time is modelled; rows of K are aligned as a pixel's are.

    Args:
      problem: the convolution.
      block_k: K of a block, of which the last one of each tap is masked; 0 for the best of them.
    """
    block_k = block_k or _block_k(problem)
    packed = problem.in_channels < PACKED_CHANNELS
    span = problem.in_channels * (problem.taps if packed else 1)
    blocks = -(-span // block_k) * (1 if packed else problem.taps)
    missing = -problem.in_channels % block_k
    # Taps shift rows of pixels, so that no vector of them is aligned.
    shifted = not problem.channels_last and problem.taps > 1
    return MatmulProblem(
        problem.pixels | 1 if shifted else problem.pixels,
        problem.out_channels,
        blocks * block_k - missing,
        problem.groups,
        operand_bits=problem.operand_bits,
        a_k_contiguous=problem.channels_last,
        reads_of_a=problem.taps,
    )


def gains_from_copied_image(problem: ConvolutionProblem, elements: int, target: Target) -> bool:
    """Whether a convolution is faster with a copy of its image that has the channels last.

    Args:
      problem: the convolution of the image with channels first.
      elements: elements of the image.
      target: the machine that is compiled for.
    """
    copied = dataclasses.replace(problem, channels_last=True)
    own = _with_own_precision(problem, target)
    now, then = (
        time(default_config(each, target), as_matmul(each), own) for each in (problem, copied)
    )
    return MIN_GAIN * copy_time(elements, problem.operand_bits, target) < now - then


def keeps_busy(
    measured: ConvolutionProblem,
    config: ConvolutionConfig,
    problem: ConvolutionProblem,
    target: Target,
) -> bool:
    """Whether a measured configuration occupies over half of the SMs, or of those it did occupy."""
    occupied = min(gpu_of(target).num_sms, num_ctas(measured, config))
    return problem.is_direct or 2 * num_ctas(problem, config) > occupied


def configs(problem: ConvolutionProblem, target: Target) -> list[ConvolutionConfig]:
    """The configurations that the tuner measures."""
    if problem.is_direct:
        default = _direct_config(problem, target)
        runs = (1, RUN, LONG_RUN) if problem.overlapping_taps > 1 else (1,)
        others = [
            ConvolutionConfig(rows * run, MAX_COLUMNS, 1, warps, 1, run=run)
            for rows, warps, run in itertools.product((4, 8, 16), WARPS, runs)
        ]
        return list(dict.fromkeys([default, *others]))
    found = []
    for block_m, block_n in TILES:
        smallest = (block_m, block_n) == TILES[0]
        tile = ConvolutionConfig(
            block_m, block_n, _elements(BLOCK_K_BYTES[0], problem), WARPS[0], MIN_STAGES
        )
        half_filled = 2 * num_ctas(problem, tile) >= gpu_of(target).num_sms
        if block_n <= max(TILES[0][1], problem.out_channels) and (smallest or half_filled):
            found += _pipelines(tile, problem, target)
    if problem.k_contiguous and problem.operand_bits == PERSISTENT_BITS:
        k = problem.in_channels * problem.taps
        persistent = persistent_configs(problem.pixels, problem.out_channels, k, 1, target)
        found += [ConvolutionConfig.from_dict(config.to_dict()) for config in persistent]
    return found


def _direct_config(problem: ConvolutionProblem, target: Target) -> ConvolutionConfig:
    """The configuration of the direct kernel.

    Large results are bound by memory, as those of pointwise kernels are. For small ones a thread
    has fewer elements, whose taps it loads one by one, so that more warps hide the latency. Each
    element has an accumulator for every output channel of its group.
    """
    gpu, vector = gpu_of(target), VECTOR_BITS // problem.operand_bits
    elements = problem.pixels * problem.groups
    loads, warps = loads_and_warps(elements, vector, target)
    each = vector * loads
    if problem.slides:
        each = min(each, SLIDING_ELEMENTS)
    while each > 1 and each * problem.out_channels > MAX_DIRECT_ACCUMULATORS:
        each //= 2
    run = 1
    if problem.overlapping_taps > 1:
        run = LONG_RUN if problem.overlapping_taps >= LONG_TAPS else RUN
    while each * run > 1 and (
        elements < each * run * gpu.warp_size * gpu.num_sms * DIRECT_WARPS_PER_SM
    ):
        each, run = (each // 2, run) if each > 1 else (each, run // 2)
    tile = each * run * gpu.warp_size * warps
    return ConvolutionConfig(
        max(1, tile // MAX_COLUMNS), min(tile, MAX_COLUMNS), 1, warps, 1, run=run
    )


def clamp_block_n(config: ConvolutionConfig, out_channels: int) -> ConvolutionConfig:
    """A configuration with `block_n` limited by the output channels."""
    return dataclasses.replace(config, block_n=_clamp_n(config.block_n, out_channels))


def _clamp_n(block_n: int, out_channels: int) -> int:
    return min(block_n, max(MIN_BLOCK_N, power_of_two(out_channels)))


def _pipelines(
    tile: ConvolutionConfig, problem: ConvolutionProblem, target: Target
) -> list[ConvolutionConfig]:
    """The configurations of a tile, with as many warps, stages and blocks of K as it may have."""
    gpu, area = gpu_of(target), tile.block_m * tile.block_n
    block_ks = {_elements(BLOCK_K_BYTES[0], problem), _block_k(problem)}
    long = _elements(LONG_BLOCK_K_BYTES, problem)
    if area <= TILES[1][0] * TILES[1][1] and problem.in_channels >= long:
        block_ks.add(long)
    warps = [
        count
        for count in WARPS
        if area <= MAX_ACCUMULATORS_PER_THREAD * count * gpu.warp_size
        and (count == WARPS[0] or area >= MIN_ACCUMULATORS_PER_THREAD * count * gpu.warp_size)
    ]
    stages = (ROCM_STAGES,) if target.name == "rocm" else range(MIN_STAGES, MAX_STAGES + 1)
    return [
        dataclasses.replace(tile, block_k=block_k, num_warps=num_warps, num_stages=num_stages)
        for block_k, num_warps, num_stages in itertools.product(sorted(block_ks), warps, stages)
        if (num_stages - _stages_in_registers(target))
        * _stage_bytes(tile.block_m, tile.block_n, block_k, problem)
        <= gpu.shared_memory_per_cta
    ]


def _block_ks(
    problem: ConvolutionProblem, gemm: MatmulProblem, tile: tuple[int, int, int], target: Target
) -> list[int]:
    """K of blocks of a tile: longer ones, too, where an SM waits for each block of its only CTA."""
    own = _block_k(problem)
    is_f32 = problem.operand_bits == 32 and not is_one_product(target)
    if not is_f32 or not is_lone(gemm, *tile[:2], target):
        return [own]
    sizes = (LONG_BLOCK_K_BYTES, *BLOCK_K_BYTES)
    return sorted({own, *(_elements(size, problem) for size in sizes)})


def _block_k(problem: ConvolutionProblem) -> int:
    """K of a block: the one with the fewest masked elements, of those the longer one.

    A block of several taps of f32 is a short one: a thread has a tap, a condition and an address
    for each element. On an H200 7380480 voxels of 3x3x3 taps of 8 channels, in TF32, took 5920 us
    in blocks of 128 bytes, and 2352 in those of 64.
    """
    packed = problem.in_channels < PACKED_CHANNELS
    k = problem.in_channels * (problem.taps if packed else 1)
    sizes = BLOCK_K_BYTES[1:] if packed and problem.operand_bits == 32 else BLOCK_K_BYTES
    block_ks = [_elements(size, problem) for size in sizes]
    return min(block_ks, key=lambda block_k: -(-k // block_k) * block_k)


def _elements(size: int, problem: ConvolutionProblem) -> int:
    """Elements of the image in so many bytes."""
    return size * 8 // problem.operand_bits


def _stages(stage_bytes: int, target: Target) -> int:
    """Stages that fit twice in the shared memory of an SM, or once where these are too few."""
    if target.name == "rocm":
        return ROCM_STAGES
    gpu, more = gpu_of(target), _stages_in_registers(target)
    twice = min(MAX_STAGES, gpu.shared_memory_per_sm // 2 // stage_bytes + more)
    once = min(MIN_STAGES, gpu.shared_memory_per_cta // stage_bytes + more)
    return max(twice, once, 1)


def _stages_in_registers(target: Target) -> int:
    """Stages that need no shared memory: the last one, except where instructions read it there."""
    return 0 if target.arch == cuda.HOPPER else 1


def _stage_bytes(block_m: int, block_n: int, block_k: int, problem: ConvolutionProblem) -> int:
    """Bytes of shared memory of a stage."""
    return (block_m + block_n) * block_k * problem.operand_bits // 8


def num_ctas(problem: ConvolutionProblem, config: ConvolutionConfig) -> int:
    """CTAs of one tile each."""
    tiles = -(-problem.pixels // config.block_m) * -(-problem.out_channels // config.block_n)
    return tiles * problem.groups
