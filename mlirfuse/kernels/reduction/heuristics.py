"""Configurations of row reductions: computed from the problem and the device, or measured.

A row stays in registers. Rows too short for a CTA share one; where there are too few rows for the
device, or where a row wastes lanes, the CTAs of a thread block cluster share a row.
"""

from __future__ import annotations

import dataclasses
import math

from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import SECTOR_BITS, gpu_of
from mlirfuse.kernels.matmul.cost_model import vector_bytes
from mlirfuse.kernels.matmul.problem import VECTOR_BYTES
from mlirfuse.kernels.reduction.cost_model import loads_scalars, loops_us, registers_us
from mlirfuse.kernels.reduction.distribution import (
    MAX_COLUMNS,
    MAX_THREADS_PER_CTA,
    Distribution,
    distribute,
)
from mlirfuse.kernels.reduction.problem import ReductionConfig, ReductionProblem
from mlirfuse.kernels.reduction.strategies import (
    MAX_STRIDED_COLUMNS,
    MIN_SPLIT_COLUMNS,
    has_cluster_forms,
    loop_config,
    other_config,
    streamed_config,
)
from mlirfuse.targets.base import GpuDevice, Target

ELEMENTS_PER_THREAD = 16
"""Two vectorized loads of 16 bytes of f16."""

SHORT_ELEMENTS_PER_THREAD = 4
"""Elements of a thread where there are few rows: one load of 16 bytes of f32."""

MIN_MEDIUM_COLUMNS, MEDIUM_COLUMNS, MEDIUM_ELEMENTS_PER_THREAD = 64, 1024, 8
"""Columns from and up to which rows with results are held by more threads.

On an H200, over the best of a dozen tiles, softmax in f32 and layer norm with a residual in f16 of
0.1 to 8 million elements in rows of 64 to 1024 took 1.00 to 1.21 (mean 1.05) with 8 elements of a
thread, and 1.00 to 1.23 (1.09) with 16; sums 1.00 to 1.05 with 16 and 1.03 to 1.27 with 8."""

MANY_WAVES = 48
"""Elements of each thread of a full device from which rows and CTAs have fewer threads all the
same: a layer norm of 134016 rows of 384 bf16 took 90 us on an H200 in CTAs of 128 threads with 8
elements each, 82 with 16, and 60 in CTAs of 64; of 60000 rows of 768 51 and 45; of 16384 rows of
1024, 62 elements of each thread, 19.4 and 17.8, and a softmax of them in f16 18.4 and 16.5."""

THREADS_PER_TILE = 128
"""Threads of a CTA whose rows are short; half of them where they are loaded one by one: on an H200
the cosines of 15276 pairs of rows of 325 f16 took 12.6 us in CTAs of 128 threads with 16 elements
each and 10.0 in CTAs of 64, of 6953 of 251 f32 6.9 and 5.7."""

WARP_ELEMENTS, MAX_WARP_ELEMENTS = 512, 1024
"""Elements of a CTA of one warp, and of a row that one warp may hold."""

MAX_WARP_MASKED = 0.4
"""Masked lanes above which a row of `MAX_WARP_ELEMENTS` at most is one warp's: spread over several,
some of them would have no element. On an H200 softmax of 1820 rows of 576 f32 took 3.5 us with one
warp, and 3.9 with four."""

MIN_SHORT_ROWS, SHORT_CTAS = 8, 4
"""Rows of a tile down to which there are so many CTAs for each SM: on an H200 the variance of 6272
rows of 43 f32 took 3.1 us in 196 CTAs of 32 rows, and 2.2 in 784 of eight."""

RESIDENT_CTAS = 32
"""CTAs that an SM holds at a time: on an H200 softmax of 9216 rows of 261 f32 took 7.2 us with one
row of each warp, and 5.3 with two."""

MAX_TURNED_COLUMNS, TURNED_ELEMENTS, TURNED_THREADS = 2048, 16384, 512
"""Columns, elements and threads of tiles whose results have rows innermost: on an H200 a layer norm
of 1920 rows of 768 bf16 took 22 us with one row in a CTA, whose stores are of two bytes each."""

NUMBERS_THREADS = 512
"""Threads that hold a row of which only numbers are left: log-sum-exp of 1024 rows of 9000 f16 took
9.1 us on an H200 with 32 elements of each, and 12.5 with 16."""

NUMBERS_REGISTERS = 64
"""Registers of the elements of such a thread, of all operands, at most."""

MAX_TILE_ELEMENTS = 8192
"""Elements of several rows in a CTA that the tuner tries."""

MIN_COLUMNS_PER_CTA = 2048
"""Columns of a CTA in a cluster: fewer cost more in synchronization than they save."""

LOOPS_SHARE = 0.9
"""Modelled time of loops, of that of rows in registers, below which they are taken: on an H200 they
took 1.3 to 1.9 times as long where the model has both alike."""

CTAS_PER_SM = 2
"""CTAs of a row that needs several, on each SM, which hide each other's latency: a group norm of 64
rows of 40960 f16 took 8 us on an H100 in five CTAs each, and 18 us in two."""

MAX_MASKED = 0.125
"""Masked lanes of the CTAs of such a row, of its columns, above which smaller parts are taken."""

CLUSTERED_SHARE = 4
"""SMs for each row from which the CTAs of a cluster share it: softmax of 16 rows of 32768 f32 took
3.3 us on an H200 in clusters of eight, and 5.6 in one CTA each; of 64 rows of 16384 4.1 and 4.0,
of 224 rows of 16384 f16 6.5 in clusters of two and 5.5; a layer norm of 128 rows of 32768 7.9 in
clusters of four, and 6.1."""


def choose_config(problem: ReductionProblem, target: Target) -> ReductionConfig:
    """The nearest measured configuration that the device can run, else the computed one."""
    if (computed := _other_config(problem, target)) is not None:
        return computed
    gpu = gpu_of(target)
    return lookup.choose(
        target,
        problem,
        ReductionConfig,
        default_config,
        lambda entry: has_clusters(entry.config, problem, gpu),
    )


def _other_config(problem: ReductionProblem, target: Target) -> ReductionConfig | None:
    """The configuration of a problem that is not one of rows in registers; None where it is.

    A row of which only numbers are left need not be held: where registers do not hold it, or would
    hold it in few of their lanes, a loop reads it as fast as memory allows. One with results of its
    columns is read twice by loops, and held where that takes less time.
    """
    if holds_numbers(problem):
        return streamed_config(problem, gpu_of(target))
    found = other_config(problem, target)
    if found is not None or problem.columns <= MIN_SPLIT_COLUMNS:
        return found
    gpu = gpu_of(target)
    many = problem.rows >= 2 * gpu.num_sms
    if many and not problem.heavy:
        return None
    # Of few rows SMs compute what is heavy while others wait.
    counted = problem if many else dataclasses.replace(problem, heavy=False)
    held = distribute(_unpacked_config(problem, target), problem.rows, problem.columns, gpu)
    loop = loop_config(problem, target)
    held_us = registers_us(counted, held, target)
    return loop if loops_us(problem, loop, target) < LOOPS_SHARE * held_us else None


def holds_numbers(problem: ReductionProblem) -> bool:
    """Whether one CTA holds a row of which only numbers are left, however few the rows are.

    On an H200 the mean of 64 rows of 16384 f16 took 1.5 us so, and 3.0 us in sixteen splits, whose
    results a second kernel combines; their log-sum-exp 2.3 and 5.0 us.
    """
    if problem.writes or problem.contiguous_rows > 1:
        return False
    if not MAX_STRIDED_COLUMNS < problem.columns <= MAX_COLUMNS:
        return False
    elements = _numbers_per_thread(power_of_two(problem.columns))
    registers = elements * problem.reads * problem.operand_bits // 32
    threads = power_of_two(problem.columns) // elements
    return registers * max(1, threads // NUMBERS_THREADS) <= NUMBERS_REGISTERS


def _numbers_per_thread(held: int) -> int:
    """Elements of a thread that holds a part of such a row."""
    return max(ELEMENTS_PER_THREAD, min(2 * ELEMENTS_PER_THREAD, held // NUMBERS_THREADS))


def has_clusters(config: ReductionConfig, problem: ReductionProblem, gpu: GpuDevice) -> bool:
    """Whether the device has the thread block clusters that a configuration asks for, if any."""
    if problem.columns <= config.max_columns_per_cta or config.block_rows:
        return True
    return gpu.max_cluster_size > 1 and has_cluster_forms(problem)


def default_config(problem: ReductionProblem, target: Target) -> ReductionConfig:
    """The configuration computed from the problem and the device.

    Rows whose registers leave an SM one CTA are packed, so that it has two: on an H200, 2048 rows
    of 32768 f16 take 66 us in place of 70 (RMS norm) and 70 in place of 88 (softmax). Registers
    spill where several tensors are read, 347 us in place of 134, and where a second sum is of
    values that the first one gives, as in layer norm: 114 us in place of 95 on an H100.
    """
    if (other := _other_config(problem, target)) is not None:
        return other
    config, packed = _unpacked_config(problem, target), _packed_configs(problem, target)
    if (
        packed
        and problem.writes
        and problem.reads == 1
        and problem.combiners.split().count("arith.addf") == 1
        and config.max_columns_per_cta >= problem.columns
        and config.elements_per_thread > ELEMENTS_PER_THREAD
    ):
        return packed[0]
    return config


def _unpacked_config(problem: ReductionProblem, target: Target) -> ReductionConfig:
    gpu, width = gpu_of(target), power_of_two(problem.columns)
    if holds_numbers(problem):
        elements = _numbers_per_thread(width)
        if problem.passes > 1:
            elements = _with_more_threads(elements, width, problem, gpu)
        threads = THREADS_PER_TILE // (2 if loads_scalars(problem) else 1)
        tile_elements = max(threads * elements, width)
        while tile_elements > width and 2 * problem.rows * width < gpu.num_sms * tile_elements:
            tile_elements //= 2
        tile_elements = _with_more_ctas(tile_elements, width, problem, gpu)
        return ReductionConfig(tile_elements, elements, MAX_COLUMNS)
    if problem.turned and width <= MAX_TURNED_COLUMNS:
        return _turned_config(problem, width, gpu)
    part = _columns_per_cta(problem, gpu)
    if width <= MAX_WARP_ELEMENTS and _has_warp_rows(problem, gpu):
        tile_elements = max(WARP_ELEMENTS, width)
        while tile_elements > width and problem.rows * width < gpu.num_sms * tile_elements:
            tile_elements //= 2
        # Beyond a full device a CTA costs as much as the rows of a warp.
        if problem.rows * width > gpu.num_sms * RESIDENT_CTAS * tile_elements:
            tile_elements = max(tile_elements, MAX_WARP_ELEMENTS)
        return ReductionConfig(tile_elements, max(1, tile_elements // gpu.warp_size), part)
    held = min(width, part)
    elements = _elements_per_thread(problem, held, gpu)
    threads = THREADS_PER_TILE // (2 if _has_many_waves(problem, held, gpu) else 1)
    tile_elements = max(threads * min(elements, ELEMENTS_PER_THREAD), held)
    while tile_elements > held and 2 * problem.rows * width < gpu.num_sms * tile_elements:
        tile_elements //= 2
    return ReductionConfig(_with_more_ctas(tile_elements, held, problem, gpu), elements, part)


def _with_more_ctas(tile_elements: int, row: int, problem: ReductionProblem, gpu: GpuDevice) -> int:
    """Elements of smaller tiles of short rows, where the CTAs of larger ones are few."""
    held = problem.rows * row
    while tile_elements > MIN_SHORT_ROWS * row and held < SHORT_CTAS * gpu.num_sms * tile_elements:
        tile_elements //= 2
    return tile_elements


def _turned_config(problem: ReductionProblem, width: int, gpu: GpuDevice) -> ReductionConfig:
    """Tiles of as many rows as a sector of a result has, of which rows are innermost."""
    rows = SECTOR_BITS // problem.operand_bits
    while rows > 1 and rows * width > TURNED_ELEMENTS:
        rows //= 2
    while rows > 1 and 2 * problem.rows < gpu.num_sms * rows:
        rows //= 2
    elements = max(MEDIUM_ELEMENTS_PER_THREAD, rows * width // TURNED_THREADS)
    return ReductionConfig(rows * width, elements, MAX_COLUMNS)


def _has_warp_rows(problem: ReductionProblem, gpu: GpuDevice) -> bool:
    """Whether the rows of a tile are those of one warp: spread over several they waste lanes."""
    if problem.contiguous_rows > 1 or not problem.writes:
        return False
    width = power_of_two(problem.columns)
    masked = 1 - problem.columns / width
    wasted = width == MAX_WARP_ELEMENTS and masked > MAX_WARP_MASKED
    return wasted or _crosses_warps(problem, gpu)


def _crosses_warps(problem: ReductionProblem, gpu: GpuDevice) -> bool:
    """Whether rows, which are written, are not aligned and spread over several warps.

    Triton gives the lanes of a warp, and then the warps, adjacent elements of a row, as many each
    as one load has. Reductions then go through shared memory: on an H100 log-softmax of 26496 rows
    of 69 bf16 took 12.6 us with four warps and 5.1 us with one, softmax of 50000 rows of 33 f32
    10.2 and 5.9; but sums of 30000 rows of 333 f16, whose threads only add up, 9.2 and 11.2.
    """
    loaded = vector_bytes(problem.columns, problem.operand_bits)
    each = max(1, 8 * loaded // problem.operand_bits)
    return loaded < VECTOR_BYTES and power_of_two(problem.columns) > gpu.warp_size * each


def _elements_per_thread(problem: ReductionProblem, held: int, gpu: GpuDevice) -> int:
    """Elements of a thread: fewer of rows that few threads would hold."""
    medium = MIN_MEDIUM_COLUMNS <= held <= MEDIUM_COLUMNS and problem.columns <= held
    if medium and not _has_many_waves(problem, held, gpu):
        return MEDIUM_ELEMENTS_PER_THREAD
    elements = max(ELEMENTS_PER_THREAD, held // MAX_THREADS_PER_CTA)
    return _with_more_threads(elements, held, problem, gpu)


def _with_more_threads(elements: int, held: int, problem: ReductionProblem, gpu: GpuDevice) -> int:
    """Elements of a thread of short rows, fewer of those that leave most of the device idle.

    On an H200 the divergence of 360 rows of 320 f32 took 3.9 us with four, and 4.8 with 16.
    """
    idle = gpu.num_sms * gpu.max_threads_per_sm // 2
    while (
        elements > SHORT_ELEMENTS_PER_THREAD
        and held >= problem.columns
        and held < 2 * THREADS_PER_TILE * elements
        and problem.rows * held < idle * elements
    ):
        elements //= 2
    return elements


def _has_many_waves(problem: ReductionProblem, held: int, gpu: GpuDevice) -> bool:
    """Whether rows are so many that fewer threads of a CTA, which wait for each other, pay."""
    return problem.rows * held > MANY_WAVES * gpu.num_sms * gpu.max_threads_per_sm


def leaves_half_of_sm(problem: ReductionProblem) -> bool:
    """Whether 32 registers of a thread hold 16 elements and what is computed from them."""
    return problem.reads == 1 and problem.operand_bits == 16 and not problem.heavy


def _columns_per_cta(problem: ReductionProblem, gpu: GpuDevice) -> int:
    """Columns of a CTA: all of a row that registers hold, but where few rows leave SMs idle.

    Two tensors of 16 bits take the registers of one of f32: a layer norm of 2048 rows of 32768 f16
    with a residual took 135 us on an H200 in one CTA for each row, and 176 in clusters of two.
    The CTAs of a longer row have parts that leave no SM idle and waste few lanes; those of one
    tensor of 16 bits have half of an SM: 128 rows of 131072 bf16 of a group norm with SiLU took 45
    us with one CTA on each SM, and 36 with two, 512 of 65536 75 and 65.
    """
    if problem.columns <= MIN_SPLIT_COLUMNS or not has_cluster_forms(problem):
        return MAX_COLUMNS
    registers = max(1.0, problem.reads * problem.operand_bits / 32)
    least = math.ceil(problem.columns * registers / MAX_COLUMNS)
    if least == 1:
        few = CLUSTERED_SHARE * problem.rows <= gpu.num_sms
        size = min(gpu.num_sms // problem.rows if few else 1, gpu.max_cluster_size)
        size = min(size, problem.columns // MIN_COLUMNS_PER_CTA)
        return power_of_two(-(-problem.columns // size)) if size > 1 else MAX_COLUMNS
    part = MAX_COLUMNS // 2 if leaves_half_of_sm(problem) else MAX_COLUMNS
    if problem.columns > part * gpu.max_cluster_size:
        part = MAX_COLUMNS
    smaller = part // 2
    while smaller >= MIN_COLUMNS_PER_CTA:
        now, then = (_parts(problem, size, gpu) for size in (part, smaller))
        masked = now.columns * now.cluster_size - problem.columns
        whole = now.cluster_size == 1 or masked <= MAX_MASKED * problem.columns
        fills = problem.rows * now.cluster_size >= CTAS_PER_SM * gpu.num_sms and whole
        fits = now.cluster_size >= min(least, gpu.max_cluster_size)
        if (fills and fits) or then.columns == now.columns:
            break
        part, smaller = smaller, smaller // 2
    return part


def _parts(problem: ReductionProblem, part: int, gpu: GpuDevice) -> Distribution:
    config = ReductionConfig(part, ELEMENTS_PER_THREAD, part)
    return distribute(config, problem.rows, problem.columns, gpu)


def configs(problem: ReductionProblem, target: Target) -> list[ReductionConfig]:
    """The configurations that the tuner measures, with the default first."""
    if (computed := _other_config(problem, target)) is not None:
        return [computed]
    gpu, width = gpu_of(target), power_of_two(problem.columns)
    sizes = [n for n in (width, 2 * width, 4 * width, 8 * width) if n <= MAX_TILE_ELEMENTS]
    shapes = [(tile, MAX_COLUMNS) for tile in sizes or [width]]
    # The tile of a part is for shorter rows, which have this configuration where they are near.
    if gpu.max_cluster_size > 1:
        parts = (width // 2, width // 4, width // 8)
        shapes += [(part, part) for part in parts if part >= MIN_COLUMNS_PER_CTA]
    unpacked = _unpacked_config(problem, target)
    found = {distribute(unpacked, problem.rows, problem.columns, gpu): unpacked}
    for tile, part in shapes:
        for elements in (32, 16, 8):
            config = ReductionConfig(tile, elements, part)
            found.setdefault(distribute(config, problem.rows, problem.columns, gpu), config)
    plain = list(found.values())
    streamed = [dataclasses.replace(config, evict_first=True) for config in plain]
    packed = _packed_configs(problem, target)
    return list(dict.fromkeys([default_config(problem, target), *plain, *packed, *streamed]))


def packed_registers(gpu: GpuDevice) -> int:
    """Registers of a thread with which an SM holds as many threads as it can; a multiple of 8."""
    return gpu.registers_per_sm // gpu.max_threads_per_sm // 8 * 8


def _packed_configs(problem: ReductionProblem, target: Target) -> list[ReductionConfig]:
    """The configuration with rows packed in registers, where rows are powers of two in one CTA."""
    gpu = gpu_of(target)
    # Pairs of 16 bits take half of the registers.
    elements = power_of_two(packed_registers(gpu) + 1) // 2
    columns = problem.columns
    whole = columns == power_of_two(columns) and columns <= MAX_COLUMNS
    if target.name != "cuda" or not whole or columns < gpu.warp_size * elements:
        return []
    return [ReductionConfig(columns, elements, MAX_COLUMNS, packed=True)]
