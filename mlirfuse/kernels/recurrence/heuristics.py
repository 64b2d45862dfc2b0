"""Configurations of recurrence kernels: computed from the device, or measured."""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import VECTOR_BITS, gpu_of
from mlirfuse.kernels.recurrence.problem import RecurrenceConfig, RecurrenceProblem
from mlirfuse.targets.base import Target

MAX_ROW_HELD_REGISTERS, OTHER_REGISTERS = 128, 32
"""Registers of a thread of a CTA with one row that hold weights, at most, and those that it needs
beside them: it has no accumulators of matrix instructions."""

FLOAT_BITS = 32
"""Bits of a weight of such a CTA in registers, whatever its type in memory is."""

LEAST_DOT = 16
"""Rows, columns and contracted elements of `tl.dot`, at least."""

MAX_ROWS, MAX_COLUMNS, K_BYTES = 64, 128, 256
"""Rows and columns of a tile at most; bytes of a row of an operand in one `tl.dot`."""

NUM_WARPS, MAX_STAGES = 4, 3

WIDE_COLUMNS = 32
"""Columns of a tile: eight for each warp of `NUM_WARPS`. Of fewer, several warps compute the same
products. Microseconds of an iteration with tiles of sixteen rows and 16 or 32 columns on an H200:

    GRU of 32x512 f32     13.9   8.4        LSTM of 10x256 f16    3.8   3.4
    LSTM of 10x256 f32    10.1   6.2        GRU of 64x512 f16     4.4   4.1
    GRU of 4x272 f32       8.9   5.8        LSTM of 32x1024 f16   8.2   8.4
"""

CTAS_PER_SM = 2
"""CTAs of such tiles that an SM runs at a time, by their registers: an iteration of an LSTM of
256x512 f32 took 18.1 us in 256 CTAs of sixteen rows on an H200, 42.1 in 128 of 32 and 28.3 in 64 of
64 rows."""

MMA_ROWS, MMA_K_BYTES = 64, 128
"""Rows of a tile whose matrix instructions read the weights of several warps at once, and bytes of
a row in one `tl.dot` of f32 then, whose operands take the registers: an iteration of an RNN of
192x775 f32 took 17.7 us so, 36.1 in tiles of 32 rows and 33.7 in those of sixteen."""

SINGLE_COLUMNS = 64
"""Columns that one CTA has, so that none waits: an iteration of an LSTM of 8x43 f16 took 2.0 us
with eight warps and 3.5 in three CTAs; of a GRU of 3x32 f32 1.6 and 2.8."""

ROW_COLUMNS = 256
"""Columns of one row that one CTA has, at most."""

MIN_ROW_COLUMNS = 8
"""Columns of a CTA with one row of several CTAs, at least."""

ROW_WARPS, ALONE_WARPS = (NUM_WARPS, 8, 16), (NUM_WARPS, 8)
"""Warps of a CTA with one row: as few as hold the weights, for they exchange their sums in each
iteration. Of an LSTM of 64x59 f32 it took 0.6 us on an H200 with four warps and 1.0 with eight, of
an LSTM of 1x512 f32 with 8 columns in a CTA 1.3 us with four, 1.5 with eight, 1.9 with sixteen.
The second are those of the only CTA of a row: a GRU of 64x128 f16 took 2.0 us with sixteen, 1.4 in
eight CTAs, and 1.35 in one of four that reads its weights in each iteration."""

STREAMED_K_BYTES = 128
"""Bytes of a part of K whose weights one CTA of a row reads in each iteration, where there are rows
for most SMs: an LSTM of 100x128 f32 took 2.7 us so, and 3.0 to 3.7 in several CTAs."""

CACHED_K_BYTES, CACHED_WARPS = 512, 8
"""The same of CTAs that share a row and whose weights caches hold, but no registers; their warps.
An LSTM of 1x1024 f16 took 3.2 us so on an H200, 3.9 to 6.6 with other parts and warps, and 12.2 in
tiles of sixteen rows; of f32 4.4 and 20.7."""

SMALL_CTAS_PER_SM = 5
"""CTAs of the fewest columns on each SM at most: of a GRU of 64x128 f16 an iteration took 1.4 us in
512 CTAs of 16 columns, and more in 1024; of an LSTM of 40x100 f16 1.9 us in 520 of 8, 2.4 in 160
of 32."""

ROWS_PER_SM = 2
"""Rows of states for each SM up to which CTAs have one row; an estimate: tiles of sixteen rows took
1.1 to 5 us for an iteration of such cells on an H200."""

ROW_WAVES = {16: 1, 32: 2}
"""Bits of the operands -> turns in which the CTAs of rows that several share run, at most.

Tiles of sixteen rows read their weights from the L2 cache in each iteration, and compute products
of f32 as three of TF32. Microseconds of an iteration, with tiles of sixteen rows on an H100 and
with rows of several CTAs on an H200:

    GRU of 1x417 f32     17.0               LSTM of 8x256 f16     3.7   1.2
    LSTM of 1x512 f32    11.3   1.3         GRU of 3x300 f16      3.8   1.3
    LSTM of 32x256 f32   10.4   2.9         RNN of 8x704 f32            1.7
"""

PADDED_K = 1.125
"""Elements of K with their padding for each one, at most, where it is summed in larger parts."""

SHARE_OF_SMS = 2
"""CTAs that wait for each other are at most one SM of so many: they all run at a time, also beside
another kernel of the kind, or on a smaller device of the architecture."""


def most_waiting(target: Target) -> int:
    """CTAs that may wait for each other."""
    return gpu_of(target).num_sms // SHARE_OF_SMS


def choose_config(problem: RecurrenceProblem, target: Target) -> RecurrenceConfig:
    """The nearest measured configuration, else the computed one."""
    return lookup.choose(target, problem, RecurrenceConfig, default_config)


def default_config(problem: RecurrenceProblem, target: Target) -> RecurrenceConfig:
    """The configuration computed from the problem and the device.

    The narrowest tiles of columns that may wait for each other: each SM reads its part of the
    weights from the L2 cache in each iteration. Rows need not wait: their tiles are the smallest
    of which each SM has one.
    """
    if (alone := _one_row(problem, target)) is not None:
        return alone
    columns, warps = LEAST_DOT, NUM_WARPS
    if problem.k and problem.columns <= SINGLE_COLUMNS:
        columns = max(columns, power_of_two(problem.columns))
        warps = 2 * NUM_WARPS if columns == SINGLE_COLUMNS else NUM_WARPS
    elif problem.k:
        columns = WIDE_COLUMNS
        while columns < MAX_COLUMNS and -(-problem.columns // columns) > most_waiting(target):
            columns *= 2
    rows = _rows_of_a_tile(problem, -(-problem.columns // columns), target)
    wide = rows == MMA_ROWS and problem.operand_bits == FLOAT_BITS
    depth = max(LEAST_DOT, (MMA_K_BYTES if wide else K_BYTES) * 8 // problem.operand_bits)
    depth = min(depth, max(LEAST_DOT, power_of_two(problem.k)))
    stage = (rows + max(1, problem.products) * columns) * depth * problem.operand_bits // 8
    stages = min(MAX_STAGES, max(1, gpu_of(target).shared_memory_per_cta // stage))
    return RecurrenceConfig(rows, columns, depth, warps, stages, packed=_is_unaligned(problem))


def _is_unaligned(problem: RecurrenceProblem) -> bool:
    """Whether rows of weights are no multiple of the largest load.

    Loads of their elements take instructions and registers: microseconds of an iteration on an
    H200, element by element and packed:

        GRU of 64x629 f32    21.7  13.3         GRU of 64x629 f16    11.9   5.6
        GRU of 26x615 f32    27.6  16.1         RNN of 192x775 f16   13.0   5.3
        LSTM of 92x418 f32   16.8  12.4
    """
    return problem.k * problem.operand_bits % VECTOR_BITS > 0


def _rows_of_a_tile(problem: RecurrenceProblem, column_tiles: int, target: Target) -> int:
    """The fewest rows of which all tiles run at a time.

    More rows of f32 with gates take more registers than there are.
    """
    rows, most = LEAST_DOT, gpu_of(target).num_sms * (CTAS_PER_SM if problem.k else 1)
    floats = problem.k > 0 and problem.operand_bits == FLOAT_BITS
    if floats and problem.products > 1:
        return rows
    while rows < MAX_ROWS and -(-problem.rows // rows) * column_tiles > most:
        rows = MMA_ROWS if floats else 2 * rows
    return rows


def _one_row(problem: RecurrenceProblem, target: Target) -> RecurrenceConfig | None:
    """The configuration of CTAs that hold their weights, for one row each; None where none can."""
    if not problem.k:
        return None
    return (
        _of_one_cta(problem, target)
        or _of_several_ctas(problem, target)
        or _of_cached_weights(problem, target)
    )


def _of_one_cta(problem: RecurrenceProblem, target: Target) -> RecurrenceConfig | None:
    """That of one CTA for a row, which waits for none."""
    gpu, columns = gpu_of(target), power_of_two(problem.columns)
    if columns > ROW_COLUMNS or problem.rows > ROWS_PER_SM * gpu.num_sms:
        return None
    # All of K is one part where it can be: then states stay in registers.
    for depth in (columns, _depth(problem)):
        size = _weight_bytes(problem, columns, depth)
        for warps in ALONE_WARPS:
            if size <= most_held(warps, target):
                return RecurrenceConfig(1, columns, depth, warps, 1)
    if columns <= MAX_COLUMNS and 4 * problem.rows >= 3 * gpu.num_sms:
        depth = min(columns, STREAMED_K_BYTES * 8 // problem.operand_bits)
        return RecurrenceConfig(1, columns, depth, NUM_WARPS, 1)
    return None


def _of_several_ctas(problem: RecurrenceProblem, target: Target) -> RecurrenceConfig | None:
    """That of CTAs with some columns of a row, of the fewest warps and columns."""
    sms = gpu_of(target).num_sms
    for waves in range(1, ROW_WAVES.get(problem.operand_bits, 0) + 1):
        for warps in ROW_WARPS:
            depth = _depth(problem, warps * gpu_of(target).warp_size)
            fitting = []
            columns = MIN_ROW_COLUMNS
            while columns < problem.columns:
                tiles = -(-problem.columns // columns)
                size = _weight_bytes(problem, columns, depth)
                if tiles <= most_waiting(target) and size <= most_held(warps, target):
                    fitting.append((columns, tiles * problem.rows, _per_sm(size, warps, target)))
                columns *= 2
            few = [c for c, ctas, each in fitting if ctas <= min(SMALL_CTAS_PER_SM, each) * sms]
            all_run = [columns for columns, ctas, each in fitting if ctas <= waves * each * sms]
            if all_run:
                return RecurrenceConfig(1, (few or all_run[-1:])[0], depth, warps, 1)
    return None


def _of_cached_weights(problem: RecurrenceProblem, target: Target) -> RecurrenceConfig | None:
    """That of CTAs with some columns of a row whose weights caches hold; None for more CTAs."""
    gpu, columns = gpu_of(target), MIN_ROW_COLUMNS
    while -(-problem.columns // columns) > most_waiting(target):
        columns *= 2
    depth = min(power_of_two(problem.k), CACHED_K_BYTES * 8 // problem.operand_bits)
    few = problem.rows * -(-problem.columns // columns) <= gpu.num_sms
    if not few or problem.operand_bits not in ROW_WAVES:
        return None
    return RecurrenceConfig(1, columns, depth, CACHED_WARPS, 1)


def _per_sm(weight_bytes: int, warps: int, target: Target) -> int:
    """CTAs of an SM, by the registers that hold so many bytes of weights."""
    gpu = gpu_of(target)
    threads = warps * gpu.warp_size
    registers = weight_bytes * 8 // FLOAT_BITS // threads + OTHER_REGISTERS
    return max(1, gpu.registers_per_sm // (threads * registers))


def most_held(warps: int, target: Target) -> int:
    """Bytes of weights that the registers of a CTA of so many warps hold."""
    gpu = gpu_of(target)
    threads = warps * gpu.warp_size
    each = min(MAX_ROW_HELD_REGISTERS, gpu.registers_per_sm // threads - OTHER_REGISTERS)
    return each * threads * FLOAT_BITS // 8


def _depth(problem: RecurrenceProblem, least: int = LEAST_DOT) -> int:
    """The largest parts of K of which few elements are padding.

    Args:
      problem: the problem.
      least: elements of a part, at least: threads of CTAs that receive one each.
    """
    depth = min(least, power_of_two(problem.k))
    while 2 * depth <= power_of_two(problem.k) and _padded(problem, 2 * depth) <= max(
        PADDED_K * problem.k, _padded(problem, depth)
    ):
        depth *= 2
    return depth


def _padded(problem: RecurrenceProblem, depth: int) -> int:
    """Elements of K, in parts of so many."""
    return -(-problem.k // depth) * depth


def _weight_bytes(problem: RecurrenceProblem, columns: int, depth: int) -> int:
    """Bytes of the weights of so many columns, as f32 in registers."""
    return problem.products * _padded(problem, depth) * columns * FLOAT_BITS // 8


def configs(problem: RecurrenceProblem, target: Target) -> list[RecurrenceConfig]:
    """The configurations that the tuner measures, with the default first."""
    default = default_config(problem, target)
    found = [default]
    for columns in (default.block_columns, 2 * default.block_columns):
        for depth in (default.block_k // 2, default.block_k):
            for warps in (4, 8):
                if depth >= LEAST_DOT:
                    found.append(
                        dataclasses.replace(
                            default, block_columns=columns, block_k=depth, num_warps=warps
                        )
                    )
    return list(dict.fromkeys(found))
