"""Tiles, scores and softmax that the attention kernels for Hopper share, in Gluon.

A warpgroup computes 64 queries. It walks over the blocks of keys from the last to the first, so
that the blocks that a causal mask or the end of the keys cuts come first.

Names: `scores` q times k, `probs` the weights of a block, `row_max` and `row_sum` the state of the
online softmax, `accumulator` the weighted sum of values.
"""

import dataclasses

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma

BLOCK_M = gl.constexpr(64)
"""Queries of a warpgroup: rows of its matrix instruction."""

NUM_BUFFERS = gl.constexpr(2)
"""Blocks of keys, and of values, in shared memory."""


@dataclasses.dataclass(frozen=True)
class AttentionSpec:
    """Compile-time parameters of a kernel.

    Attributes:
      q_stride: elements between neighboring queries.
      k_stride: elements between neighboring keys.
      v_stride: elements between neighboring values.
      y_stride: elements between neighboring rows of the result.
      block_n: keys of a block.
      head_size: columns of a tile: 64, 128 or 256.
      head_elements: elements of a query, key or value; tiles have zeros behind them.
      query_tail: whether the last tile of queries may be partial.
      key_tail: whether the last block of keys may be partial.
      wide_offsets: whether 32 bits may not index the elements of a tensor.
      causal: whether a query sees no keys after its own index.
      heads_first: whether tiles of all heads precede the next tile of a head.
      scale: factor of the scores times log2(e), above zero.
    """

    q_stride: int
    k_stride: int
    v_stride: int
    y_stride: int
    block_n: int
    head_size: int
    head_elements: int
    query_tail: bool
    key_tail: bool
    wide_offsets: bool
    causal: bool
    heads_first: bool
    scale: float


# Triton caches kernels by the text of such functions, not by that of a class.
@gluon.constexpr_function
def attention_spec(**fields):
    """An `AttentionSpec`, in a kernel's source."""
    return AttentionSpec(**fields)


@gluon.constexpr_function
def query_buffers(head_size):
    """Tiles of queries in shared memory for each consumer: one of long heads."""
    return 1 if head_size > 128 else 2


@gluon.constexpr_function
def copy_layout(head_size):
    """The layout of tiles on their way from and to global memory: 16 bytes for each thread."""
    return gl.BlockedLayout([1, 8], [256 // head_size, head_size // 8], [4, 1], [1, 0])


@gluon.constexpr_function
def mma_layout(block_n):
    """The layout of results of matrix instructions, 16 rows for each warp."""
    return gl.NVMMADistributedLayout([3, 0], [4, 1], [16, block_n, 16])


@gluon.jit
def row_indices(start, count: gl.constexpr, head_size: gl.constexpr):
    """Indices of `count` rows of a tile, shape [count, 1]."""
    return (start + gl.arange(0, count, layout=gl.SliceLayout(1, copy_layout(head_size))))[:, None]


@gluon.jit
def inside(rows, element, spec: gl.constexpr):
    """The mask of rows together with that of the elements of a head; None where both are whole.

    Args:
      rows: the mask of rows, shape [rows, 1], or None.
      element: indices of the columns, shape [1, head_size].
      spec: an `AttentionSpec`.
    """
    mask = rows
    if spec.head_elements != spec.head_size:
        mask = element < spec.head_elements
        if rows is not None:
            mask = rows & mask
    return mask


@gluon.jit
def element_indices(head_size: gl.constexpr):
    """Indices of the elements of a row, shape [1, head_size]."""
    return gl.arange(0, head_size, layout=gl.SliceLayout(0, copy_layout(head_size)))[None, :]


@gluon.jit
def row_offset(index, stride: gl.constexpr, spec: gl.constexpr):
    """Elements from the first query or key of a head to the one of an index."""
    if spec.wide_offsets:
        index = index.to(gl.int64)
    return index * stride


@gluon.jit
def offsets_of_head(head, sizes, head_offsets: gl.constexpr, spec: gl.constexpr):
    """Offsets of a head in q, k, v and the result."""
    if spec.wide_offsets:
        head = head.to(gl.int64)
    return head_offsets(head, sizes[1], sizes[2])


@gluon.jit
def head_and_tile(index, block_m: gl.constexpr, sizes, spec: gl.constexpr):
    """The head, and the index of the tile of queries in it, of a tile of the grid."""
    num_heads = sizes[0]
    num_tiles = (sizes[1] + block_m - 1) // block_m
    if spec.heads_first:
        head = index % num_heads
        tile = index // num_heads
    else:
        head = index // num_tiles
        tile = index % num_tiles
    if spec.causal:
        # The last queries see the most keys, and start first.
        tile = num_tiles - 1 - tile
    return head, tile


@gluon.jit
def num_key_blocks(tile, block_m: gl.constexpr, sizes, spec: gl.constexpr):
    """Blocks of keys that a tile of queries sees; an empty one where there are no keys."""
    count = (sizes[2] + spec.block_n - 1) // spec.block_n
    if spec.wide_offsets:
        count = gl.maximum(count, 1)
    if spec.causal:
        count = gl.minimum(count, ((tile + 1) * block_m + spec.block_n - 1) // spec.block_n)
    return count


@gluon.jit
def allocate_buffers(source, count: gl.constexpr, rows: gl.constexpr, spec: gl.constexpr):
    """Buffers in shared memory for tiles of a tensor, shape [count, rows, head_size]."""
    dtype: gl.constexpr = source.dtype.element_ty
    layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([rows, spec.head_size], dtype)
    return gl.allocate_shared_memory(dtype, [count, rows, spec.head_size], layout)


@gluon.jit
def initial_state(first_query, spec: gl.constexpr):
    """Indices of 64 queries, and accumulator, row_max and row_sum before the first block."""
    row_layout: gl.constexpr = gl.SliceLayout(1, mma_layout(spec.block_n))
    query = first_query + gl.arange(0, BLOCK_M, layout=row_layout)
    accumulator = gl.full([BLOCK_M, spec.head_size], 0.0, gl.float32, mma_layout(spec.head_size))
    row_max = gl.full([BLOCK_M], float("-inf"), gl.float32, row_layout)
    return query, accumulator, row_max, gl.full([BLOCK_M], 0.0, gl.float32, row_layout)


@gluon.jit
def first_probs(q_tile, k_block, query, start, row_max, row_sum, sizes, spec: gl.constexpr):
    """The weights of the first block, which the mask or the end of the keys may cut."""
    scores = score_block(q_tile, k_block, spec, False)
    num_keys = sizes[2] if spec.key_tail else None
    scores = mask_scores(scores, query, start, spec.causal, num_keys, spec)
    probs, _, row_max, row_sum = softmax_step(scores, row_max, row_sum, spec)
    return mma_operand(probs, q_tile.dtype, spec), row_max, row_sum


@gluon.jit
def score_block(q_tile, k_block, spec: gl.constexpr, is_async: gl.constexpr):
    """Q times k, without a scale, shape [64, block_n]."""
    zeros = gl.full([BLOCK_M, spec.block_n], 0.0, gl.float32, mma_layout(spec.block_n))
    k_transposed = k_block.permute((1, 0))
    return warpgroup_mma(q_tile, k_transposed, zeros, use_acc=False, is_async=is_async)


@gluon.jit
def mask_scores(scores, query, start, causal: gl.constexpr, num_keys, spec: gl.constexpr):
    """The scores of a block, -inf after the query where causal, and from `num_keys` on."""
    key = start + gl.arange(0, spec.block_n, layout=gl.SliceLayout(0, scores.type.layout))
    if causal:
        scores = gl.where(query[:, None] >= key[None, :], scores, float("-inf"))
    if num_keys is not None:
        scores = gl.where((key < num_keys)[None, :], scores, float("-inf"))
    return scores


@gluon.jit
def softmax_step(scores, row_max, row_sum, spec: gl.constexpr):
    """The weights of a block, the factor of the state so far, and the new state."""
    next_max = gl.maximum(row_max, gl.max(scores, 1) * spec.scale)
    # While every key is masked, the difference to the maximum is not a number.
    base = gl.where(next_max == float("-inf"), 0.0, next_max)
    probs = gl.exp2(scores * spec.scale - base[:, None])
    factor = gl.exp2(row_max - base)
    return probs, factor, next_max, row_sum * factor + gl.sum(probs, 1)


@gluon.jit
def mma_operand(probs, dtype: gl.constexpr, spec: gl.constexpr):
    """Weights as the left operand, in registers, of the matmul with the values."""
    layout: gl.constexpr = gl.DotOperandLayout(0, mma_layout(spec.head_size), 2)
    return gl.convert_layout(probs.to(dtype), layout)


@gluon.jit
def rescale(accumulator, factor, spec: gl.constexpr):
    """The accumulator, against the largest score that is known now."""
    layout: gl.constexpr = gl.SliceLayout(1, mma_layout(spec.head_size))
    return accumulator * gl.convert_layout(factor, layout)[:, None]


@gluon.jit
def normalize(accumulator, row_sum, spec: gl.constexpr):
    """The weighted mean of the values."""
    layout: gl.constexpr = gl.SliceLayout(1, mma_layout(spec.head_size))
    return accumulator / gl.convert_layout(row_sum, layout)[:, None]
