"""Attention on Hopper, in Gluon: products go on in the background while the softmax is computed.

For each block of keys the products with the queries start first, then those of the block before
with its values; the softmax needs the former alone. Blocks come by `cp.async`, the last block
first, so that what a mask closes in part is at the start.

`attention` loads with the warps that compute, 64 queries at a time, and several workgroups share a
multiprocessor: the products of one are under the softmax of others. `attention_with_loaders` has
two groups of four warps for 64 queries each and four more warps that load for both: heads of 128
fill a multiprocessor with one workgroup, which goes from tile to tile.
"""

import dataclasses

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
"""Blocks of keys, and of values, in workgroup memory; tiles of queries where others load."""

FEW = gl.constexpr(16)
"""Rows of a cut tile that are loaded at a time by warps of few registers."""

COMPUTING_REGISTERS = gl.constexpr(240)
LOADING_REGISTERS = gl.constexpr(40)
"""Of a thread: 8 warps of the ones and 4 of the others have 65536 together."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """What is computed, and by which tiles.

    Attributes:
      q_step: elements from one query to the next.
      k_step: the same of the keys.
      v_step: the same of the values.
      y_step: the same of the results.
      block: keys at a time.
      width: the size of a head, 64 or 128.
      cut: whether the last tile of queries may be cut.
      cut_keys: whether the last block of keys may be.
      wide: whether 32 bits may not number the elements of a head.
      causal: whether a query sees no keys after it.
      heads_first: whether tiles of all heads come before the next tile of a head.
      scale: what makes the scores powers of two; above zero.
    """

    q_step: int
    k_step: int
    v_step: int
    y_step: int
    block: int
    width: int
    cut: bool
    cut_keys: bool
    wide: bool
    causal: bool
    heads_first: bool
    scale: float


# Triton keeps what it has compiled by the text of such functions, not by that of a class.
@gluon.constexpr_function
def shaped(*numbers):
    """A `Shape`, for a kernel's text."""
    return Shape(*numbers)


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
def _far(number, step: gl.constexpr, shape: gl.constexpr):
    """Elements to a query or key from the first of its head."""
    if shape.wide:
        number = number.to(gl.int64)
    return number * step


@gluon.jit
def _starts(head, sizes, starts: gl.constexpr, shape: gl.constexpr):
    """Where q, k, v and the results of a head start."""
    if shape.wide:
        head = head.to(gl.int64)
    return starts(head, sizes[1], sizes[2])


@gluon.jit
def _tile(number, tall: gl.constexpr, sizes, shape: gl.constexpr):
    """The head and the number of a tile of queries."""
    heads = sizes[0]
    tiles = (sizes[1] + tall - 1) // tall
    if shape.heads_first:
        head = number % heads
        tile = number // heads
    else:
        head = number // tiles
        tile = number % tiles
    if shape.causal:
        # The last queries have the most keys, and start first.
        tile = tiles - 1 - tile
    return head, tile


@gluon.jit
def _count(tile, tall: gl.constexpr, sizes, shape: gl.constexpr):
    """How many blocks of keys a tile of queries sees; one of none where there are no keys."""
    count = (sizes[2] + shape.block - 1) // shape.block
    if shape.wide:
        count = gl.maximum(count, 1)
    if shape.causal:
        count = gl.minimum(count, ((tile + 1) * tall + shape.block - 1) // shape.block)
    return count


@gluon.jit
def _places(source, count: gl.constexpr, tall: gl.constexpr, shape: gl.constexpr):
    """Places for tiles of what a pointer points to."""
    dtype: gl.constexpr = source.dtype.element_ty
    layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([tall, shape.width], dtype)
    return gl.allocate_shared_memory(dtype, [count, tall, shape.width], layout)


@gluon.jit
def attention(q, k, v, y, sizes, starts: gl.constexpr, shape: gl.constexpr):
    """Writes the weighted means of values for 64 queries.

    Args:
      q: pointer to the queries.
      k: the same of keys.
      v: the same of values.
      y: the same of results.
      sizes: how many heads there are, and queries and keys of each.
      starts: a function from the number of a head, and how many queries and keys each has, to
        where its q, k, v and results start.
      shape: see `Shape`.
    """
    block: gl.constexpr = shape.block
    width: gl.constexpr = shape.width
    sums: gl.constexpr = _products(width)
    head, tile = _tile(gl.program_id(0), TALL, sizes, shape)
    q_start, k_start, v_start, y_start = _starts(head, sizes, starts, shape)
    q_tile = _places(q, 1, TALL, shape).index(0)
    k_blocks = _places(k, PLACES, block, shape)
    v_blocks = _places(v, PLACES, block, shape)
    count = _count(tile, TALL, sizes, shape)
    last = (count - 1) * block
    query = _rows(tile * TALL, TALL, width)
    column = _columns(width)
    key = _rows(0, block, width)
    k_tile = k + k_start + key * shape.k_step + column
    v_tile = v + v_start + key * shape.v_step + column
    there = None
    if shape.cut:
        there = query < sizes[1]
    inside = None
    if shape.cut_keys:
        inside = key < sizes[2] - last
    async_copy.async_load(
        q_tile, q + q_start + _far(query, shape.q_step, shape) + column, mask=there
    )
    async_copy.async_load(k_blocks.index(0), k_tile + _far(last, shape.k_step, shape), mask=inside)
    async_copy.commit_group()
    async_copy.async_load(v_blocks.index(0), v_tile + _far(last, shape.v_step, shape), mask=inside)
    before = k_tile + _far(last - block, shape.k_step, shape)
    async_copy.async_load(k_blocks.index(1), before, mask=(count > 1) & (key >= 0))
    async_copy.commit_group()
    async_copy.wait_group(1)
    fence_async_shared()
    row, total, highest, weight = _nothing(tile * TALL, shape)
    share, highest, weight = _first(
        q_tile, k_blocks.index(0), row, last, highest, weight, sizes, shape
    )
    turn = 1
    if shape.causal:
        for _ in range((TALL - 1) // block):
            if turn < count:
                share, total, highest, weight = _step(
                    q_tile, k_blocks, v_blocks, k_tile, v_tile, key, turn, count, row, share,
                    total, highest, weight, True, shape
                )  # fmt: skip
                turn += 1
    for number in range(turn, count):
        share, total, highest, weight = _step(
            q_tile, k_blocks, v_blocks, k_tile, v_tile, key, number, count, row, share,
            total, highest, weight, False, shape
        )  # fmt: skip
    async_copy.wait_group(0)
    fence_async_shared()
    total = warpgroup_mma(share, v_blocks.index((count - 1) % PLACES), total)
    total = total / gl.convert_layout(weight, gl.SliceLayout(1, sums))[:, None]
    found = gl.convert_layout(total.to(y.dtype.element_ty), _copied(width))
    gl.store(y + y_start + _far(query, shape.y_step, shape) + column, found, mask=there)


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
    masked: gl.constexpr,
    shape: gl.constexpr,
):
    """Adds the values of the block before to `total`, and computes the weights of this one."""
    start = (count - 1 - turn) * shape.block
    async_copy.wait_group(0)
    fence_async_shared()
    score = _scores(q_tile, k_blocks.index(turn % PLACES), shape, True)
    total = warpgroup_mma(share, v_blocks.index((turn - 1) % PLACES), total, is_async=True)
    place = v_blocks.index(turn % PLACES)
    async_copy.async_load(place, v_tile + _far(start, shape.v_step, shape))
    before = k_tile + _far(start - shape.block, shape.k_step, shape)
    more = (turn + 1 < count) & (key >= 0)
    async_copy.async_load(k_blocks.index((turn + 1) % PLACES), before, mask=more)
    async_copy.commit_group()
    score = warpgroup_mma_wait(1, deps=[score])
    score = _closed(score, row, start, masked, None, shape)
    power, factor, highest, weight = _powers(score, highest, weight, shape)
    following = _operand(power, share.dtype, shape)
    total, share = warpgroup_mma_wait(0, deps=[total, share])
    return following, _scaled(total, factor, shape), highest, weight


@gluon.jit
def attention_with_loaders(q, k, v, y, sizes, starts: gl.constexpr, shape: gl.constexpr):
    """The same for tiles of 128 queries, tile after tile.

    Two groups of warps compute, and take turns in starting products, so that the softmax of one is
    under the products of the other. A third one loads, and goes on to the next tile while they end
    this one.
    """
    places = (
        _places(q, 2 * PLACES, TALL, shape),
        _places(k, PLACES, shape.block, shape),
        _places(v, PLACES, shape.block, shape),
    )
    loaded = (_barriers(WARPS * 32), _barriers(WARPS * 32), _barriers(WARPS * 32))
    free = (_barriers(2), _barriers(2), _barriers(2))
    fence_async_shared()
    gl.warp_specialize(
        [
            (_compute, (y, sizes, starts, places, loaded, free, 0, shape)),
            (_compute, (y, sizes, starts, places, loaded, free, 1, shape)),
            (_load, (q, k, v, sizes, starts, places, loaded, free, shape)),
        ],
        [WARPS, WARPS],
        [COMPUTING_REGISTERS, LOADING_REGISTERS],
    )


@gluon.jit
def _barriers(count: gl.constexpr):
    """A barrier for each place."""
    found = mbarrier.allocate_mbarrier(batch=PLACES)
    for place in gl.static_range(PLACES):
        mbarrier.init(found.index(place), count=count)
    return found


@gluon.jit
def _tiles(sizes):
    """How many tiles this workgroup has."""
    tiles = sizes[0] * ((sizes[1] + 2 * TALL - 1) // (2 * TALL))
    rounds = tiles // gl.num_programs(0)
    return rounds + (_turned(rounds) < tiles % gl.num_programs(0)).to(gl.int32)


@gluon.jit
def _turned(number):
    """The place of this workgroup in a round: who is first in one is last in the next.

    Tiles of many keys come first, and nobody gets the larger one in each round.
    """
    last = gl.num_programs(0) - 1
    return gl.where(number % 2 == 1, last - gl.program_id(0), gl.program_id(0))


@gluon.jit
def _next(number, sizes, shape: gl.constexpr):
    """The head and the number of this workgroup's tile of a round."""
    return _tile(number * gl.num_programs(0) + _turned(number), 2 * TALL, sizes, shape)


@gluon.jit
def _load(q, k, v, sizes, starts: gl.constexpr, places, loaded, free, shape: gl.constexpr):
    """Loads tiles and blocks into places as they become free."""
    block: gl.constexpr = shape.block
    turn = 0
    for number in range(_tiles(sizes)):
        head, tile = _next(number, sizes, shape)
        q_start, k_start, v_start, _ = _starts(head, sizes, starts, shape)
        count = _count(tile, 2 * TALL, sizes, shape)
        for step in range(count):
            start = (count - 1 - step) * block
            left = sizes[2] - start
            k_first = k + (k_start + _far(start, shape.k_step, shape))
            _freed(free[1], turn)
            _copy(places[1].index(turn % PLACES), k_first, shape.k_step, left, shape.cut_keys)
            _arrives(loaded[1], turn)
            if step == 0:
                first = tile * (2 * TALL)
                q_first = q + (q_start + _far(first, shape.q_step, shape))
                place = 2 * (number % PLACES)
                more = sizes[1] - first
                _freed(free[0], number)
                _copy(places[0].index(place), q_first, shape.q_step, more, shape.cut)
                q_first += TALL * shape.q_step
                _copy(places[0].index(place + 1), q_first, shape.q_step, more - TALL, shape.cut)
                _arrives(loaded[0], number)
            v_first = v + (v_start + _far(start, shape.v_step, shape))
            _freed(free[2], turn)
            _copy(places[2].index(turn % PLACES), v_first, shape.v_step, left, shape.cut_keys)
            _arrives(loaded[2], turn)
            turn += 1
    async_copy.wait_group(0)


@gluon.jit
def _copy(place, first, step: gl.constexpr, left, cut: gl.constexpr):
    """Starts to load rows, of which `left` exist where some may not.

    A mask takes more registers than there are, so that whole tiles go without, and others come a
    few rows at a time.
    """
    width: gl.constexpr = place.shape[1]
    if cut:
        if left < place.shape[0]:
            some = _rows(0, FEW, width)
            for part in gl.static_range(place.shape[0] // FEW):
                few = first + part * FEW * step + (some * step + _columns(width))
                there = some < left - part * FEW
                async_copy.async_load(place.slice(part * FEW, FEW), few, mask=there)
        else:
            tile = first + (_rows(0, place.shape[0], width) * step + _columns(width))
            async_copy.async_load(place, tile)
    else:
        tile = first + (_rows(0, place.shape[0], width) * step + _columns(width))
        async_copy.async_load(place, tile)


@gluon.jit
def _freed(barriers, turn):
    """Waits until the place of a turn is free."""
    mbarrier.wait(barriers.index(turn % PLACES), ((turn // PLACES) & 1) ^ 1)


@gluon.jit
def _arrives(barriers, turn):
    """Says when what is being loaded for a turn is there."""
    async_copy.mbarrier_arrive(barriers.index(turn % PLACES), increment_count=False)


@gluon.jit
def _loaded(barriers, turn, wanted):
    """Waits for what a turn needs, where it is wanted."""
    mbarrier.wait(barriers.index(turn % PLACES), (turn // PLACES) & 1, pred=wanted)
    fence_async_shared()


@gluon.jit
def _done(barriers, turn):
    """Gives the place of a turn back."""
    mbarrier.arrive(barriers.index(turn % PLACES), count=1)


@gluon.jit
def _compute(
    y,
    sizes,
    starts: gl.constexpr,
    places,
    loaded,
    free,
    me: gl.constexpr,
    shape: gl.constexpr,
):
    """Computes 64 queries of each tile as blocks are loaded."""
    sums: gl.constexpr = _products(shape.width)
    query = _rows(0, TALL, shape.width)
    column = _columns(shape.width)
    turn = 0
    if me == 1:
        _your_turn(me)
    for number in range(_tiles(sizes)):
        head, tile = _next(number, sizes, shape)
        _, _, _, y_start = _starts(head, sizes, starts, shape)
        first = tile * (2 * TALL) + me * TALL
        count = _count(tile, 2 * TALL, sizes, shape)
        q_tile = places[0].index(2 * (number % PLACES) + me)
        row, total, highest, weight = _nothing(first, shape)
        _loaded(loaded[0], number, True)
        _loaded(loaded[1], turn, True)
        last = (count - 1) * shape.block
        k_block = places[1].index(turn % PLACES)
        share, highest, weight = _first(q_tile, k_block, row, last, highest, weight, sizes, shape)
        _done(free[1], turn)
        _loaded(loaded[1], turn + 1, count > 1)
        step = 1
        if shape.causal:
            for _ in range((2 * TALL - 1) // shape.block):
                if step < count:
                    share, total, highest, weight = _loaded_step(
                        q_tile, places, loaded, free, me, turn + step, step, count, row, share,
                        total, highest, weight, True, shape
                    )  # fmt: skip
                    step += 1
        for other in range(step, count):
            share, total, highest, weight = _loaded_step(
                q_tile, places, loaded, free, me, turn + other, other, count, row, share,
                total, highest, weight, False, shape
            )  # fmt: skip
        turn += count
        _loaded(loaded[2], turn - 1, True)
        total = warpgroup_mma(share, places[2].index((turn - 1) % PLACES), total)
        _done(free[2], turn - 1)
        total = total / gl.convert_layout(weight, gl.SliceLayout(1, sums))[:, None]
        q_tile.store(total.to(y.dtype.element_ty))
        found = q_tile.load(_copied(shape.width))
        _done(free[0], number)
        there = None
        if shape.cut:
            there = query < sizes[1] - first
        y_first = y_start + _far(first, shape.y_step, shape)
        gl.store(y + y_first + (query * shape.y_step + column), found, mask=there)
    if me == 0:
        _my_turn(me)


@gluon.jit
def _loaded_step(
    q_tile,
    places,
    loaded,
    free,
    me: gl.constexpr,
    turn,
    step,
    count,
    row,
    share,
    total,
    highest,
    weight,
    masked: gl.constexpr,
    shape: gl.constexpr,
):
    """`_step` where others load, and its block of keys is there."""
    _my_turn(me)
    score = _scores(q_tile, places[1].index(turn % PLACES), shape, True)
    _loaded(loaded[2], turn - 1, True)
    total = warpgroup_mma(share, places[2].index((turn - 1) % PLACES), total, is_async=True)
    _your_turn(me)
    score = warpgroup_mma_wait(1, deps=[score])
    _done(free[1], turn)
    score = _closed(score, row, (count - 1 - step) * shape.block, masked, None, shape)
    power, factor, highest, weight = _powers(score, highest, weight, shape)
    # ptxas moves the softmax past the wait for products, but not past the branch of this one.
    _loaded(loaded[1], turn + 1, step + 1 < count)
    total, share, power = warpgroup_mma_wait(0, deps=[total, share, power])
    _done(free[2], turn - 1)
    return _operand(power, share.dtype, shape), _scaled(total, factor, shape), highest, weight


@gluon.jit
def _my_turn(me: gl.constexpr):
    """Waits until the other group has started its products.

    Triton numbers its barriers of warps from 0; 8 and 9 are the two groups'.
    """
    if me == 0:
        gl.inline_asm("bar.sync 8, 256;")
    else:
        gl.inline_asm("bar.sync 9, 256;")


@gluon.jit
def _your_turn(me: gl.constexpr):
    """Lets the other group start its products."""
    if me == 0:
        gl.inline_asm("bar.arrive 9, 256;")
    else:
        gl.inline_asm("bar.arrive 8, 256;")


@gluon.jit
def _nothing(start, shape: gl.constexpr):
    """The numbers of the queries, and sums, largest powers and weights before the first block."""
    of_row: gl.constexpr = gl.SliceLayout(1, _products(shape.block))
    row = start + gl.arange(0, TALL, layout=of_row)
    total = gl.zeros([TALL, shape.width], gl.float32, _products(shape.width))
    highest = gl.full([TALL], float("-inf"), gl.float32, of_row)
    return row, total, highest, gl.zeros([TALL], gl.float32, of_row)


@gluon.jit
def _first(q_tile, k_block, row, start, highest, weight, sizes, shape: gl.constexpr):
    """The weights of the first block."""
    score = _scores(q_tile, k_block, shape, False)
    score = _closed(score, row, start, shape.causal, sizes[2] if shape.cut_keys else None, shape)
    power, _, highest, weight = _powers(score, highest, weight, shape)
    return _operand(power, q_tile.dtype, shape), highest, weight


@gluon.jit
def _scores(q_tile, k_block, shape: gl.constexpr, is_async: gl.constexpr):
    """The products of queries and keys."""
    zeros = gl.zeros([TALL, shape.block], gl.float32, _products(shape.block))
    there = k_block.permute((1, 0))
    return warpgroup_mma(q_tile, there, zeros, use_acc=False, is_async=is_async)


@gluon.jit
def _closed(score, row, start, masked: gl.constexpr, keys, shape: gl.constexpr):
    """The scores of a block, -inf where a key is closed or, if `keys` says so, none."""
    seen = start + gl.arange(0, shape.block, layout=gl.SliceLayout(0, score.type.layout))
    if masked:
        score = gl.where(row[:, None] >= seen[None, :], score, float("-inf"))
    if keys is not None:
        score = gl.where((seen < keys)[None, :], score, float("-inf"))
    return score


@gluon.jit
def _powers(score, highest, weight, shape: gl.constexpr):
    """The weights of a block, and what the sums so far are multiplied with."""
    next_highest = gl.maximum(highest, gl.max(score, 1) * shape.scale)
    # While every key is closed there is nothing to take a difference from.
    base = gl.where(next_highest == float("-inf"), 0.0, next_highest)
    power = gl.exp2(score * shape.scale - base[:, None])
    factor = gl.exp2(highest - base)
    return power, factor, next_highest, weight * factor + gl.sum(power, 1)


@gluon.jit
def _operand(power, dtype: gl.constexpr, shape: gl.constexpr):
    """Weights as an operand of the products with values."""
    layout: gl.constexpr = gl.DotOperandLayout(0, _products(shape.width), 2)
    return gl.convert_layout(power.to(dtype), layout)


@gluon.jit
def _scaled(total, factor, shape: gl.constexpr):
    """The sums so far, against the largest power that is known now."""
    layout: gl.constexpr = gl.SliceLayout(1, _products(shape.width))
    return total * gl.convert_layout(factor, layout)[:, None]
