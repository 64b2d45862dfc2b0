"""Attention on Hopper, in Gluon: asynchronous matmuls run under the softmax of one warpgroup.

For each block of keys q times k starts first, then the matmul of the weights of the block before
with its values; the softmax waits for the former alone. The warps that compute also load, with
`cp.async`, one block ahead. Several CTAs share an SM, so that matmuls of one run under the softmax
of others.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from mlirfuse.kernels.device.attention_softmax_sm90 import (
    BLOCK_M,
    NUM_BUFFERS,
    allocate_buffers,
    copy_layout,
    element_indices,
    first_probs,
    head_and_tile,
    initial_state,
    inside,
    mask_scores,
    mma_operand,
    normalize,
    num_key_blocks,
    offsets_of_head,
    rescale,
    row_indices,
    row_offset,
    score_block,
    softmax_step,
)
from mlirfuse.kernels.device.gluon_releases import async_load


@gluon.jit
def attention(q, k, v, y, sizes, head_offsets: gl.constexpr, spec: gl.constexpr):
    """Computes attention for 64 queries of one head.

    Args:
      q: pointer to the queries.
      k: pointer to the keys.
      v: pointer to the values.
      y: pointer to the result.
      sizes: the numbers of heads, of queries and of keys of each head.
      head_offsets: a function from a head, and the numbers of queries and keys, to the offsets of
        the head in q, k, v and the result.
      spec: an `AttentionSpec`.
    """
    block_n: gl.constexpr = spec.block_n
    head_size: gl.constexpr = spec.head_size
    head, tile = head_and_tile(gl.program_id(0), BLOCK_M, sizes, spec)
    q_start, k_start, v_start, y_start = offsets_of_head(head, sizes, head_offsets, spec)
    q_tile = allocate_buffers(q, 1, BLOCK_M, spec).index(0)
    k_buffers = allocate_buffers(k, NUM_BUFFERS, block_n, spec)
    v_buffers = allocate_buffers(v, NUM_BUFFERS, block_n, spec)
    num_blocks = num_key_blocks(tile, BLOCK_M, sizes, spec)
    last = (num_blocks - 1) * block_n
    row = row_indices(tile * BLOCK_M, BLOCK_M, head_size)
    element = element_indices(head_size)
    key = row_indices(0, block_n, head_size)
    k_pointers = k + k_start + key * spec.k_stride + element
    v_pointers = v + v_start + key * spec.v_stride + element
    q_mask = None
    if spec.query_tail:
        q_mask = row < sizes[1]
    k_mask = None
    if spec.key_tail:
        k_mask = key < sizes[2] - last
    q_pointers = q + q_start + row_offset(row, spec.q_stride, spec) + element
    async_load(q_tile, q_pointers, mask=inside(q_mask, element, spec))
    k_last = k_pointers + row_offset(last, spec.k_stride, spec)
    async_load(k_buffers.index(0), k_last, mask=inside(k_mask, element, spec))
    async_copy.commit_group()
    v_last = v_pointers + row_offset(last, spec.v_stride, spec)
    async_load(v_buffers.index(0), v_last, mask=inside(k_mask, element, spec))
    k_next = k_pointers + row_offset(last - block_n, spec.k_stride, spec)
    k_mask = inside((num_blocks > 1) & (key >= 0), element, spec)
    async_load(k_buffers.index(1), k_next, mask=k_mask)
    async_copy.commit_group()
    async_copy.wait_group(1)
    fence_async_shared()
    query, accumulator, row_max, row_sum = initial_state(tile * BLOCK_M, spec)
    probs, row_max, row_sum = first_probs(
        q_tile, k_buffers.index(0), query, last, row_max, row_sum, sizes, spec
    )
    iteration = 1
    if spec.causal:
        for _ in range((BLOCK_M - 1) // block_n):
            if iteration < num_blocks:
                probs, accumulator, row_max, row_sum = _key_block(
                    q_tile, k_buffers, v_buffers, k_pointers, v_pointers, key, iteration,
                    num_blocks, query, probs, accumulator, row_max, row_sum, True, spec
                )  # fmt: skip
                iteration += 1
    for unmasked in range(iteration, num_blocks):
        probs, accumulator, row_max, row_sum = _key_block(
            q_tile, k_buffers, v_buffers, k_pointers, v_pointers, key, unmasked,
            num_blocks, query, probs, accumulator, row_max, row_sum, False, spec
        )  # fmt: skip
    async_copy.wait_group(0)
    fence_async_shared()
    v_first = v_buffers.index((num_blocks - 1) % NUM_BUFFERS)
    accumulator = warpgroup_mma(probs, v_first, accumulator)
    accumulator = normalize(accumulator, row_sum, spec)
    result = gl.convert_layout(accumulator.to(y.dtype.element_ty), copy_layout(head_size))
    y_mask = inside(q_mask, element, spec)
    gl.store(y + y_start + row_offset(row, spec.y_stride, spec) + element, result, mask=y_mask)


@gluon.jit
def _key_block(
    q_tile,
    k_buffers,
    v_buffers,
    k_pointers,
    v_pointers,
    key,
    iteration,
    num_blocks,
    query,
    probs,
    accumulator,
    row_max,
    row_sum,
    causal: gl.constexpr,
    spec: gl.constexpr,
):
    """Accumulates the values of the block before, and computes the weights of this one."""
    start = (num_blocks - 1 - iteration) * spec.block_n
    async_copy.wait_group(0)
    fence_async_shared()
    scores = score_block(q_tile, k_buffers.index(iteration % NUM_BUFFERS), spec, True)
    v_before = v_buffers.index((iteration - 1) % NUM_BUFFERS)
    accumulator = warpgroup_mma(probs, v_before, accumulator, is_async=True)
    v_buffer = v_buffers.index(iteration % NUM_BUFFERS)
    element = element_indices(spec.head_size)
    v_mask = inside(None, element, spec)
    v_next = v_pointers + row_offset(start, spec.v_stride, spec)
    async_load(v_buffer, v_next, mask=v_mask)
    k_next = k_pointers + row_offset(start - spec.block_n, spec.k_stride, spec)
    k_mask = inside((iteration + 1 < num_blocks) & (key >= 0), element, spec)
    async_load(k_buffers.index((iteration + 1) % NUM_BUFFERS), k_next, mask=k_mask)
    async_copy.commit_group()
    scores = warpgroup_mma_wait(1, deps=[scores])
    scores = mask_scores(scores, query, start, causal, None, spec)
    next_probs, factor, row_max, row_sum = softmax_step(scores, row_max, row_sum, spec)
    following = mma_operand(next_probs, probs.dtype, spec)
    accumulator, probs = warpgroup_mma_wait(0, deps=[accumulator, probs])
    return following, rescale(accumulator, factor, spec), row_max, row_sum
