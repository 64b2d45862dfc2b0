"""Attention on Hopper, in Gluon: products go on in the background while the softmax is computed.

For each block of keys the products with the queries start first, then those of the block before
with its values; the softmax needs the former alone. Blocks come by `cp.async`, the last block
first, so that what a mask closes in part is at the start.

ptxas moves instructions past a wait for products, but not past a branch: waits for the next block
stand where the softmax has to end before the products are waited for.

`attention` loads with the warps that compute, 64 queries at a time, and several workgroups share a
multiprocessor. `attention_with_loaders` has two groups of four warps for 64 queries each and four
more warps that load for both: heads of 128 fill a multiprocessor with one workgroup.
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

TALL = gl.constexpr(64)
"""Queries of four warps."""

WARPS = gl.constexpr(4)

PLACES = gl.constexpr(2)
"""Blocks of keys, and of values, in workgroup memory."""

COMPUTING_REGISTERS = gl.constexpr(240)
LOADING_REGISTERS = gl.constexpr(40)
"""Of a thread: 8 warps of the ones and 4 of the others have 65536 together."""


@gluon.constexpr_function
def _copied(width):
    """The layout of tiles on their way from and to memory: 16 bytes for each thread."""
    return gl.BlockedLayout([1, 8], [256 // width, width // 8], [4, 1], [1, 0])


@gluon.constexpr_function
def _products(width):
    """The layout of sums of products, 16 rows for each warp."""
    return gl.NVMMADistributedLayout([3, 0], [4, 1], [16, width, 16])


@gluon.jit
def _rows(start, count: gl.constexpr, width: gl.constexpr):
    """The numbers of `count` rows of a tile, shape [count, 1]."""
    return (start + gl.arange(0, count, layout=gl.SliceLayout(1, _copied(width))))[:, None]


@gluon.jit
def _columns(width: gl.constexpr):
    """The numbers of the columns of a tile, shape [1, width]."""
    return gl.arange(0, width, layout=gl.SliceLayout(0, _copied(width)))[None, :]


@gluon.jit
def _count(tile, tall: gl.constexpr, keys: gl.constexpr, block: gl.constexpr, causal: gl.constexpr):
    """How many blocks of keys a tile of queries sees."""
    count = (keys + block - 1) // block
    if causal:
        count = gl.minimum(count, ((tile + 1) * tall + block - 1) // block)
    return count


@gluon.jit
def _blocks(source, block: gl.constexpr, width: gl.constexpr):
    """Places for blocks of what a pointer points to."""
    dtype: gl.constexpr = source.dtype.element_ty
    layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([block, width], dtype)
    return gl.allocate_shared_memory(dtype, [PLACES, block, width], layout)


@gluon.jit
def _queries(source, width: gl.constexpr):
    """A place for the queries of four warps."""
    dtype: gl.constexpr = source.dtype.element_ty
    layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([TALL, width], dtype)
    return gl.allocate_shared_memory(dtype, [TALL, width], layout)


@gluon.jit
def attention(
    q,
    k,
    v,
    y,
    q_step: gl.constexpr,
    k_step: gl.constexpr,
    v_step: gl.constexpr,
    y_step: gl.constexpr,
    tile,
    queries: gl.constexpr,
    keys: gl.constexpr,
    block: gl.constexpr,
    width: gl.constexpr,
    causal: gl.constexpr,
    scale: gl.constexpr,
):
    """Writes the weighted means of values for 64 queries.

    Args:
      q: pointer to the first query of the head.
      k: the same of its keys.
      v: the same of its values.
      y: the same of its results.
      q_step: elements from one query to the next.
      k_step: the same of the keys.
      v_step: the same of the values.
      y_step: the same of the results.
      tile: number of the tile of queries.
      queries: how many there are.
      keys: the same of the keys.
      block: keys at a time.
      width: the size of a head, 64 or 128.
      causal: whether a query sees no keys after it.
      scale: what makes the scores powers of two; above zero.
    """
    sums: gl.constexpr = _products(width)
    q_tile = _queries(q, width)
    k_blocks = _blocks(k, block, width)
    v_blocks = _blocks(v, block, width)
    count = _count(tile, TALL, keys, block, causal)
    last = (count - 1) * block
    query = _rows(tile * TALL, TALL, width)
    column = _columns(width)
    key = _rows(0, block, width)
    k_tile = k + key * k_step + column
    v_tile = v + key * v_step + column
    there = None
    if queries % TALL:
        there = query < queries
    inside = None
    if keys % block:
        inside = key < keys - last
    async_copy.async_load(q_tile, q + query * q_step + column, mask=there)
    async_copy.async_load(k_blocks.index(0), k_tile + last * k_step, mask=inside)
    async_copy.commit_group()
    async_copy.async_load(v_blocks.index(0), v_tile + last * v_step, mask=inside)
    before = k_tile + (last - block) * k_step
    async_copy.async_load(k_blocks.index(1), before, mask=(count > 1) & (key >= 0))
    async_copy.commit_group()
    async_copy.wait_group(1)
    fence_async_shared()
    row, total, highest, weight = _nothing(tile * TALL, block, width)
    share, highest, weight = _first(
        q_tile, k_blocks, row, last, highest, weight, keys, block, width, causal, scale
    )
    async_copy.wait_group(0)
    fence_async_shared()
    turn = 1
    if causal:
        for _ in range((TALL - 1) // block):
            if turn < count:
                share, total, highest, weight = _step(
                    q_tile, k_blocks, v_blocks, k_tile, v_tile, key, turn, count, row, share,
                    total, highest, weight, k_step, v_step, keys, block, sums, True, scale
                )  # fmt: skip
                turn += 1
    for number in range(turn, count):
        share, total, highest, weight = _step(
            q_tile, k_blocks, v_blocks, k_tile, v_tile, key, number, count, row, share,
            total, highest, weight, k_step, v_step, keys, block, sums, False, scale
        )  # fmt: skip
    async_copy.wait_group(0)
    fence_async_shared()
    total = warpgroup_mma(share, v_blocks.index((count - 1) % PLACES), total)
    total = total / gl.convert_layout(weight, gl.SliceLayout(1, sums))[:, None]
    found = gl.convert_layout(total.to(y.dtype.element_ty), _copied(width))
    gl.store(y + query * y_step + column, found, mask=there)


@gluon.jit
def _step(
    q_tile,
    k_blocks,
    v_blocks,
    k_tile,
    v_tile,
    key,
    turn,
    count,
    row,
    share,
    total,
    highest,
    weight,
    k_step: gl.constexpr,
    v_step: gl.constexpr,
    keys: gl.constexpr,
    block: gl.constexpr,
    sums: gl.constexpr,
    causal: gl.constexpr,
    scale: gl.constexpr,
):
    """Adds the values of the block before to `total`, and computes the weights of this one."""
    start = (count - 1 - turn) * block
    async_copy.async_load(v_blocks.index(turn % PLACES), v_tile + start * v_step)
    before = k_tile + (start - block) * k_step
    more = (turn + 1 < count) & (key >= 0)
    async_copy.async_load(k_blocks.index((turn + 1) % PLACES), before, mask=more)
    async_copy.commit_group()
    score = _scores(q_tile, k_blocks.index(turn % PLACES), block, True)
    total = warpgroup_mma(share, v_blocks.index((turn - 1) % PLACES), total, is_async=True)
    score = warpgroup_mma_wait(1, deps=[score])
    score = _closed(score, row, start, keys, block, causal, False)
    power, factor, highest, weight = _powers(score, highest, weight, scale)
    if turn + 1 < count:
        async_copy.wait_group(0)
        fence_async_shared()
    total, share, power = warpgroup_mma_wait(0, deps=[total, share, power])
    following = _operand(power, sums, share.dtype)
    total = total * gl.convert_layout(factor, gl.SliceLayout(1, sums))[:, None]
    return following, total, highest, weight


@gluon.jit
def attention_with_loaders(
    q,
    k,
    v,
    y,
    q_step: gl.constexpr,
    k_step: gl.constexpr,
    v_step: gl.constexpr,
    y_step: gl.constexpr,
    tile,
    queries: gl.constexpr,
    keys: gl.constexpr,
    block: gl.constexpr,
    width: gl.constexpr,
    causal: gl.constexpr,
    scale: gl.constexpr,
):
    """The same for 128 queries, by two groups of warps, and a third one that loads; whole tiles."""
    one = _queries(q, width)
    other = _queries(q, width)
    k_blocks = _blocks(k, block, width)
    v_blocks = _blocks(v, block, width)
    k_loaded = mbarrier.allocate_mbarrier(batch=PLACES)
    v_loaded = mbarrier.allocate_mbarrier(batch=PLACES)
    k_free = mbarrier.allocate_mbarrier(batch=PLACES)
    v_free = mbarrier.allocate_mbarrier(batch=PLACES)
    for place in gl.static_range(PLACES):
        mbarrier.init(k_loaded.index(place), count=WARPS * 32)
        mbarrier.init(v_loaded.index(place), count=WARPS * 32)
        mbarrier.init(k_free.index(place), count=2)
        mbarrier.init(v_free.index(place), count=2)
    fence_async_shared()
    count = _count(tile, 2 * TALL, keys, block, causal)
    first = tile * (2 * TALL)
    gl.warp_specialize(
        [
            (
                _compute,
                (
                    q, y, q_step, y_step, one, k_blocks, v_blocks, k_loaded, v_loaded, k_free,
                    v_free, count, first, keys, block, width, causal, scale
                ),
            ),
            (
                _compute,
                (
                    q, y, q_step, y_step, other, k_blocks, v_blocks, k_loaded, v_loaded, k_free,
                    v_free, count, first + TALL, keys, block, width, causal, scale
                ),
            ),
            (
                _load,
                (
                    k, v, k_step, v_step, k_blocks, v_blocks, k_loaded, v_loaded, k_free, v_free,
                    count, block, width
                ),
            ),
        ],
        [WARPS, WARPS],
        [COMPUTING_REGISTERS, LOADING_REGISTERS],
    )  # fmt: skip


@gluon.jit
def _load(
    k,
    v,
    k_step: gl.constexpr,
    v_step: gl.constexpr,
    k_blocks,
    v_blocks,
    k_loaded,
    v_loaded,
    k_free,
    v_free,
    count,
    block: gl.constexpr,
    width: gl.constexpr,
):
    """Loads blocks into places as they become free."""
    key = _rows(0, block, width)
    column = _columns(width)
    for turn in range(0, count):
        place = turn % PLACES
        phase = (turn // PLACES) & 1
        start = (count - 1 - turn) * block
        mbarrier.wait(k_free.index(place), phase ^ 1)
        k_tile = k + start * k_step + (key * k_step + column)
        async_copy.async_load(k_blocks.index(place), k_tile)
        async_copy.mbarrier_arrive(k_loaded.index(place), increment_count=False)
        mbarrier.wait(v_free.index(place), phase ^ 1)
        v_tile = v + start * v_step + (key * v_step + column)
        async_copy.async_load(v_blocks.index(place), v_tile)
        async_copy.mbarrier_arrive(v_loaded.index(place), increment_count=False)
    async_copy.wait_group(0)


@gluon.jit
def _compute(
    q,
    y,
    q_step: gl.constexpr,
    y_step: gl.constexpr,
    q_tile,
    k_blocks,
    v_blocks,
    k_loaded,
    v_loaded,
    k_free,
    v_free,
    count,
    start,
    keys: gl.constexpr,
    block: gl.constexpr,
    width: gl.constexpr,
    causal: gl.constexpr,
    scale: gl.constexpr,
):
    """Computes 64 queries of blocks as they are loaded."""
    sums: gl.constexpr = _products(width)
    query = _rows(start, TALL, width)
    column = _columns(width)
    q_tile.store(gl.load(q + query * q_step + column))
    row, total, highest, weight = _nothing(start, block, width)
    mbarrier.wait(k_loaded.index(0), 0)
    fence_async_shared()
    last = (count - 1) * block
    share, highest, weight = _first(
        q_tile, k_blocks, row, last, highest, weight, keys, block, width, causal, scale
    )
    mbarrier.arrive(k_free.index(0), count=1)
    turn = 1
    if causal:
        for _ in range((2 * TALL - 1) // block):
            if turn < count:
                share, total, highest, weight = _loaded_step(
                    q_tile, k_blocks, v_blocks, k_loaded, v_loaded, k_free, v_free, turn, count,
                    row, share, total, highest, weight, keys, block, sums, True, scale
                )  # fmt: skip
                turn += 1
    for number in range(turn, count):
        share, total, highest, weight = _loaded_step(
            q_tile, k_blocks, v_blocks, k_loaded, v_loaded, k_free, v_free, number, count,
            row, share, total, highest, weight, keys, block, sums, False, scale
        )  # fmt: skip
    mbarrier.wait(v_loaded.index((count - 1) % PLACES), ((count - 1) // PLACES) & 1)
    fence_async_shared()
    total = warpgroup_mma(share, v_blocks.index((count - 1) % PLACES), total)
    total = total / gl.convert_layout(weight, gl.SliceLayout(1, sums))[:, None]
    q_tile.store(gl.convert_layout(total.to(y.dtype.element_ty), _copied(width)))
    gl.store(y + query * y_step + column, q_tile.load(_copied(width)))


@gluon.jit
def _loaded_step(
    q_tile,
    k_blocks,
    v_blocks,
    k_loaded,
    v_loaded,
    k_free,
    v_free,
    turn,
    count,
    row,
    share,
    total,
    highest,
    weight,
    keys: gl.constexpr,
    block: gl.constexpr,
    sums: gl.constexpr,
    causal: gl.constexpr,
    scale: gl.constexpr,
):
    """`_step` where others load."""
    place = turn % PLACES
    before = (turn - 1) % PLACES
    mbarrier.wait(k_loaded.index(place), (turn // PLACES) & 1)
    fence_async_shared()
    score = _scores(q_tile, k_blocks.index(place), block, True)
    mbarrier.wait(v_loaded.index(before), ((turn - 1) // PLACES) & 1)
    fence_async_shared()
    total = warpgroup_mma(share, v_blocks.index(before), total, is_async=True)
    score = warpgroup_mma_wait(1, deps=[score])
    mbarrier.arrive(k_free.index(place), count=1)
    score = _closed(score, row, (count - 1 - turn) * block, keys, block, causal, False)
    power, factor, highest, weight = _powers(score, highest, weight, scale)
    following = _operand(power, sums, share.dtype)
    total, share = warpgroup_mma_wait(0, deps=[total, share])
    mbarrier.arrive(v_free.index(before), count=1)
    total = total * gl.convert_layout(factor, gl.SliceLayout(1, sums))[:, None]
    return following, total, highest, weight


@gluon.jit
def _nothing(start, block: gl.constexpr, width: gl.constexpr):
    """The numbers of the queries, and sums, largest powers and weights before the first block."""
    of_row: gl.constexpr = gl.SliceLayout(1, _products(block))
    row = start + gl.arange(0, TALL, layout=of_row)
    total = gl.zeros([TALL, width], gl.float32, _products(width))
    highest = gl.full([TALL], float("-inf"), gl.float32, of_row)
    return row, total, highest, gl.zeros([TALL], gl.float32, of_row)


@gluon.jit
def _first(
    q_tile,
    k_blocks,
    row,
    start,
    highest,
    weight,
    keys: gl.constexpr,
    block: gl.constexpr,
    width: gl.constexpr,
    causal: gl.constexpr,
    scale: gl.constexpr,
):
    """The weights of the first block."""
    score = _scores(q_tile, k_blocks.index(0), block, False)
    score = _closed(score, row, start, keys, block, causal, keys % block != 0)
    power, _, highest, weight = _powers(score, highest, weight, scale)
    return _operand(power, _products(width), q_tile.dtype), highest, weight


@gluon.jit
def _scores(q_tile, k_block, block: gl.constexpr, is_async: gl.constexpr):
    """The products of queries and keys."""
    zeros = gl.zeros([TALL, block], gl.float32, _products(block))
    there = k_block.permute((1, 0))
    return warpgroup_mma(q_tile, there, zeros, use_acc=False, is_async=is_async)


@gluon.jit
def _closed(
    score,
    row,
    start,
    keys: gl.constexpr,
    block: gl.constexpr,
    causal: gl.constexpr,
    ragged: gl.constexpr,
):
    """The scores of a block, -inf where a key is closed or none."""
    seen = start + gl.arange(0, block, layout=gl.SliceLayout(0, score.type.layout))
    if causal:
        score = gl.where(row[:, None] >= seen[None, :], score, float("-inf"))
    if ragged:
        score = gl.where((seen < keys)[None, :], score, float("-inf"))
    return score


@gluon.jit
def _powers(score, highest, weight, scale: gl.constexpr):
    """The weights of a block, and what the sums so far are multiplied with."""
    next_highest = gl.maximum(highest, gl.max(score, 1) * scale)
    # While every key is closed there is nothing to take a difference from.
    base = gl.where(next_highest == float("-inf"), 0.0, next_highest)
    power = gl.exp2(score * scale - base[:, None])
    factor = gl.exp2(highest - base)
    return power, factor, next_highest, weight * factor + gl.sum(power, 1)


@gluon.jit
def _operand(power, sums: gl.constexpr, dtype: gl.constexpr):
    """Weights as an operand of the products with values."""
    return gl.convert_layout(power.to(dtype), gl.DotOperandLayout(0, sums, 2))
