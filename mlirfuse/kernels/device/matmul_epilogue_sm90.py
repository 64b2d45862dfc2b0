"""Epilogue of the persistent matmul for Hopper, in Gluon: accumulators in `wgmma`'s layout.

Of each eight columns of an accumulator a thread holds two. The columns of B are loaded in an order
that makes these eight contiguous in N: the epilogue loads and stores 16 bytes per thread, and no
data moves between threads.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

MMA_M = gl.constexpr(64)
"""Rows of a `wgmma` instruction."""


@gluon.constexpr_function
def accumulator_layout(block_n):
    """The layout of `wgmma` accumulators, 16 rows per warp."""
    return gl.NVMMADistributedLayout([3, 0], [4, 1], [16, block_n, 16])


@gluon.constexpr_function
def _epilogue_layout(block_n):
    """The layout of tiles in the epilogue: eight contiguous columns per thread."""
    registers = [[0, 1], [0, 2], [0, 4], [8, 0]]
    registers += [[0, 32 << n] for n in range((block_n // 32).bit_length() - 1)]
    lanes = [[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]]
    return gl.DistributedLinearLayout(registers, lanes, [[16, 0], [32, 0]], [], [64, block_n])


@gluon.jit
def permuted_columns(column):
    """The column of B that is loaded at an index of the tile.

    Within each 32 columns, the pairs that a thread holds of four instruction tiles of eight
    columns become eight contiguous columns.
    """
    inner = ((column >> 1) & 3) * 8 + ((column >> 3) & 3) * 2 + (column & 1)
    return (column & -32) + inner


@gluon.jit
def run_epilogue(
    accumulator,
    row,
    column,
    part,
    others,
    epilogue: gl.constexpr,
    accumulators: gl.constexpr,
    epilogue_n: gl.constexpr,
):
    """Calls the epilogue for `MMA_M` rows of a tile.

    Args:
      accumulator: accumulators of `MMA_M` rows; those of two operands B are next to each other.
      row: first row of the result.
      column: first column of the result.
      part: index of the part, passed to the epilogue.
      others: further arguments of the epilogue.
      epilogue: see `matmul_sm90.persistent_matmul`.
      accumulators: number of operands B.
      epilogue_n: columns per call of the epilogue.
    """
    block_n: gl.constexpr = accumulator.shape[1] // accumulators
    layout: gl.constexpr = _epilogue_layout(block_n)
    if accumulators == 1:
        accumulator = accumulator.reshape([MMA_M, block_n // 32, 4, 4, 2])
        accumulator = accumulator.permute((0, 1, 3, 2, 4)).reshape([MMA_M, block_n])
        given = (gl.convert_layout(accumulator, layout),)
    else:
        accumulator = accumulator.reshape([MMA_M, 2, block_n // 32, 4, 4, 2])
        accumulator = accumulator.permute((0, 2, 4, 3, 5, 1)).reshape([MMA_M, block_n, 2])
        one, other = gl.split(accumulator)
        given = (gl.convert_layout(one, layout), gl.convert_layout(other, layout))
    _run_in_slices(given, row, column, part, others, epilogue, epilogue_n)


@gluon.jit
def _run_in_slices(
    accumulators, row, column, part, others, epilogue: gl.constexpr, epilogue_n: gl.constexpr
):
    """Calls the epilogue for slices of `epilogue_n` columns, one after the other.

    Its code is emitted once, and short: two warpgroups at different places of long code would miss
    the instruction cache. Accumulators stay in registers and move to those of the finished slice.
    """
    block_n: gl.constexpr = accumulators[0].shape[1]
    if block_n == epilogue_n:
        layout: gl.constexpr = _epilogue_layout(block_n)
        offs_m = row + gl.arange(0, MMA_M, layout=gl.SliceLayout(1, layout))[:, None]
        offs_n = column + gl.arange(0, block_n, layout=gl.SliceLayout(0, layout))[None, :]
        given = ()
        for n in gl.static_range(len(accumulators)):
            given = given + (gl.convert_layout(accumulators[n], layout),)  # noqa: RUF005
        epilogue(given, offs_m, offs_n, part, others)
    else:
        left = ()
        right = ()
        for n in gl.static_range(len(accumulators)):
            halves = accumulators[n].reshape([MMA_M, 2, block_n // 2]).permute((0, 2, 1))
            one, other = gl.split(halves)
            left = left + (one,)  # noqa: RUF005
            right = right + (other,)  # noqa: RUF005
        for _ in range(2):
            _run_in_slices(left, row, column, part, others, epilogue, epilogue_n)
            left = right
            column += block_n // 2
