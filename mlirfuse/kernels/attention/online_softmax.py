"""Source of flash attention in Triton: the online softmax of a tile of queries over blocks of keys.

The state of a query is its `row_max`, the largest scaled score so far, its `row_sum`, the sum of
the exponentials, and its row of the `accumulator`, the sum of the weighted values.
"""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.attention import mask_bounds
from mlirfuse.kernels.attention.analysis import AttentionAnalysis
from mlirfuse.kernels.attention.problem import AttentionConfig
from mlirfuse.kernels.attention.scores import write_scores
from mlirfuse.kernels.attention.sizes import AttentionSizes, padded_head
from mlirfuse.kernels.attention.tiles import operand_axes, operand_tile
from mlirfuse.kernels.codegen.dot_precision import dot_precision, precision_argument
from mlirfuse.kernels.codegen.element_types import TYPES
from mlirfuse.kernels.codegen.tile_writer import Tiles, returned
from mlirfuse.kernels.codegen.writer import Writer
from mlirfuse.structured.ir import marks, ops
from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True)
class KeyRange:
    """Blocks of keys that a loop walks, as text.

    Attributes:
      start: index of the first key, a multiple of the block or the end.
      end: index after the last key.
      masked: whether the mask is applied.
      tail: whether the last block may end beyond the last key.
    """

    start: str
    end: str
    masked: bool
    tail: bool


def full_blocks(sizes: AttentionSizes, block_n: int) -> str:
    """The number of keys in full blocks, as text."""
    if sizes.keys:
        return str(sizes.keys // block_n * block_n)
    return f"({sizes.keys_text} // {block_n} * {block_n})"


def write_key_bounds(
    writer: Writer, analysis: AttentionAnalysis, config: AttentionConfig
) -> tuple[str, str]:
    """Writes the keys that the mask may show to a CTA's queries.

    Returns:
      The first one, a multiple of the block, and the end; empty texts where it may be any.
    """
    found = mask_bounds.bounds(analysis)
    if not found.low and not found.end:
        return "", ""
    writer.line(f"{mask_bounds.FIRST_M} = tile * {config.block_m}")
    writer.line(f"{mask_bounds.LAST_M} = {mask_bounds.FIRST_M} + {config.block_m - 1}")
    if found.low:
        first = f"tl.maximum({found.low}, 0) // {config.block_n} * {config.block_n}"
        writer.line(f"keys_start = {first}")
    if found.end:
        writer.line(f"keys_end = {found.end}")
    return "keys_start" if found.low else "", "keys_end" if found.end else ""


def write_query_indices(
    writer: Writer, sizes: AttentionSizes, config: AttentionConfig, *, causal: bool = False
) -> None:
    """Writes the head and the queries of a CTA: `head`, `tile`, `offs_m` and `mask_m`."""
    block_m = config.block_m
    order = "pid // num_tiles, pid % num_tiles"
    if config.heads_first:
        order = f"pid % {sizes.heads_text}, pid // {sizes.heads_text}"
    writer.line("pid = tl.program_id(0)")
    writer.line(f"num_tiles = tl.cdiv({sizes.queries_text}, {block_m})")
    writer.line(f"head, tile = {order}")
    if causal:
        # The last queries see the most keys, and start first.
        writer.line("tile = num_tiles - 1 - tile")
    if sizes.index_cast:
        writer.line(f"head = head{sizes.index_cast}")
    offsets = f"tile * {block_m} + tl.arange(0, {block_m}){sizes.index_cast}"
    writer.line(f"offs_m = ({offsets})[:, None]")
    writer.line(f"mask_m = offs_m < {sizes.queries_text}")


def write_initial_state(writer: Writer, sizes: AttentionSizes, block_m: int) -> None:
    """Writes the state before the first key, and the indices of a value's elements."""
    v_head = padded_head(sizes.v_head_size)
    writer.line(f"offs_dv = tl.arange(0, {v_head})[None, :]")
    writer.line(f"mask_dv = offs_dv < {sizes.v_head_size}")
    writer.line(f'row_max = tl.full([{block_m}, 1], float("-inf"), tl.float32)')
    writer.line(f"row_sum = tl.zeros([{block_m}, 1], tl.float32)")
    writer.line(f"accumulator = tl.zeros([{block_m}, {v_head}], tl.float32)")


def write_query_load(tiles: Tiles, analysis: AttentionAnalysis, block_m: int) -> None:
    """Writes the load of the queries, `q`."""
    sizes, writer = analysis.sizes, tiles.body.writer
    q = operand_tile(tiles, analysis, 0)
    writer.line(f"offs_d = tl.arange(0, {padded_head(sizes.qk_head_size)})")
    mask = _qk_mask("mask_m" if sizes.has_query_tail(block_m) else "", sizes, "[None, :]")
    writer.line(f"q = library.load({q.pointers} + offs_d[None, :] * {q.head_stride}, {mask})")


def write_key_loops(
    tiles: Tiles,
    analysis: AttentionAnalysis,
    config: AttentionConfig,
    ranges: list[KeyRange],
    target: Target,
) -> None:
    """Writes loops over keys that update the state.

    Args:
      tiles: the writer of the kernel.
      analysis: the attention.
      config: block sizes.
      ranges: keys of each loop.
      target: the machine, with the precision of f32.
    """
    precision = precision_argument(dot_precision(analysis.operand_type, target))
    precision_of_v = precision_argument(
        dot_precision(
            analysis.operand_type,
            target,
            block_m=config.block_m,
            num_warps=config.num_warps,
            b_k_contiguous=False,
        )
    )
    sizes, writer, block_n = analysis.sizes, tiles.body.writer, config.block_n
    k, v = (operand_tile(tiles, analysis, n) for n in (1, 2))
    for keys in ranges:
        tail = keys.tail and sizes.has_key_tail(block_n)
        offsets = f"start + tl.arange(0, {block_n}){sizes.index_cast}"
        with writer.indented(f"for start in range({keys.start}, {keys.end}, {block_n}):"):
            _write_key_indices(writer, f"({offsets})[None, :]", sizes, tail=tail)
            k_mask = _qk_mask("mask_n" if tail else "", sizes, "[:, None]")
            pointers = f"{k.pointers} + offs_d[:, None] * {k.head_stride}"
            writer.line(f"k = library.load({pointers}, {k_mask})")
            writer.line(f"score = tl.dot(q, k{precision})")
            scale = write_scores(tiles, analysis, masked=keys.masked, key_tail=tail)
            _write_key_indices(writer, f"({offsets})[:, None]", sizes, tail=tail)
            v_mask = _mask_of(["mask_n"] if tail else [], sizes)
            writer.line(f"v = library.load({v.pointers}, {v_mask})")
            state = "accumulator, row_sum, row_max"
            update = f"attention.online_softmax_step(score, {scale!r}, v, {state}{precision_of_v})"
            writer.line(f"{state} = {update}")


def _write_key_indices(writer: Writer, text: str, sizes: AttentionSizes, *, tail: bool) -> None:
    writer.line(f"offs_n = {text}")
    if tail:
        writer.line(f"mask_n = offs_n < {sizes.keys_text}")


def write_result(tiles: Tiles, analysis: AttentionAnalysis) -> None:
    """Writes the division by `row_sum`, the epilogue and the stores of the results."""
    result = analysis.op.results[0]
    tiles.body.writer.line("accumulator = accumulator / row_sum")
    tiles.forget_loads()
    tiles.define(result, tiles.body.name(f"accumulator.to({TYPES[ops.element_type(result)]})"))
    for op in analysis.epilogue:
        if marks.MASKED_ATTRIBUTE in op.attributes:
            sign = "==" if op.attributes[marks.MASKED_ATTRIBUTE].value else "!="
            tiles.define(op.operands[0], tiles.body.name(f'row_max {sign} float("-inf")'))
        tiles.elementwise(op)
    for index, value in enumerate(returned(analysis.region)):
        axes = operand_axes(analysis, -1) if value == result else tiles.written_axes(value)
        tiles.store(f"y{index}", value, axes)


def row_masks(sizes: AttentionSizes, block_m: int) -> tuple[str, str]:
    """Masks of a number for each query, and of a row of values for each query."""
    rows = ["mask_m"] if sizes.has_query_tail(block_m) else []
    return " & ".join(rows) or "None", _mask_of(rows, sizes)


def _mask_of(masks: list[str], sizes: AttentionSizes) -> str:
    """The mask of a tile of values; `None` where it has all elements."""
    v_head = sizes.v_head_size
    padded = ["mask_dv"] if padded_head(v_head) != v_head else []
    return " & ".join([*masks, *padded]) or "None"


def _qk_mask(mask: str, sizes: AttentionSizes, broadcast: str) -> str:
    """The mask of a tile of q or k; `None` where it has all elements."""
    terms = [mask] if mask else []
    if padded_head(sizes.qk_head_size) != sizes.qk_head_size:
        terms.append(f"(offs_d < {sizes.qk_head_size}){broadcast}")
    return " & ".join(terms) or "None"
