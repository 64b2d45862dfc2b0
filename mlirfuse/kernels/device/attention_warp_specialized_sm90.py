"""Attention on Hopper, in Gluon: producer warps, and two consumer warpgroups in ping-pong.

A CTA computes tiles of 128 queries, one after the other, 64 in each consumer warpgroup. The
consumers take turns in starting matmuls, so that the softmax of one runs under the matmuls of the
other. Four producer warps load blocks into ring buffers with `cp.async`; `full` and `empty`
barriers of each buffer tell consumers and producer, and the producer goes on to the next tile while
the consumers end this one.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
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
    query_buffers,
    rescale,
    row_indices,
    row_offset,
    score_block,
    softmax_step,
)
from mlirfuse.kernels.device.gluon_releases import (
    allocate_barriers,
    arrive_barrier,
    async_load,
    sync_barrier,
)

WARPS = gl.constexpr(4)
"""Warps of the producer, and of each consumer."""

TAIL_ROWS = gl.constexpr(16)
"""Rows of a partial tile that the producer loads at a time, with its few registers."""

CONSUMER_REGISTERS = gl.constexpr(240)
PRODUCER_REGISTERS = gl.constexpr(40)
"""Registers of a thread: 8 consumer and 4 producer warps have 65536 together."""


@gluon.jit
def attention(q, k, v, y, sizes, head_offsets: gl.constexpr, spec: gl.constexpr):
    """Computes attention for tiles of 128 queries; the arguments are those of the overlapped one.

    See `attention_overlapped_sm90.attention`.
    """
    buffers = (
        allocate_buffers(q, 2 * query_buffers(spec.head_size), BLOCK_M, spec),
        allocate_buffers(k, NUM_BUFFERS, spec.block_n, spec),
        allocate_buffers(v, NUM_BUFFERS, spec.block_n, spec),
    )
    full = (_barriers(WARPS * 32), _barriers(WARPS * 32), _barriers(WARPS * 32))
    empty = (_barriers(2), _barriers(2), _barriers(2))
    fence_async_shared()
    gl.warp_specialize(
        [
            (_consumer, (y, sizes, head_offsets, buffers, full, empty, 0, spec)),
            (_consumer, (y, sizes, head_offsets, buffers, full, empty, 1, spec)),
            (_producer, (q, k, v, sizes, head_offsets, buffers, full, empty, spec)),
        ],
        [WARPS, WARPS],
        [CONSUMER_REGISTERS, PRODUCER_REGISTERS],
    )


@gluon.jit
def _barriers(count: gl.constexpr):
    """A barrier of `count` arrivals for each buffer."""
    barriers = allocate_barriers(NUM_BUFFERS)
    for buffer in gl.static_range(NUM_BUFFERS):
        mbarrier.init(barriers.index(buffer), count=count)
    return barriers


@gluon.jit
def _num_rounds(sizes):
    """The number of tiles of this CTA."""
    num_tiles = sizes[0] * ((sizes[1] + 2 * BLOCK_M - 1) // (2 * BLOCK_M))
    rounds = num_tiles // gl.num_programs(0)
    return rounds + (_position(rounds) < num_tiles % gl.num_programs(0)).to(gl.int32)


@gluon.jit
def _position(index):
    """The position of this CTA in a round; every other round has the reverse order.

    Tiles of many keys come first, and no CTA gets the larger one in each round.
    """
    last = gl.num_programs(0) - 1
    return gl.where(index % 2 == 1, last - gl.program_id(0), gl.program_id(0))


@gluon.jit
def _head_and_tile(index, sizes, spec: gl.constexpr):
    """The head, and the tile in it, that this CTA computes in a round."""
    tile = index * gl.num_programs(0) + _position(index)
    return head_and_tile(tile, 2 * BLOCK_M, sizes, spec)


@gluon.jit
def _producer(q, k, v, sizes, head_offsets: gl.constexpr, buffers, full, empty, spec: gl.constexpr):
    """Loads tiles and blocks into buffers as they become empty."""
    block_n: gl.constexpr = spec.block_n
    num_tiles: gl.constexpr = query_buffers(spec.head_size)
    iteration = 0
    for index in range(_num_rounds(sizes)):
        head, tile = _head_and_tile(index, sizes, spec)
        q_start, k_start, v_start, _ = offsets_of_head(head, sizes, head_offsets, spec)
        num_blocks = num_key_blocks(tile, 2 * BLOCK_M, sizes, spec)
        for block in range(num_blocks):
            start = (num_blocks - 1 - block) * block_n
            rows_left = sizes[2] - start
            k_block = k + (k_start + row_offset(start, spec.k_stride, spec))
            _wait_empty(empty[1], iteration)
            k_buffer = buffers[1].index(iteration % NUM_BUFFERS)
            _load_rows(k_buffer, k_block, spec.k_stride, rows_left, spec.key_tail, spec)
            _arrive_full(full[1], iteration)
            if block == 0:
                first = tile * (2 * BLOCK_M)
                q_tile = q + (q_start + row_offset(first, spec.q_stride, spec))
                buffer = 2 * (index % num_tiles)
                queries_left = sizes[1] - first
                _wait_empty(empty[0], index, num_tiles)
                _load_rows(
                    buffers[0].index(buffer),
                    q_tile,
                    spec.q_stride,
                    queries_left,
                    spec.query_tail,
                    spec,
                )
                q_tile += BLOCK_M * spec.q_stride
                _load_rows(
                    buffers[0].index(buffer + 1),
                    q_tile,
                    spec.q_stride,
                    queries_left - BLOCK_M,
                    spec.query_tail,
                    spec,
                )
                _arrive_full(full[0], index, num_tiles)
            v_block = v + (v_start + row_offset(start, spec.v_stride, spec))
            _wait_empty(empty[2], iteration)
            v_buffer = buffers[2].index(iteration % NUM_BUFFERS)
            _load_rows(v_buffer, v_block, spec.v_stride, rows_left, spec.key_tail, spec)
            _arrive_full(full[2], iteration)
            iteration += 1
    async_copy.wait_group(0)


@gluon.jit
def _load_rows(
    buffer, first, stride: gl.constexpr, rows_left, tail: gl.constexpr, spec: gl.constexpr
):
    """Starts to load the rows of a buffer, of which `rows_left` exist where there is a tail.

    A mask takes more registers than a producer has: full tiles go without one, and partial ones
    a few rows at a time.
    """
    if tail:
        if rows_left < buffer.shape[0]:
            _load_partial(buffer, first, stride, rows_left, spec)
        else:
            _load_full(buffer, first, stride, spec)
    else:
        _load_full(buffer, first, stride, spec)


@gluon.jit
def _load_full(buffer, first, stride: gl.constexpr, spec: gl.constexpr):
    """Starts to load all rows of a buffer."""
    head_size: gl.constexpr = buffer.shape[1]
    row = row_indices(0, buffer.shape[0], head_size)
    element = element_indices(head_size)
    mask = inside(None, element, spec)
    async_load(buffer, first + (row * stride + element), mask=mask)


@gluon.jit
def _load_partial(buffer, first, stride: gl.constexpr, rows_left, spec: gl.constexpr):
    """Starts to load `rows_left` rows of a buffer, a few at a time; the others are zero."""
    head_size: gl.constexpr = buffer.shape[1]
    row = row_indices(0, TAIL_ROWS, head_size)
    element = element_indices(head_size)
    for part in gl.static_range(buffer.shape[0] // TAIL_ROWS):
        start = first + part * TAIL_ROWS * stride
        pointers = start + (row * stride + element)
        mask = inside(row < rows_left - part * TAIL_ROWS, element, spec)
        async_load(buffer.slice(part * TAIL_ROWS, TAIL_ROWS), pointers, mask=mask)


@gluon.jit
def _wait_empty(barriers, iteration, count: gl.constexpr = NUM_BUFFERS):
    """Waits until the consumers have left the buffer, of `count`, of an iteration."""
    barrier = barriers.index(iteration % count)
    mbarrier.wait(barrier, ((iteration // count) & 1) ^ 1)


@gluon.jit
def _arrive_full(barriers, iteration, count: gl.constexpr = NUM_BUFFERS):
    """Arrives once all that was loaded for an iteration is in shared memory."""
    async_copy.mbarrier_arrive(barriers.index(iteration % count), increment_count=False)


@gluon.jit
def _wait_full(barriers, iteration, pred, count: gl.constexpr = NUM_BUFFERS):
    """Waits until the buffer of an iteration is loaded, where `pred` holds."""
    barrier = barriers.index(iteration % count)
    mbarrier.wait(barrier, (iteration // count) & 1, pred=pred)
    fence_async_shared()


@gluon.jit
def _arrive_empty(barriers, iteration, count: gl.constexpr = NUM_BUFFERS):
    """Leaves the buffer of an iteration to the producer."""
    mbarrier.arrive(barriers.index(iteration % count), count=1)


@gluon.jit
def _consumer(
    y,
    sizes,
    head_offsets: gl.constexpr,
    buffers,
    full,
    empty,
    consumer: gl.constexpr,
    spec: gl.constexpr,
):
    """Computes 64 queries of each tile as blocks are loaded."""
    row = row_indices(0, BLOCK_M, spec.head_size)
    element = element_indices(spec.head_size)
    num_tiles: gl.constexpr = query_buffers(spec.head_size)
    iteration = 0
    if consumer == 1:
        _end_turn(consumer)
    for index in range(_num_rounds(sizes)):
        head, tile = _head_and_tile(index, sizes, spec)
        _, _, _, y_start = offsets_of_head(head, sizes, head_offsets, spec)
        first = tile * (2 * BLOCK_M) + consumer * BLOCK_M
        num_blocks = num_key_blocks(tile, 2 * BLOCK_M, sizes, spec)
        q_tile = buffers[0].index(2 * (index % num_tiles) + consumer)
        query, accumulator, row_max, row_sum = initial_state(first, spec)
        _wait_full(full[0], index, True, num_tiles)
        _wait_full(full[1], iteration, True)
        last = (num_blocks - 1) * spec.block_n
        k_buffer = buffers[1].index(iteration % NUM_BUFFERS)
        probs, row_max, row_sum = first_probs(
            q_tile, k_buffer, query, last, row_max, row_sum, sizes, spec
        )
        _arrive_empty(empty[1], iteration)
        _wait_full(full[1], iteration + 1, num_blocks > 1)
        block = 1
        if spec.causal:
            for _ in range((2 * BLOCK_M - 1) // spec.block_n):
                if block < num_blocks:
                    probs, accumulator, row_max, row_sum = _key_block(
                        q_tile, buffers, full, empty, consumer, iteration + block, block,
                        num_blocks, query, probs, accumulator, row_max, row_sum, True, spec
                    )  # fmt: skip
                    block += 1
        for unmasked in range(block, num_blocks):
            probs, accumulator, row_max, row_sum = _key_block(
                q_tile, buffers, full, empty, consumer, iteration + unmasked, unmasked,
                num_blocks, query, probs, accumulator, row_max, row_sum, False, spec
            )  # fmt: skip
        iteration += num_blocks
        _wait_full(full[2], iteration - 1, True)
        v_buffer = buffers[2].index((iteration - 1) % NUM_BUFFERS)
        accumulator = warpgroup_mma(probs, v_buffer, accumulator)
        _arrive_empty(empty[2], iteration - 1)
        accumulator = normalize(accumulator, row_sum, spec)
        q_tile.store(accumulator.to(y.dtype.element_ty))
        result = q_tile.load(copy_layout(spec.head_size))
        _arrive_empty(empty[0], index, num_tiles)
        y_mask = None
        if spec.query_tail:
            y_mask = row < sizes[1] - first
        y_tile = y_start + row_offset(first, spec.y_stride, spec)
        y_mask = inside(y_mask, element, spec)
        gl.store(y + y_tile + (row * spec.y_stride + element), result, mask=y_mask)
    if consumer == 0:
        _begin_turn(consumer)


@gluon.jit
def _key_block(
    q_tile,
    buffers,
    full,
    empty,
    consumer: gl.constexpr,
    iteration,
    block,
    num_blocks,
    query,
    probs,
    accumulator,
    row_max,
    row_sum,
    causal: gl.constexpr,
    spec: gl.constexpr,
):
    """Accumulates the values of the block before, and computes the weights of this one.

    The keys of this block are loaded; it waits for those of the next.
    """
    _begin_turn(consumer)
    scores = score_block(q_tile, buffers[1].index(iteration % NUM_BUFFERS), spec, True)
    _wait_full(full[2], iteration - 1, True)
    v_buffer = buffers[2].index((iteration - 1) % NUM_BUFFERS)
    accumulator = warpgroup_mma(probs, v_buffer, accumulator, is_async=True)
    _end_turn(consumer)
    scores = warpgroup_mma_wait(1, deps=[scores])
    _arrive_empty(empty[1], iteration)
    start = (num_blocks - 1 - block) * spec.block_n
    scores = mask_scores(scores, query, start, causal, None, spec)
    next_probs, factor, row_max, row_sum = softmax_step(scores, row_max, row_sum, spec)
    # ptxas moves the softmax past the wait for matmuls, but not past the branch of this one.
    _wait_full(full[1], iteration + 1, block + 1 < num_blocks)
    accumulator, probs, next_probs = warpgroup_mma_wait(0, deps=[accumulator, probs, next_probs])
    _arrive_empty(empty[2], iteration - 1)
    following = mma_operand(next_probs, probs.dtype, spec)
    return following, rescale(accumulator, factor, spec), row_max, row_sum


@gluon.jit
def _begin_turn(consumer: gl.constexpr):
    """Waits until the other consumer has started its matmuls.

    Triton numbers its barriers of warps from 0; 8 and 9 are the two consumers'.
    """
    if consumer == 0:
        sync_barrier(8, 256)
    else:
        sync_barrier(9, 256)


@gluon.jit
def _end_turn(consumer: gl.constexpr):
    """Lets the other consumer start its matmuls."""
    if consumer == 0:
        arrive_barrier(9, 256)
    else:
        arrive_barrier(8, 256)
