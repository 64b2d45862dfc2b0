"""Flash decoding in Triton: CTAs split the keys of a head, and a second kernel merges them.

Where few queries make too few tiles for the device, several CTAs walk over parts of the keys of
the same tile. Each stores its accumulator, `row_max` and `row_sum` in f32; the kernel that merges
them computes the epilogue.
"""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.attention import heuristics, online_softmax
from mlirfuse.kernels.attention.analysis import AttentionAnalysis
from mlirfuse.kernels.attention.online_softmax import KeyRange
from mlirfuse.kernels.attention.problem import AttentionConfig
from mlirfuse.kernels.attention.sizes import BATCH_SIZE, QUERY_SIZE, AttentionSizes, padded_head
from mlirfuse.kernels.attention.tiles import attention_program, attention_tiles, results_plan
from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.codegen.writer import Writer
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.targets.base import Target

MAX_MERGE_BLOCK_M = 16
"""Queries of a tile of the kernel that merges, at most: more, smaller tiles occupy more SMs."""

MERGE_WARPS = 4

MAX_UNROLLED = 16
"""Splits up to which the loop of the merge is unrolled, so that no load waits for the one before:
in a loop each of 4 to 11 splits of a head of 80 took 0.45 us (H200). Merges of 19 splits of eight
heads of 80 took 4.4 us in a loop and 2.3 unrolled. More are the rows of a tile for each query: 69
splits of four queries of two heads of 32, 16 unrolled at a time, took 15.3 us, since each is
weighted by the largest score so far."""

MAX_TILE_ELEMENTS = 8192
"""Elements of such a tile: 64 of each of `MERGE_WARPS` warps."""

PARTIAL_RESULTS = ("*fp32", "*fp32", "*fp32")
"""Accumulators, `row_max` and `row_sum` of each split."""

_STATE = "accumulator, row_sum, row_max"
_SPLIT_STATE = "split_accumulator, split_sum, split_max"


@dataclasses.dataclass(frozen=True, slots=True)
class KvSplits:
    """The split of the keys.

    Attributes:
      count: splits of a head at most; the grid has as many CTAs along z.
      keys: keys of a split, a multiple of the block, as text.
    """

    count: int
    keys: str


def plan(
    analysis: AttentionAnalysis, config: AttentionConfig, num_splits: int, target: Target
) -> Plan:
    """Plans both kernels.

    Args:
      analysis: the attention, without a causal mask and with a known number of queries.
      config: the block sizes, warps and stages of the kernel that walks over keys.
      num_splits: splits of a head at most, from `heuristics.num_kv_splits`.
      target: the machine that is compiled for.

    Raises:
      Unsupported: an op has no form in Triton.
      Conflict: prologue or epilogue have loops that the attention has not.
    """
    splits = _splits(analysis.sizes, config, num_splits, target)
    return _merge(analysis, splits, _partial(analysis, config, splits, target))


def _splits(
    sizes: AttentionSizes, config: AttentionConfig, num_splits: int, target: Target
) -> KvSplits:
    """Splits of equal numbers of blocks; with dynamic sizes a function of them."""
    block_n = config.block_n
    if sizes.keys is not None and not sizes.dynamic_batch:
        keys = -(-sizes.keys // (num_splits * block_n)) * block_n
        return KvSplits(-(-sizes.keys // keys), str(keys))
    num_tiles = -(-(sizes.queries or 1) // config.block_m)
    arguments = {
        "keys": sizes.keys_text,
        "num_tiles": f"{num_tiles} * {sizes.heads_text}",
        "max_ctas": heuristics.max_resident_ctas(target),
        "min_keys": heuristics.min_keys_per_split(sizes),
        "block_n": block_n,
    }
    named = ", ".join(f"{name}={value}" for name, value in arguments.items())
    return KvSplits(num_splits, f"attention.keys_per_split({named})")


def _partial(
    analysis: AttentionAnalysis, config: AttentionConfig, splits: KvSplits, target: Target
) -> Plan:
    """The kernel whose CTAs walk over the keys of one split."""
    sizes = analysis.sizes
    tiles = attention_tiles(analysis, config.block_m)
    writer = tiles.body.writer
    online_softmax.write_query_indices(writer, sizes, config)
    online_softmax.write_initial_state(writer, sizes, config.block_m)
    online_softmax.write_query_load(tiles, analysis, config.block_m)
    ranges = _key_ranges(writer, analysis, config, splits)
    online_softmax.write_key_loops(tiles, analysis, config, ranges, target)
    row_mask, tile_mask = online_softmax.row_masks(sizes, config.block_m)
    writer.line(f"row = {_partial_row(sizes, 'tl.program_id(2)')}")
    elements = f"y0 + row * {sizes.v_head_size} + offs_dv"
    writer.line(f"tl.store({elements}, accumulator, mask={tile_mask})")
    writer.line(f"tl.store(y1 + row, row_max, mask={row_mask})")
    writer.line(f"tl.store(y2 + row, row_sum, mask={row_mask})")
    dynamic = (*sizes.dynamic_index(BATCH_SIZE), *sizes.dynamic_index(QUERY_SIZE))
    rows = Extent(splits.count), Extent(sizes.heads * (sizes.queries or 1), sizes=dynamic)
    program = attention_program(
        tiles,
        config,
        sizes.dynamic,
        PARTIAL_RESULTS,
        f"Flash decoding, {config.block_m} queries and {config.block_n} keys at a time.",
    )
    return Plan(
        program,
        tuple(tiles.operands),
        (),
        (analysis.query_tiles(config.block_m), Extent(1), Extent(splits.count)),
        analysis.dynamic_sizes,
        scratch=((*rows, Extent(sizes.v_head_size)), rows, rows),
    )


def _key_ranges(
    writer: Writer, analysis: AttentionAnalysis, config: AttentionConfig, splits: KvSplits
) -> list[KeyRange]:
    """The full blocks of a split that the mask may show, and the last, partial block."""
    sizes = analysis.sizes
    full = online_softmax.full_blocks(sizes, config.block_n)
    writer.line(f"split_keys = {splits.keys}")
    start, end = "tl.program_id(2) * split_keys", "tl.program_id(2) * split_keys + split_keys"
    first, seen = online_softmax.write_key_bounds(writer, analysis, config)
    writer.line(f"split_start = {f'tl.maximum({start}, {first})' if first else start}")
    writer.line(f"split_end = {f'tl.minimum({end}, {seen})' if seen else end}")
    end = "split_end"
    ranges = [KeyRange("split_start", f"tl.minimum({full}, {end})", masked=True, tail=False)]
    if sizes.has_key_tail(config.block_n):
        first, last = f"tl.maximum({full}, split_start)", f"tl.minimum({sizes.keys_text}, {end})"
        ranges.append(KeyRange(first, last, masked=True, tail=True))
    return ranges


def _merge(analysis: AttentionAnalysis, splits: KvSplits, partial: Plan) -> Plan:
    """The kernel that merges the splits of each query, and computes the epilogue."""
    sizes = analysis.sizes
    unrolled = splits.keys.isdecimal() and splits.count <= MAX_UNROLLED
    block_m = min(MAX_MERGE_BLOCK_M, power_of_two(sizes.queries or MAX_MERGE_BLOCK_M))
    config = AttentionConfig(block_m if unrolled else 1, 0, MERGE_WARPS, 1)
    tiles = attention_tiles(analysis, config.block_m)
    writer = tiles.body.writer
    online_softmax.write_query_indices(writer, sizes, config)
    online_softmax.write_initial_state(writer, sizes, config.block_m)
    if unrolled:
        with writer.indented(f"for split in tl.static_range({splits.count}):"):
            _write_split(writer, sizes, config.block_m)
    else:
        _write_tile_of_splits(writer, sizes, splits)
    online_softmax.write_result(tiles, analysis)
    note = "Merge of the splits of flash decoding."
    return results_plan(tiles, analysis, config, note, before=partial)


def _write_split(writer: Writer, sizes: AttentionSizes, block_m: int) -> None:
    """Merges a split of the queries of a tile."""
    row_mask, tile_mask = online_softmax.row_masks(sizes, block_m)
    writer.line(f"row = {_partial_row(sizes, 'split')}")
    elements = f"s0 + row * {sizes.v_head_size} + offs_dv"
    writer.line(f"split_accumulator = library.load({elements}, {tile_mask})")
    writer.line(f"split_max = library.load(s1 + row, {row_mask})")
    writer.line(f"split_sum = library.load(s2 + row, {row_mask})")
    writer.line(f"{_STATE} = attention.merge_splits({_SPLIT_STATE}, {_STATE})")


def _write_tile_of_splits(writer: Writer, sizes: AttentionSizes, splits: KvSplits) -> None:
    """Merges the splits of one query, a tile of them at a time."""
    row_mask, tile_mask = online_softmax.row_masks(sizes, 1)
    most = max(1, MAX_TILE_ELEMENTS // padded_head(sizes.v_head_size))
    height = min(power_of_two(splits.count), most)
    writer.line(f"num_splits = tl.cdiv({sizes.keys_text}, {splits.keys})")
    with writer.indented(f"for first in range(0, num_splits, {height}):"):
        writer.line(f"split = first + tl.arange(0, {height})[:, None]")
        writer.line("present = split < num_splits")
        writer.line(f"row = {_partial_row(sizes, 'split')}")
        masks = [
            f"present & {mask}" if mask != "None" else "present" for mask in (row_mask, tile_mask)
        ]
        elements = f"s0 + row * {sizes.v_head_size} + offs_dv"
        writer.line(f"accumulators = library.load({elements}, {masks[1]})")
        writer.line(f"maxima = tl.load(s1 + row, mask={masks[0]}, other=float('-inf'))")
        writer.line(f"sums = library.load(s2 + row, {masks[0]})")
        merged = "attention.merged_splits(accumulators, sums, maxima)"
        writer.line(f"{_SPLIT_STATE} = {merged}")
        writer.line(f"{_STATE} = attention.merge_splits({_SPLIT_STATE}, {_STATE})")


def _partial_row(sizes: AttentionSizes, split: str) -> str:
    """The index of a query among those of all heads and splits."""
    queries = sizes.queries_text
    return f"{split} * ({sizes.heads_text} * {queries}) + head * {queries} + offs_m"
