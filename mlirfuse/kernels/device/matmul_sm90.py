"""Products on Hopper, in Gluon: one workgroup stays on each multiprocessor, for tile after tile.

Four warps of a workgroup load, through a ring of places and on into the next tile; groups of four
others compute. The groups compute the rows of one tile together, or each has its own tile: then
the end of a tile is under the products of another. Loads go on meanwhile in both cases.

Of each eight columns of the sums a thread holds two. The columns of the right operand are loaded
in the order that makes these eight side by side: what is read and written beside the sums is 16
bytes for each thread, and nothing moves between threads.
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

from mlirfuse.kernels.device import library

WARPS = gl.constexpr(4)
"""Of each group."""

BLOCK = gl.constexpr(64)
"""Terms at a time: 128 bytes."""

HIGH = gl.constexpr(64)
"""Rows of a matrix instruction."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """What is computed, and by which tiles.

    Attributes:
      rows: of the left operand.
      columns: of each right operand, a multiple of the width.
      depth: terms of a sum, a multiple of `BLOCK`.
      right_step: elements from one column of the right operands to the next.
      masked: whether some terms of some rows of the left operand are zero and not in memory.
      parts: products whose tiles are apart.
      sums: right operands of a part, one or two, whose sums are needed together.
      height: rows of a tile.
      width: columns of a tile, of each sum.
      stages: places of the ring.
      groups: groups of warps that compute, two or three.
      alternate: whether each group has its own tile.
      band: rows of tiles that follow each other, see `library.tile_of`.
      programs: workgroups.
      piece: columns that the epilogue is called for, a half of a half of the width.
    """

    rows: int
    columns: int
    depth: int
    right_step: int
    masked: bool
    parts: int
    sums: int
    height: int
    width: int
    stages: int
    groups: int
    alternate: bool
    band: int
    programs: int
    piece: int


# Triton keeps what it has compiled by the text of such functions, not by that of a class.
@gluon.constexpr_function
def shaped(*numbers):
    """A `Shape`, for a kernel's text."""
    return Shape(*numbers)


@gluon.constexpr_function
def _shares(shape):
    """Groups that compute a tile."""
    return 1 if shape.alternate else shape.groups


@gluon.constexpr_function
def _tall(shape):
    """Rows of a tile that one group computes."""
    return shape.height // _shares(shape)


@gluon.constexpr_function
def _blocks(shape):
    """Rows of a tile that one group computes, in those of a matrix instruction."""
    return _tall(shape) // HIGH


@gluon.constexpr_function
def _ragged(shape):
    """Whether rows of the last tiles are none."""
    return shape.rows % shape.height != 0


@gluon.constexpr_function
def _tiles(shape):
    """Tiles of a part along the rows and the columns."""
    return -(-shape.rows // shape.height), shape.columns // shape.width


@gluon.constexpr_function
def registers(groups):
    """Of a thread, for each group but the first, which gets the rest; the last one loads."""
    return [208, 80] if groups == 2 else [152, 152, 56]


@gluon.constexpr_function
def copied():
    """The layout of tiles on their way from memory: 16 bytes for each thread."""
    return gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])


@gluon.constexpr_function
def summed(width):
    """The layout of sums, 16 rows for each warp."""
    return gl.NVMMADistributedLayout([3, 0], [4, 1], [16, width, 16])


@gluon.constexpr_function
def _written(width):
    """The layout of results: eight columns side by side for each thread."""
    registers = [[0, 1], [0, 2], [0, 4], [8, 0]]
    registers += [[0, 32 << n] for n in range((width // 32).bit_length() - 1)]
    lanes = [[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]]
    return gl.DistributedLinearLayout(registers, lanes, [[16, 0], [32, 0]], [], [64, width])


@gluon.jit
def _ring(dtype: gl.constexpr, count: gl.constexpr, height: gl.constexpr):
    """Places for blocks of an operand."""
    layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([height, BLOCK], dtype)
    return gl.allocate_shared_memory(dtype, [count, height, BLOCK], layout)


@gluon.jit
def _tile(number, shape: gl.constexpr):
    """Part, row and column of a tile."""
    rows: gl.constexpr = _tiles(shape)[0]
    columns: gl.constexpr = _tiles(shape)[1]
    part = number // (rows * columns)
    row, column = library.tile_of(number % (rows * columns), rows, columns, shape.band)
    return part, row, column


@gluon.jit
def products(
    left,
    rights,
    others,
    begin: gl.constexpr,
    at: gl.constexpr,
    epilogue: gl.constexpr,
    shape: gl.constexpr,
):
    """Computes all tiles of a workgroup.

    Args:
      left: pointer to the left operand, whose terms lie side by side in each block.
      rights: the same of the right operands, `sums` for each part.
      others: what the epilogue is given beside.
      begin: a function from rows of the left operand to where they begin in it, and a number whose
        bit `n` says whether the blocks of group `n` are in memory; read where `shape.masked`.
      at: a function from the number of a block to where it begins in a row, and to its group.
      epilogue: a function of the sums of a part, of their rows, shape [tall, 1], and columns, shape
        [1, width], of the number of the part, and of `others`; it writes the results.
      shape: see `Shape`.
    """
    dtype: gl.constexpr = left.dtype.element_ty
    stages: gl.constexpr = shape.stages
    shares: gl.constexpr = _shares(shape)
    left_ring = _ring(dtype, stages * (shape.height // HIGH), HIGH)
    right_ring = _ring(dtype, stages, shape.width * shape.sums)
    loaded = mbarrier.allocate_mbarrier(batch=stages)
    free = mbarrier.allocate_mbarrier(batch=stages)
    groups: gl.constexpr = shape.groups
    turns = mbarrier.allocate_mbarrier(batch=groups)
    for group in gl.static_range(groups):
        mbarrier.init(turns.index(group), count=1)
    for place in gl.static_range(stages):
        mbarrier.init(loaded.index(place), count=WARPS * 32)
        mbarrier.init(free.index(place), count=shares)
    fence_async_shared()
    if shape.groups == 2:
        gl.warp_specialize(
            [
                (
                    _compute,
                    (left_ring, right_ring, loaded, free, turns, others, epilogue, 0, shape),
                ),
                (
                    _compute,
                    (left_ring, right_ring, loaded, free, turns, others, epilogue, 1, shape),
                ),
                (
                    _load,
                    (left, rights, left_ring, right_ring, loaded, free, begin, at, shape),
                ),
            ],
            [WARPS, WARPS],
            registers(groups),
        )
    else:
        gl.warp_specialize(
            [
                (
                    _compute,
                    (left_ring, right_ring, loaded, free, turns, others, epilogue, 0, shape),
                ),
                (
                    _compute,
                    (left_ring, right_ring, loaded, free, turns, others, epilogue, 1, shape),
                ),
                (
                    _compute,
                    (left_ring, right_ring, loaded, free, turns, others, epilogue, 2, shape),
                ),
                (
                    _load,
                    (left, rights, left_ring, right_ring, loaded, free, begin, at, shape),
                ),
            ],
            [WARPS, WARPS, WARPS],
            registers(groups),
        )


@gluon.jit
def _load(
    left,
    rights,
    left_ring,
    right_ring,
    loaded,
    free,
    begin: gl.constexpr,
    at: gl.constexpr,
    shape: gl.constexpr,
):
    """Loads the blocks of all tiles into places as they become free."""
    blocks: gl.constexpr = shape.height // HIGH
    parts: gl.constexpr = shape.parts
    sums: gl.constexpr = shape.sums
    ragged: gl.constexpr = _ragged(shape)
    count: gl.constexpr = parts * _tiles(shape)[0] * _tiles(shape)[1]
    row = gl.arange(0, HIGH, layout=gl.SliceLayout(1, copied()))[:, None]
    column = gl.arange(0, shape.width, layout=gl.SliceLayout(1, copied()))[:, None]
    column = ordered(column)
    term = gl.arange(0, BLOCK, layout=gl.SliceLayout(0, copied()))[None, :]
    place = 0
    phase = 1
    for number in range(gl.program_id(0), count, shape.programs):
        part, row_tile, column_tile = _tile(number, shape)
        right = rights[0]
        second = rights[sums - 1]
        for other in gl.static_range(1, parts):
            if part == other:
                right = rights[other * sums]
                second = rights[other * sums + sums - 1]
        right += column_tile * (shape.width * shape.right_step)
        second += column_tile * (shape.width * shape.right_step)
        right_offset = column * shape.right_step + term
        starts = ()
        insides = ()
        for block in gl.static_range(blocks):
            there = row_tile * shape.height + block * HIGH + row
            if ragged:
                there = gl.minimum(there, shape.rows - 1)
            start, inside = begin(there)
            # Triton knows no other sum of tuples.
            starts = starts + (start,)  # noqa: RUF005
            insides = insides + (inside,)  # noqa: RUF005
        for step in range(shape.depth // BLOCK):
            mbarrier.wait(free.index(place), phase)
            offset, group = at(step)
            for block in gl.static_range(blocks):
                pointers = left + offset + (starts[block] + term)
                ring = left_ring.index(place * blocks + block)
                if shape.masked:
                    held = ((insides[block] >> group) & 1) != 0
                    async_copy.async_load(ring, pointers, mask=held)
                else:
                    async_copy.async_load(ring, pointers)
            beside = right_ring.index(place)
            async_copy.async_load(beside.slice(0, shape.width), right + right_offset)
            if sums == 2:
                async_copy.async_load(beside.slice(shape.width, shape.width), second + right_offset)
            async_copy.mbarrier_arrive(loaded.index(place), increment_count=False)
            right += BLOCK
            second += BLOCK
            place += 1
            if place == shape.stages:
                place = 0
                phase ^= 1
    async_copy.wait_group(0)


@gluon.jit
def ordered(column):
    """The column that is loaded in the place of another.

    Of each 32: pairs that a thread holds beside each other come from the pairs of eight columns.
    """
    inner = ((column >> 1) & 3) * 8 + ((column >> 3) & 3) * 2 + (column & 1)
    return (column & -32) + inner


@gluon.jit
def _compute(
    left_ring,
    right_ring,
    loaded,
    free,
    turns,
    others,
    epilogue: gl.constexpr,
    group: gl.constexpr,
    shape: gl.constexpr,
):
    """Computes the share of a group of all tiles, or all of some."""
    steps: gl.constexpr = shape.depth // BLOCK
    first: gl.constexpr = group if shape.alternate else 0
    every: gl.constexpr = shape.groups if shape.alternate else 1
    blocks: gl.constexpr = _blocks(shape)
    width: gl.constexpr = shape.width * shape.sums
    offset: gl.constexpr = 0 if shape.alternate else group * blocks
    count: gl.constexpr = shape.parts * _tiles(shape)[0] * _tiles(shape)[1]
    turn = first * steps
    tour = 0 if first else 1
    for number in range(
        gl.program_id(0) + first * shape.programs,
        count,
        every * shape.programs,
    ):
        totals = ()
        for _ in gl.static_range(blocks):
            zeros = gl.zeros([HIGH, width], gl.float32, summed(width))
            totals = totals + (zeros,)  # noqa: RUF005
        if shape.alternate:
            # Without it a group could take the blocks of another for its own, a round later.
            mbarrier.wait(turns.index(group), tour & 1)
            tour += 1
        before = 0
        for step in range(steps):
            place = turn % shape.stages
            mbarrier.wait(loaded.index(place), (turn // shape.stages) & 1)
            fence_async_shared()
            right = right_ring.index(place).permute((1, 0))
            started = ()
            for block in gl.static_range(blocks):
                left = left_ring.index(place * (shape.height // HIGH) + offset + block)
                total = warpgroup_mma(left, right, totals[block], use_acc=step > 0, is_async=True)
                started = started + (total,)  # noqa: RUF005
            totals = _awaited(started, blocks)
            mbarrier.arrive(free.index(before), count=1, pred=step > 0)
            before = place
            turn += 1
        if shape.alternate:
            mbarrier.arrive(turns.index((group + 1) % shape.groups), count=1)
        totals = _awaited(totals, 0)
        mbarrier.arrive(free.index(before), count=1)
        turn += (every - 1) * steps
        part, row_tile, column_tile = _tile(number, shape)
        row = row_tile * shape.height + offset * HIGH
        column = column_tile * shape.width
        for _ in range(blocks):
            finish(totals[0], row, column, part, others, epilogue, shape.sums, shape.piece)
            totals = totals[1:] + (totals[blocks - 1],)  # noqa: RUF005
            row += HIGH


@gluon.jit
def _awaited(totals, running: gl.constexpr):
    """The sums when no more than some products are still running."""
    found = warpgroup_mma_wait(running, deps=totals)
    if len(totals) == 1:
        found = (found,)
    return found


@gluon.jit
def finish(
    total,
    row,
    column,
    part,
    others,
    epilogue: gl.constexpr,
    sums: gl.constexpr,
    piece: gl.constexpr,
):
    """Calls the epilogue for a block of sums, from a row and a column on.

    Args:
      total: the sums, `HIGH` rows; those of two products lie beside each other.
      row: the first one.
      column: the first one, in the order of the result.
      part: given to the epilogue.
      others: the same.
      epilogue: see `products`.
      sums: products in a block.
      piece: columns that the epilogue is called for.
    """
    width: gl.constexpr = total.shape[1] // sums
    layout: gl.constexpr = _written(width)
    if sums == 1:
        total = total.reshape([HIGH, width // 32, 4, 4, 2])
        total = total.permute((0, 1, 3, 2, 4)).reshape([HIGH, width])
        totals = (gl.convert_layout(total, layout),)
    else:
        total = total.reshape([HIGH, 2, width // 32, 4, 4, 2])
        total = total.permute((0, 2, 4, 3, 5, 1)).reshape([HIGH, width, 2])
        one, other = gl.split(total)
        totals = (gl.convert_layout(one, layout), gl.convert_layout(other, layout))
    _pieces(totals, row, column, part, others, epilogue, piece)


@gluon.jit
def _pieces(totals, row, column, part, others, epilogue: gl.constexpr, piece: gl.constexpr):
    """Calls the epilogue for halves of halves of the columns, one after the other.

    Its code is there once, and short: two groups at different places of long code would wait for
    instructions. The sums stay in registers, and move to the place of those that are done.
    """
    width: gl.constexpr = totals[0].shape[1]
    if width == piece:
        layout: gl.constexpr = _written(width)
        rows = row + gl.arange(0, HIGH, layout=gl.SliceLayout(1, layout))[:, None]
        columns = column + gl.arange(0, width, layout=gl.SliceLayout(0, layout))[None, :]
        there = ()
        for n in gl.static_range(len(totals)):
            there = there + (gl.convert_layout(totals[n], layout),)  # noqa: RUF005
        epilogue(there, rows, columns, part, others)
    else:
        left = ()
        right = ()
        for n in gl.static_range(len(totals)):
            one, other = gl.split(totals[n].reshape([HIGH, 2, width // 2]).permute((0, 2, 1)))
            left = left + (one,)  # noqa: RUF005
            right = right + (other,)  # noqa: RUF005
        for _ in range(2):
            _pieces(left, row, column, part, others, epilogue, piece)
            left = right
            column += width // 2
