"""Flash attention in Triton: one CTA for a tile of queries of one head.

The CTA walks over the keys with an online softmax. Scores and weights stay in registers; blocks of
keys that the mask hides from all queries of the tile are left out, as far as it is computed from
their indices.
"""

from __future__ import annotations

from mlirfuse.kernels.attention import online_softmax
from mlirfuse.kernels.attention.analysis import AttentionAnalysis, problem_of
from mlirfuse.kernels.attention.online_softmax import KeyRange
from mlirfuse.kernels.attention.problem import AttentionConfig
from mlirfuse.kernels.attention.tiles import attention_tiles, results_plan
from mlirfuse.kernels.codegen.writer import Writer
from mlirfuse.kernels.plan import Plan
from mlirfuse.targets.base import Target


def plan(analysis: AttentionAnalysis, config: AttentionConfig, target: Target) -> Plan:
    """Plans the kernel.

    Args:
      analysis: the attention.
      config: the block sizes, warps and stages.
      target: the machine that is compiled for.

    Raises:
      Unsupported: an op has no form in Triton.
      Conflict: prologue or epilogue have loops that the attention has not.
    """
    sizes = analysis.sizes
    tiles = attention_tiles(analysis, config.block_m)
    writer = tiles.body.writer
    online_softmax.write_query_indices(writer, sizes, config, causal=analysis.causal)
    online_softmax.write_initial_state(writer, sizes, config.block_m)
    online_softmax.write_query_load(tiles, analysis, config.block_m)
    ranges = _key_ranges(writer, analysis, config)
    online_softmax.write_key_loops(tiles, analysis, config, ranges, target)
    online_softmax.write_result(tiles, analysis)
    return results_plan(
        tiles,
        analysis,
        config,
        f"Flash attention, {config.block_m} queries and {config.block_n} keys at a time.",
        problem=None if sizes.dynamic else problem_of(analysis),
    )


def _key_ranges(
    writer: Writer, analysis: AttentionAnalysis, config: AttentionConfig
) -> list[KeyRange]:
    """The keys that no mask concerns, and those of the diagonal or of the last, partial block."""
    sizes, block_m, block_n = analysis.sizes, config.block_m, config.block_n
    full, end = online_softmax.full_blocks(sizes, block_n), sizes.keys_text
    if analysis.causal:
        diagonal = f"(tile * {block_m} + 1) // {block_n} * {block_n}"
        writer.line(f"unmasked_end = tl.minimum({full}, {diagonal})")
        full, end = "unmasked_end", f"tl.minimum({end}, (tile + 1) * {block_m})"
        return [
            KeyRange("0", full, masked=False, tail=False),
            KeyRange(full, end, masked=True, tail=True),
        ]
    start, seen = online_softmax.write_key_bounds(writer, analysis, config)
    last = f"tl.minimum({full}, {seen})" if seen else full
    ranges = [KeyRange(start or "0", last, masked=True, tail=False)]
    if sizes.has_key_tail(block_n):
        first = f"tl.maximum({full}, {start})" if start else full
        ranges.append(
            KeyRange(first, f"tl.minimum({end}, {seen})" if seen else end, masked=True, tail=True)
        )
    return ranges
