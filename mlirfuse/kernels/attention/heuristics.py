"""Configurations of attention kernels, computed from the problem and the GPU.

Sources: Dao, FlashAttention-2 (2023), tile shapes by head size; Shah et al., FlashAttention-3
(2024), ping-pong of two consumer warpgroups; Dao et al., Flash-Decoding (2023), split-KV.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from mlirfuse.kernels.attention.analysis import ASSUMED_BATCH
from mlirfuse.kernels.attention.problem import (
    OVERLAPPED_SM90,
    WARP_SPECIALIZED_SM90,
    AttentionConfig,
    AttentionProblem,
)
from mlirfuse.kernels.attention.sizes import MIN_DOT_SIZE, AttentionSizes, padded_head
from mlirfuse.kernels.codegen.dot_precision import uses_warpgroups
from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.targets import cuda
from mlirfuse.targets.base import Target

CTAS_PER_SM = 2
"""CTAs that share an SM, so that matmuls of one run under the softmax of the other."""

MIN_KEYS_PER_SPLIT, MIN_KEYS_OF_FEW_QUERIES = 256, 64
"""Keys that are worth a CTA of their own, at least. The blocks of few queries are latency: on an
H200 four queries of two heads of 128 f32 with 392 keys took 10.4 us in splits of two blocks, and
6.8 in those of one; four of 12 heads of 64 f16 with 300 keys 4.6 and 3.9 us."""

MAX_SHORT_HEAD = 64
"""Size of a 16-bit head up to which few tiles of queries are not divided further, nor their keys.

Microseconds on an H200 in tiles of 64 queries, and in those of 16 with one block of 64 keys each:
a head of 358 queries and keys, f16, of 64 elements 4.4 and 4.7, of 128 8.4 and 5.9, of 256 16.9 and
8.4; four of 200 of 128 7.4 and 6.0; one of 478 of 128 with a soft cap 16.0 and 7.2, causal, without
splits, 10.8 and 8.7; f32 one of 448 of 80 19.1 and 10.2, two of 300 of 64 15.6 and 7.7. Three of
300 of 128, 285 CTAs, took 6.4 and 7.4: more than the device holds at a time."""

FEW_SPLITS = 16
"""Splits up to which a merge takes 2 us: that of 32, of two heads of 64, took 4.2."""

WORTHWHILE_SPLITS = 4
"""Splits with which the smallest tiles are faster than larger ones of the portable kernel. On an
H200 64 queries of 16 heads of 80 bf16 with a window of 440 keys took 8.6 us so, and 14.7 in tiles
of 64, of 16 heads of 64 f32 10.1 and 23.5; but three heads of 300 of 128 f16 7.4, and 6.0 in a
kernel for Hopper."""

MIN_QUERIES_SM90 = 48
"""Queries below which more than a quarter of the 64 rows of a warpgroup's matmul would be empty."""

WARPGROUP_QUERIES = 64
"""Queries of a warpgroup of Hopper: rows of its matrix instruction."""

HEAD_SIZES_SM90 = (64, 128, 256)
"""Columns of the tiles of kernels for Hopper: rows of 128 bytes, swizzled, for a row."""

MAX_OVERLAPPED_HEAD = 128
"""Columns of a tile for which one warpgroup without producer warps pays: a CTA of longer heads
fills the shared memory of an SM."""

VECTOR_ELEMENTS = 8
"""16-bit elements of a vectorized load."""

MAX_QUERY_PADDING = 1.15
"""Rows of two-warpgroup tiles over rows of one-warpgroup tiles up to which producer warps pay: the
causal 1x32x4000x128 took 301 us without them and 259 us with them on an H100."""

MAX_BLOCK_M = 64
"""Queries of a tile of the portable kernel: its accumulators fit the registers of four warps."""

MAX_NUM_STAGES = {"cuda": 3, "rocm": 2}
"""Stages of the portable kernel; Triton's pipeline for AMD prefetches one block, into registers."""


def default_config(problem: AttentionProblem, target: Target) -> AttentionConfig:
    """The configuration for a problem without a measured neighbor.

    On Hopper heads of 128 fill the shared memory of an SM with one CTA: two consumer warpgroups in
    it overlap. Of heads of 64 several CTAs share an SM and overlap without synchronization; without
    a mask, whose elements take registers and of which smaller blocks can be skipped, their blocks
    of keys are longer: on an H200 2048 queries of four heads took 26.1 us with 64 and 18.9 us with
    128 keys, 1024 of 12 heads 14.7 and 12.4 us.
    """
    is_long = problem.head_size > MAX_OVERLAPPED_HEAD
    if not _for_sm90(problem, target) or (is_long and problem.queries <= WARPGROUP_QUERIES):
        return portable_config(problem, target)
    is_whole = problem.mask == "none" and problem.keys >= 2 * WARPGROUP_QUERIES
    block_n = 128 if is_whole and problem.head_size <= 64 else 64
    found = AttentionConfig(WARPGROUP_QUERIES, block_n, 4, 2, kernel=OVERLAPPED_SM90)
    if problem.head_size > 64 and problem.queries > WARPGROUP_QUERIES:
        block_n = 64 if is_long else 128
        found = AttentionConfig(2 * WARPGROUP_QUERIES, block_n, 8, 2, kernel=WARP_SPECIALIZED_SM90)
    return dataclasses.replace(found, heads_first=_heads_first(problem, target))


def portable_config(problem: AttentionProblem, target: Target) -> AttentionConfig:
    """The configuration of the portable kernel: as many stages as let two CTAs share an SM.

    Where one CTA does not fit with two stages, blocks have fewer keys. A CTA that has an SM for
    itself has twice the queries and the warps, if they fit, else all stages: on an H200 2048
    queries of 64 heads of 256 with 1016 keys took 399 us with four warps and 303 with eight, 128
    queries of 144 heads of 256 with 384 keys 44 us with two stages and 34 with three. It has one
    where no SM has two tiles, too: 2048 queries of four heads of 128 with a bias took 59 us with
    two stages and 40 with three.
    """
    gpu, block_m = gpu_of(target), min(MAX_BLOCK_M, query_block(problem.queries))
    small = problem.queries > MIN_DOT_SIZE and is_small(problem, target)
    if small:
        stages = MAX_NUM_STAGES.get(target.name, 2) if problem.mask == "causal" else 2
        config = AttentionConfig(MIN_DOT_SIZE, MIN_KEYS_OF_FEW_QUERIES, 4, stages)
    elif problem.operand_bits == 32:
        config = _config_of_f32(problem, block_m, target)
    else:
        config = AttentionConfig(block_m, 64, 4, MAX_NUM_STAGES.get(target.name, 2))
    while (
        config.num_stages > 2
        and not _has_one_tile_each(problem, config, target)
        and CTAS_PER_SM * shared_memory(problem, config, target) > gpu.shared_memory_per_sm
    ):
        config = dataclasses.replace(config, num_stages=config.num_stages - 1)
    while (
        config.block_n > MIN_DOT_SIZE
        and shared_memory(problem, config, target) > gpu.shared_memory_per_cta
    ):
        config = dataclasses.replace(config, block_n=config.block_n // 2)
    if problem.operand_bits == 16 and not small and _is_alone(problem, config, target):
        wide = dataclasses.replace(config, block_m=2 * MAX_BLOCK_M, num_warps=8)
        deep = dataclasses.replace(config, num_stages=MAX_NUM_STAGES[target.name])
        if shared_memory(problem, deep, target) <= gpu.shared_memory_per_cta:
            config = deep
        fits = shared_memory(problem, wide, target) <= gpu.shared_memory_per_cta
        enough = problem.queries > MAX_BLOCK_M
        if fits and enough and filling_block(problem, wide.block_m, target) == wide.block_m:
            config = wide
    return dataclasses.replace(config, heads_first=_heads_first(problem, target))


def is_small(problem: AttentionProblem, target: Target) -> bool:
    """Whether the device holds a CTA for each block of keys of each of the smallest tiles.

    Of 16-bit heads up to `MAX_SHORT_HEAD` a block takes less time than the merge.
    """
    short = problem.operand_bits == 16 and problem.head_size <= MAX_SHORT_HEAD
    parts = FEW_SPLITS if _for_sm90(problem, target) else WORTHWHILE_SPLITS
    return not short and _fits(problem.queries, problem.keys, problem.heads, parts, target)


def _fits(queries: int, keys: int, heads: int, parts: int, target: Target) -> bool:
    """Whether the device holds the smallest tiles with a CTA for each block of keys, or parts."""
    tiles, blocks = -(-queries // MIN_DOT_SIZE) * heads, -(-keys // MIN_KEYS_OF_FEW_QUERIES)
    return tiles * min(blocks, parts) <= max_resident_ctas(target)


def _has_one_tile_each(problem: AttentionProblem, config: AttentionConfig, target: Target) -> bool:
    """Whether each SM has at most one tile of queries, and there are too many to split keys."""
    tiles, sms = -(-problem.queries // config.block_m) * problem.heads, gpu_of(target).num_sms
    fits = shared_memory(problem, config, target) <= gpu_of(target).shared_memory_per_cta
    return fits and target.name == "cuda" and 3 * sms <= 4 * tiles <= 4 * sms


def _is_alone(problem: AttentionProblem, config: AttentionConfig, target: Target) -> bool:
    """Whether the shared memory of an SM of NVIDIA's holds one CTA."""
    held = gpu_of(target).shared_memory_per_sm
    return target.name == "cuda" and CTAS_PER_SM * shared_memory(problem, config, target) > held


def _heads_first(problem: AttentionProblem, target: Target) -> bool:
    """Whether the tiles of most keys, those of all heads, should start first.

    Those of a causal mask have more keys the later their queries are. The keys and values of all
    heads are in use at a time then: the L2 must hold them. On an H100 2154 queries of 16 heads of
    80 took 83 and 51 us.
    """
    read = 2 * problem.heads * problem.keys * problem.head_size * problem.operand_bits // 8
    return problem.mask == "causal" and read <= gpu_of(target).l2_bytes


def filling_block(problem: AttentionProblem, block_m: int, target: Target) -> int:
    """The tile of queries, `block_m` or fewer, whose CTAs occupy the device.

    Not fewer than a warpgroup has: a warp has 16 queries, and fewer would not make it faster. Keys
    are split among CTAs first, except those of a causal mask.
    """
    splits = 1 if problem.mask == "causal" else max(1, problem.keys // MIN_KEYS_PER_SPLIT)
    while block_m > WARPGROUP_QUERIES:
        tiles = -(-problem.queries // block_m) * problem.heads
        if 4 * tiles * splits >= 3 * gpu_of(target).num_sms:
            break
        block_m //= 2
    return block_m


def _config_of_f32(problem: AttentionProblem, block_m: int, target: Target) -> AttentionConfig:
    """Blocks of f32, whose parts take registers: without spills for Hopper.

    Tiles of warpgroups are faster where two CTAs of each SM have one; else smaller tiles are, whose
    products warps compute from registers. On an H100 512 queries of 16 heads of 64 took 30 and 26
    us, 1024 of 12 heads of 128 took 169 and 116 us, and 200 of 64 heads of 80 took 47 and 70 us.
    Of heads above 64 one CTA fills an SM: with 128 queries its two warpgroups overlap.
    """
    if target.arch != cuda.HOPPER:
        return AttentionConfig(block_m, 32, 4 if problem.head_size <= 64 else 8, 2)
    tiles = -(-problem.queries // WARPGROUP_QUERIES) * problem.heads
    if 4 * tiles < 3 * max_resident_ctas(target):
        rows = min(block_m, 2 * MIN_DOT_SIZE if problem.head_size <= 64 else MIN_DOT_SIZE)
        held = -(-problem.queries // rows) * problem.heads <= max_resident_ctas(target)
        if held or problem.mask == "causal" or problem.keys < 2 * MIN_KEYS_PER_SPLIT:
            return AttentionConfig(rows, 64, 4, 2)
    if problem.head_size <= 64:
        return AttentionConfig(block_m, 64, 4, 2)
    if problem.queries < 2 * WARPGROUP_QUERIES:
        return AttentionConfig(block_m, 32, 4, 2)
    return AttentionConfig(2 * WARPGROUP_QUERIES, 32, 8, 2)


def query_block(queries: int) -> int:
    """The tile that so many queries fill."""
    return max(MIN_DOT_SIZE, power_of_two(queries))


def shared_memory(problem: AttentionProblem, config: AttentionConfig, target: Target) -> int:
    """Bytes of shared memory of the portable kernel: q, weights, and blocks of keys and values.

    A pipeline of n stages holds n - 1 blocks of each, and of a mask; where warpgroups of Hopper
    read them from there, n of keys and values, and weights are in registers. For AMD, q is in
    registers alone. Triton 3.9 reports these numbers for heads of 80, 128 and 256 on sm_90, and of
    128 on gfx942; on sm_80 q takes less. The parts of f32 in TF32 are there too, on sm_90: less
    than another block and queries of each.
    """
    head = padded_head(problem.head_size)
    tile, later = config.block_m * config.block_n, config.num_stages - 1
    blocks, weights = later * 2 * config.block_n * head, tile
    if problem.operand_bits == 16 and uses_warpgroups(config.block_m, config.num_warps, target):
        blocks, weights = config.num_stages * 2 * config.block_n * head, 0
    if problem.mask == "general":
        blocks += later * tile
    queries = 0 if target.name == "rocm" else config.block_m * head
    if problem.operand_bits == 32 and target.name == "cuda":
        blocks, queries = blocks + 2 * config.block_n * head, 2 * queries
    element = problem.operand_bits // 8
    return element * (blocks + queries + weights)


def max_resident_ctas(target: Target) -> int:
    """CTAs that the device holds at a time."""
    return CTAS_PER_SM * gpu_of(target).num_sms


def num_kv_splits(sizes: AttentionSizes, block_m: int, causal: bool, target: Target) -> int:
    """CTAs that split the keys of a tile of queries; 1 where tiles alone occupy the device.

    They do from three quarters of the SMs on; of few queries, which are bound by the loads of keys,
    from so many CTAs on as the device holds: on an H200 a query of 128 heads of 256 with 4096 keys
    took 148 us without a split, and 124 with two. With dynamic keys or batches this is the largest
    number; a kernel computes its own from the sizes. A dynamic number of queries is not split.
    """
    if causal or sizes.queries is None:
        return 1
    # Of a dynamic number of batches there may be one, which counts where queries are few.
    many = sizes.dynamic_batch and sizes.queries >= MIN_QUERIES_SM90
    num_tiles = -(-sizes.queries // block_m) * sizes.heads * (ASSUMED_BATCH if many else 1)
    splits = max_resident_ctas(target) // num_tiles
    few = _has_few_queries(sizes) or (
        block_m == MIN_DOT_SIZE
        and sizes.is_static
        and _fits(sizes.queries, sizes.keys or 0, sizes.heads, WORTHWHILE_SPLITS, target)
    )
    if sizes.keys is not None:
        splits = min(splits, _most_splits(sizes.keys, few=few))
    enough = max_resident_ctas(target) if few else gpu_of(target).num_sms
    occupied = 4 * num_tiles >= 3 * enough
    return 1 if occupied else max(1, splits)


def _most_splits(keys: int, *, few: bool) -> int:
    """Parts of so many keys, at most: a block each of few queries, as long as few are merged."""
    if not few:
        return keys // MIN_KEYS_PER_SPLIT
    blocks = -(-keys // MIN_KEYS_OF_FEW_QUERIES)
    return min(blocks, max(FEW_SPLITS, blocks // 2))


def min_keys_per_split(sizes: AttentionSizes) -> int:
    """Keys that are worth a CTA of their own, at least."""
    return MIN_KEYS_OF_FEW_QUERIES if _has_few_queries(sizes) else MIN_KEYS_PER_SPLIT


def _has_few_queries(sizes: AttentionSizes) -> bool:
    """Whether the smallest tile has all queries, so that loads of keys take most of the time."""
    return sizes.queries is not None and sizes.queries <= MIN_DOT_SIZE


def configs(problem: AttentionProblem, target: Target) -> list[AttentionConfig]:
    """The configurations that the tuner measures: the portable default, and all others that fit."""
    limit = gpu_of(target).shared_memory_per_cta
    portable = [
        config
        for config in _portable_configs(problem)
        if shared_memory(problem, config, target) <= limit
    ]
    sm90 = _sm90_configs(problem) if _for_sm90(problem, target) else ()
    orders = (False, True) if problem.mask == "causal" and problem.queries > 32 else (False,)
    found = [
        dataclasses.replace(config, heads_first=heads_first)
        for config in (portable_config(problem, target), *portable, *sm90)
        for heads_first in orders
    ]
    return list(dict.fromkeys(found))


def _portable_configs(problem: AttentionProblem) -> Iterator[AttentionConfig]:
    """Blocks, warps and stages of the portable kernel."""
    if problem.queries <= 32:
        for block_n, num_stages in ((64, 3), (128, 2), (128, 3)):
            yield AttentionConfig(query_block(problem.queries), block_n, 4, num_stages)
        return
    for num_stages in (2, 3):
        yield AttentionConfig(64, 64, 4, num_stages)
        yield AttentionConfig(128, 64, 8, num_stages)
    yield AttentionConfig(64, 32, 4, 3)
    yield AttentionConfig(64, 128, 4, 2)
    if problem.head_size <= 64:
        # The accumulators of 128 queries fit the registers of four warps.
        yield AttentionConfig(64, 64, 4, 4)
        yield AttentionConfig(128, 64, 4, 3)
        yield AttentionConfig(128, 128, 4, 2)
        yield AttentionConfig(128, 128, 4, 3)
    else:
        yield AttentionConfig(64, 32, 4, 4)
        yield AttentionConfig(128, 32, 4, 3)
        yield AttentionConfig(128, 32, 8, 4)
        yield AttentionConfig(128, 128, 8, 2)


def _sm90_configs(problem: AttentionProblem) -> Iterator[AttentionConfig]:
    """One and two consumer warpgroups, with blocks of 64 and 128 keys; two and 64 of long heads."""
    if problem.head_size > MAX_OVERLAPPED_HEAD:
        yield AttentionConfig(2 * WARPGROUP_QUERIES, 64, 8, 2, kernel=WARP_SPECIALIZED_SM90)
        return
    for block_n in (64, 128):
        yield AttentionConfig(WARPGROUP_QUERIES, block_n, 4, 2, kernel=OVERLAPPED_SM90)
        yield AttentionConfig(2 * WARPGROUP_QUERIES, block_n, 8, 2, kernel=WARP_SPECIALIZED_SM90)


def tile_columns(head_size: int) -> int:
    """Columns of the tiles of heads, with zeros behind their elements; 0 where no tile holds them.

    Heads are padded as those of the portable kernel are, from half of the smallest tile on.
    """
    padded = padded_head(head_size)
    aligned = head_size % VECTOR_ELEMENTS == 0
    return padded if aligned and padded in HEAD_SIZES_SM90 else 0


def _for_sm90(problem: AttentionProblem, target: Target) -> bool:
    """Whether the kernels for Hopper compute such problems."""
    return (
        target.arch == cuda.HOPPER
        and problem.operand_bits == 16
        and problem.mask != "general"
        and tile_columns(problem.head_size) > 0
        and problem.queries >= MIN_QUERIES_SM90
    )
