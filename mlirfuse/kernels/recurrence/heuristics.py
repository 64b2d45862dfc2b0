"""Configurations of recurrence kernels: computed from the device, or measured."""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.recurrence.problem import RecurrenceConfig, RecurrenceProblem
from mlirfuse.targets.base import Target

LEAST_DOT = 16
"""Rows, columns and contracted elements of `tl.dot`, at least."""

MAX_ROWS, MAX_COLUMNS, K_BYTES = 64, 128, 256
"""Rows and columns of a tile at most; bytes of a row of an operand in one `tl.dot`."""

WIDE_COLUMNS = 32
"""Columns of a tile of `LEAST_DOT` rows of f32. On an H200 an iteration of an LSTM of 10x256 took
6.2 us with them and 10.1 with 16 columns, of a GRU of 4x272 5.8 and 8.9."""

SINGLE_COLUMNS = 64
"""Columns that one CTA has, so that none waits: an iteration of an LSTM of 8x43 f16 took 2.0 us
with eight warps and 3.5 in three CTAs; of a GRU of 3x32 f32 1.6 and 2.8."""

ROW_COLUMNS, ROW_BYTES, ROW_WARPS = 128, 196608, 16
"""Columns of a CTA that has one row, bytes of the weights in its registers, and warps, at most."""

HELD_BYTES = 256
"""Bytes of these weights in a thread where the CTA may have more warps."""

ROWS_PER_SM = 2
"""Rows of states for each SM up to which CTAs have one row; an estimate: tiles of sixteen rows took
1.1 to 5 us for an iteration of such cells on an H200."""

SHARE_OF_SMS = 2
"""CTAs that wait for each other are at most one SM of so many: they all run at a time, also beside
another kernel of the kind, or on a smaller device of the architecture."""

NUM_WARPS, MAX_STAGES = 4, 3


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
    rows = columns = LEAST_DOT
    warps = NUM_WARPS
    if problem.k and problem.columns <= SINGLE_COLUMNS:
        columns = max(columns, power_of_two(problem.columns))
        warps = 2 * NUM_WARPS if columns == SINGLE_COLUMNS else NUM_WARPS
    elif problem.k:
        few = problem.rows <= LEAST_DOT
        columns = WIDE_COLUMNS if few and problem.operand_bits == 32 else columns
        while columns < MAX_COLUMNS and -(-problem.columns // columns) > most_waiting(target):
            columns *= 2
    tiles = -(-problem.columns // columns)
    while rows < MAX_ROWS and -(-problem.rows // rows) * tiles > gpu_of(target).num_sms:
        rows *= 2
    depth = max(LEAST_DOT, K_BYTES * 8 // problem.operand_bits)
    depth = min(depth, max(LEAST_DOT, power_of_two(problem.k)))
    stage = (rows + max(1, problem.products) * columns) * depth * problem.operand_bits // 8
    stages = min(MAX_STAGES, max(1, gpu_of(target).shared_memory_per_cta // stage))
    return RecurrenceConfig(rows, columns, depth, warps, stages)


def _one_row(problem: RecurrenceProblem, target: Target) -> RecurrenceConfig | None:
    """The configuration of CTAs that hold all weights, for one row each; None where none can."""
    gpu, columns = gpu_of(target), power_of_two(problem.columns)
    if not problem.k or columns > ROW_COLUMNS or problem.rows > ROWS_PER_SM * gpu.num_sms:
        return None
    depth = -(-problem.k // LEAST_DOT) * LEAST_DOT
    size = problem.products * depth * columns * 4
    if size > ROW_BYTES:
        return None
    warps = NUM_WARPS
    while warps < ROW_WARPS and size > HELD_BYTES * warps * gpu.warp_size:
        warps *= 2
    return RecurrenceConfig(1, columns, LEAST_DOT, warps, 1)


def configs(problem: RecurrenceProblem, target: Target) -> list[RecurrenceConfig]:
    """The configurations that the tuner measures, with the default first."""
    default = default_config(problem, target)
    found = [default]
    for columns in (default.block_columns, 2 * default.block_columns):
        for depth in (default.block_k // 2, default.block_k):
            for warps in (4, 8):
                if depth >= LEAST_DOT:
                    changes = {"block_columns": columns, "block_k": depth, "num_warps": warps}
                    found.append(dataclasses.replace(default, **changes))
    return list(dict.fromkeys(found))
