"""Modelled time of a matmul, for the choice of its tiles.

Waves of CTAs over the SMs, times the multiply-adds of a tile, the elements that it loads, the
instructions of its epilogue and the elements that it stores. Parts of K, and copies of operands
with aligned rows, are kernels of their own. Times are in multiply-adds of f16 of a multiprocessor.
"""

from __future__ import annotations

import dataclasses
import math

from mlirfuse.kernels.codegen.dot_precision import is_one_product, uses_warpgroups
from mlirfuse.kernels.configs.device import SECTOR_BITS, gpu_of
from mlirfuse.kernels.matmul.problem import VECTOR_BYTES, MatmulConfig, MatmulProblem
from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True)
class Rates:
    """Costs of a tile for each element of K.

    Attributes:
      multiply_add: of an element of the tile.
      load_a: of an element of A that is loaded by vectors of `VECTOR_BYTES`.
      load_b: the same of B.
      narrow_a: of each further load of narrower ones, in those of a vectorized load.
      narrow_b: the same of B.
      alone: times that a CTA takes longer for a tile than an SM that has several, at least.
      latency: of an iteration, in which an SM that has one CTA waits.
      by_warps: whether each warp loads what it multiplies, so that few leave lanes idle.
    """

    multiply_add: float
    load_a: float
    load_b: float
    narrow_a: float = 1.0
    narrow_b: float = 1.0
    alone: float = 1.0
    latency: float = 0.0
    by_warps: bool = False


_RATES = {8: Rates(1, 64, 64), 64: Rates(1, 16, 16)}
_RATES_OF_16 = {True: Rates(1, 56, 56), False: Rates(1, 56, 64)}
"""Width of the operands in bits, and of 16 whether B is loaded along K -> costs.

On an H200 an element of K of a tile of 64x64, 64x128, 128x128 and 128x256 f16 took 2.8, 3.9, 8.5
and 14 ns, which is 12, 19, 33 and 54 thousand by the model. Narrower loads cost more by their
number: blocks of 128x256 tiles of bf16 with K = 4707 took 17000 clocks, where it says 14000."""

BLOCK_LATENCY = 920_000
"""Multiply-adds of f16 of an SM in 450 clocks: a load from L2, a barrier, and the first product. On
an H200 a convolution of 216 pixels, 128 channels and K of 297 took 14.5 us in tiles of 32x32 with
blocks of 16 and two warps, 7.6 and 6.6 us in those of 16x32 with blocks of 32 and 64 and four. The
parts of B are written to shared memory in between for warpgroups: 64x4032x770 took 24.4 us in tiles
of 64x32, and 16.7 in those of 32x64 that warps compute."""

WARPS_OF_F32 = Rates(1.2, 220, 190, 0.27, 0.17, 1.23, BLOCK_LATENCY, by_warps=True)
"""The costs of f32 where warps compute the products of TF32 from registers.

Fitted to 88 times of 12 problems on an H100; the root mean square of the error is a factor of 1.21.
The fit cannot tell the loads of elements from their split into parts."""

WARPGROUPS_OF_F32 = {
    True: Rates(3.8, 84, 86, 0.36, 8.0, 1.24, 2 * BLOCK_LATENCY),
    False: Rates(2.8, 224, 204, 0.11, 2.7, 1.26, 2 * BLOCK_LATENCY),
}
"""Whether B is loaded along K -> the costs of f32 where warpgroups compute the products: with parts
of TF32 (14 times, a factor of 1.07) and of bf16 (77 times, 1.13). Narrow loads of a B that is
loaded along K were not measured: they store to the same banks as those along N do."""

WARPS_OF_TF32, WARPGROUPS_OF_TF32 = (
    Rates(5.4, 49, 170, 0.27, 0.17, 1.23),
    Rates(4.6, 127, 85, 0.1, 0.8, 1.24),
)
"""The costs of products of TF32. Fitted to 46 times of four convolutions with channels last on an
H200 (factors of 1.17 and 1.25), and for narrow loads to three of few channels."""

LAUNCH_COST = 5_400_000
"""Multiply-adds of f16 of an SM in the time of one more kernel, about 3 us in a graph."""

BYTE_COST = 75
"""The same in the time of a byte to or from memory, at 13 bytes a clock."""

L2_BYTE_COST, UNALIGNED_LINES = 47, 1.45
"""The same of a byte from the L2 cache, and bytes of its lines for each one of rows that are not
aligned to them. On an H200 1000x1000x1000 f16, all operands contiguous along K, took 20.0, 14.0 and
11.2 us in tiles of 64 by 32, 64 and 128, which load 98, 65 and 49 MB, and 512x2712x768 13.9 us in
those of 64 by 32, which load 100 MB of aligned rows."""

START_COST = 3_000_000
"""The same in the time in which a CTA of f16 waits for its first blocks and stores its last ones,
and no other one computes, an estimate: on an H200 2160x1024x256 with GELU took 9.7 us in tiles of
64 by 64, of which the SMs hold three quarters, and 7.8 in those of 64 by 128, of which they hold
all."""

FLAT_ROWS, FLAT_COLUMNS, FLAT_LOADS = 64, 256, 1.5
"""Rows up to which, and columns from which, loads of B take so many times as long. On an H200
24x704x960x952 f16 took 108 us in tiles of 64x256 and 85 in those of 128x128, 8x1024x1024x1000 60
and 41, which are alike without this; those of 128x256 took 79 and 37."""

STORE_COST = 64
"""The same in the time of a load or store of an element, of any width."""

INSTRUCTION_COST = 18
"""The same in the time of an instruction of the epilogue: an SM has 128 lanes for 2048 of them."""

FULL_WARPS = 12
"""Warps of an SM that keep its lanes busy with the instructions of an epilogue; fewer wait for the
results of their own. On an H100 `gelu(mish(x @ w))` of 1500x200x700 f16 took 8 us in tiles of
64x32, of which an SM has four, and 12 in those of 128x64, of which it has one."""

INDEPENDENT_ACCUMULATORS, MAX_INDEPENDENT = 8, 5 / 3
"""Accumulators of a thread above which a warp is busier, as many times at most: 17x5031x784 took
28.6 us in tiles of 32x128 on an H200, and 18.3 in those of 32x64."""

CACHE_LINE_BYTES = 128
"""Bytes of a line of the caches."""

COPY_BYTES = 4
"""Bytes of the smallest asynchronous copy to shared memory; PTX ISA, `cp.async`."""

SYNCHRONOUS_WARPS = 16
"""Warps of an SM that hide the latency of smaller loads, which a pipeline has no stages for: on an
H100 a matmul of 3085x64x3904 f16 whose rows of A are odd took 103 us in 125 CTAs of four warps, and
32 in cuBLAS. Each element of a block takes a register meanwhile: 6x7104x64x7259 f16 took 1294 us on
an H200 in tiles of 128 by 128, of which an SM has one, and 449 in those of 64 by 64."""

SECTOR_LOADS = 2
"""Loads of adjacent elements that take the time of one of an element whose neighbors are in other
matrices of the batch; an estimate. On an H200 32 products of 24x88x368 bf16 with weights of 368 by
88 by 32 took 26.7 us without a copy, 12.8 in cuBLAS, which copies them."""

OTHER_REGISTERS, ROW_VALUES = 64, 2
"""Registers of a thread beside its accumulators; ptxas, for epilogues of one or two functions. And
those for each accumulator of an epilogue that reduces rows, whose values stay until the last one:
on an H200 a layer norm of sines of 221440x56x104 f16 took 65 us in tiles of 32 rows, 68 of 64, and
103 of 128, which leave an SM one CTA."""

COPY_OCCUPANCY = 4
"""Times that narrow loads of a kernel that copies are cheaper: it has four times the warps."""

PART_BYTES = 8
"""Bytes of an element of a part of K, which is written and read in f32."""


def num_ctas(problem: MatmulProblem, config: MatmulConfig) -> int:
    """CTAs of one tile each."""
    return -(-problem.m // config.block_m) * -(-problem.n // config.block_n) * problem.batch


def fills_device(num_ctas: int, target: Target) -> bool:
    """Whether CTAs occupy at least three quarters of the SMs."""
    return 4 * num_ctas >= 3 * gpu_of(target).num_sms


def split_size(k: int, config: MatmulConfig) -> int:
    """Elements of K of each part of a split-K, whole blocks; those of one class of rows of B."""
    rows, parts = -(-k // config.row_classes), config.k_splits // config.row_classes
    return -(-rows // (parts * config.block_k)) * config.block_k


def num_splits(k: int, config: MatmulConfig) -> int:
    """Parts of K with elements, and those of all classes of the rows of B."""
    return -(-k // (split_size(k, config) * config.row_classes)) * config.row_classes


def vector_bytes(elements: int, bits: int) -> int:
    """Bytes of the widest load that is aligned in all rows of so many elements."""
    return math.gcd(VECTOR_BYTES, elements * bits // 8)


def row_of_a(problem: MatmulProblem) -> int:
    """Elements of a row of A, its innermost dimension."""
    return problem.k if problem.a_k_contiguous else problem.m


def row_of_b(problem: MatmulProblem) -> int:
    """The same of B."""
    return problem.k if problem.b_k_contiguous else problem.n


def time(config: MatmulConfig, problem: MatmulProblem, target: Target) -> float:
    """The modelled time of a configuration of one tile per CTA."""
    rates, bits = rates_of(config, problem, target), problem.operand_bits
    block_m, block_n = config.block_m, config.block_n * problem.accumulators
    waves = -(-num_ctas(problem, config) * config.k_splits // gpu_of(target).num_sms)
    resident = _resident_warps(config, problem, target, waves)
    load_a, load_b = (
        1 if name in config.aligned_copies else _loads(name, row, problem, resident)
        for name, row in (("a", row_of_a(problem)), ("b", row_of_b(problem)))
    )
    if (
        problem.operand_bits == 16
        and not problem.b_k_contiguous
        and "b" not in config.aligned_copies
    ):
        load_b *= _lines(problem.n, config.block_n, bits)
    flat = config.block_m <= FLAT_ROWS and block_n >= FLAT_COLUMNS
    if bits == 16 and flat and not config.consumer_warpgroups:
        load_b *= FLAT_LOADS
    step = rates.multiply_add * block_m * block_n
    step += rates.load_a * block_m * (1 + rates.narrow_a * (load_a - 1))
    step += rates.load_b * block_n * (1 + rates.narrow_b * (load_b - 1))
    # Vectorized stores run under the main loops of other CTAs.
    stores = STORE_COST * block_m * block_n * (_narrowing(problem.n, bits) - 1)
    waiting = max(1, FULL_WARPS / resident)
    epilogue = INSTRUCTION_COST * problem.epilogue * block_m * block_n * waiting
    length = split_size(problem.k, config)
    tile = length * step + epilogue + stores
    alone = tile * _alone(rates, config, problem, target)
    kernel = max(waves * tile, alone + length // config.block_k * rates.latency)
    if bits == 16 and config.k_splits == 1 and not config.consumer_warpgroups:
        kernel = max(kernel, _l2_time(config, problem, target) + waves * epilogue)
        rounds = -(-waves * config.num_warps // resident)
        kernel += START_COST * (rounds - 1)
    kernel = max(kernel, _sector_time(config, problem, target))
    return kernel + _merge_time(config, problem, target) + _copy_time(config, problem, target)


def _sector_time(config: MatmulConfig, problem: MatmulProblem, target: Target) -> float:
    """The time in which sectors of memory are loaded for one element each, of all operands.

    Those of an innermost batch are for other CTAs, too, which find them in an L2 cache that holds
    the operand.
    """
    sectors = 0
    for operand, columns, reads in (("a", problem.m, problem.reads_of_a), ("b", problem.n, 1)):
        if operand in problem.batch_innermost and operand not in config.aligned_copies:
            elements = columns * problem.k * problem.batch // reads
            if elements * problem.operand_bits // 8 > gpu_of(target).l2_bytes:
                sectors += elements
    return _memory_time(sectors * SECTOR_BITS // 8, target)


def _l2_time(config: MatmulConfig, problem: MatmulProblem, target: Target) -> float:
    """The time in which all tiles are loaded from the L2 cache, whole lines of it."""
    bits, total = problem.operand_bits, 0.0
    for operand, row, block in (
        ("a", row_of_a(problem), config.block_m),
        ("b", row_of_b(problem), config.block_n * problem.accumulators),
    ):
        aligned = operand in config.aligned_copies or row * bits // 8 % CACHE_LINE_BYTES == 0
        total += block * (1.0 if aligned else UNALIGNED_LINES)
    total *= num_ctas(problem, config) * problem.k * bits // 8
    return L2_BYTE_COST * total / gpu_of(target).num_sms


def _alone(rates: Rates, config: MatmulConfig, problem: MatmulProblem, target: Target) -> float:
    """Times that a CTA takes longer for a tile than an SM that has several.

    Few warps leave the SM's lanes idle, unless they are a warpgroup, or a thread has many
    accumulators that do not depend on each other.
    """
    if not rates.by_warps:
        return rates.alone
    elements = config.block_m * config.block_n * problem.accumulators
    each = elements / (config.num_warps * gpu_of(target).warp_size)
    busy = config.num_warps * min(MAX_INDEPENDENT, max(1, each / INDEPENDENT_ACCUMULATORS))
    return max(rates.alone, FULL_WARPS / busy)


def stage_bytes(config: MatmulConfig, problem: MatmulProblem) -> int:
    """Bytes of a stage of the software pipeline in shared memory."""
    block_n = config.block_n * problem.accumulators
    return (config.block_m + block_n) * config.block_k * problem.operand_bits // 8


def _resident_warps(
    config: MatmulConfig, problem: MatmulProblem, target: Target, waves: int
) -> int:
    """Warps that an SM runs at a time, of CTAs that its registers and shared memory hold."""
    gpu = gpu_of(target)
    threads = config.num_warps * gpu.warp_size
    values = config.block_m * config.block_n * problem.accumulators
    values *= ROW_VALUES if problem.whole_rows else 1
    registers = values + _loaded_elements(config, problem) + OTHER_REGISTERS * threads
    shared = stage_bytes(config, problem) * config.num_stages
    fits = min(gpu.registers_per_sm // registers, gpu.shared_memory_per_sm // shared)
    return config.num_warps * max(1, min(waves, fits))


def _loaded_elements(config: MatmulConfig, problem: MatmulProblem) -> int:
    """Elements of a block that are in registers on their way to shared memory, of small loads."""
    sides = (
        ("a", row_of_a(problem), config.block_m),
        ("b", row_of_b(problem), config.block_n * problem.accumulators),
    )
    return sum(
        block * config.block_k
        for name, row, block in sides
        if name not in config.aligned_copies
        and (
            name in problem.batch_innermost or vector_bytes(row, problem.operand_bits) < COPY_BYTES
        )
    )


def rates_of(config: MatmulConfig, problem: MatmulProblem, target: Target) -> Rates:
    """The costs of a configuration's tiles."""
    if problem.operand_bits == 16:
        return _RATES_OF_16[problem.b_k_contiguous]
    if problem.operand_bits != 32:
        return _RATES[problem.operand_bits]
    warpgroups = uses_warpgroups(config.block_m, config.num_warps, target)
    if is_one_product(target):
        return WARPGROUPS_OF_TF32 if warpgroups else WARPS_OF_TF32
    return WARPGROUPS_OF_F32[problem.b_k_contiguous] if warpgroups else WARPS_OF_F32


def _merge_time(config: MatmulConfig, problem: MatmulProblem, target: Target) -> float:
    """The time of the kernel that adds parts of K, and of writing and reading them."""
    if config.k_splits == 1:
        return 0
    elements = problem.m * problem.n * problem.batch * config.k_splits
    return LAUNCH_COST + _memory_time(elements * PART_BYTES, target)


def _copy_time(config: MatmulConfig, problem: MatmulProblem, target: Target) -> float:
    """The time of the kernel that copies operands."""
    if not config.aligned_copies:
        return 0
    bits, loads, copied = problem.operand_bits, 0, 0
    for operand, columns, row, reads in (
        ("a", problem.m, row_of_a(problem), problem.reads_of_a),
        ("b", problem.n, row_of_b(problem), 1),
    ):
        if operand in config.aligned_copies:
            elements = columns * problem.k * problem.batch // reads
            copied += 2 * elements * bits // 8
            loads += elements * _narrowing(row, bits)
    narrow = STORE_COST * loads / (COPY_OCCUPANCY * gpu_of(target).num_sms)
    return LAUNCH_COST + _memory_time(copied, target) + narrow


def copy_time(elements: int, bits: int, target: Target) -> float:
    """The time of a kernel that copies so many elements."""
    return LAUNCH_COST + _memory_time(2 * elements * bits // 8, target)


def _memory_time(size: int, target: Target) -> float:
    """The time of so many bytes to or from memory."""
    return BYTE_COST * size / gpu_of(target).num_sms


def _loads(operand: str, row: int, problem: MatmulProblem, warps: int) -> float:
    """Loads of a row into shared memory for each vectorized one, as many as take its time.

    Args:
      operand: `a` or `b`.
      row: elements of its rows.
      problem: the problem.
      warps: warps of an SM.
    """
    bits = problem.operand_bits
    if operand in problem.batch_innermost:
        return _narrowing(1, bits) * SECTOR_LOADS * max(1, SYNCHRONOUS_WARPS / warps)
    narrow = _narrowing(row, bits)
    if vector_bytes(row, bits) >= COPY_BYTES:
        return narrow
    return narrow * max(1, SYNCHRONOUS_WARPS / warps)


def _lines(row: int, columns: int, bits: int) -> float:
    """Lines of the cache that the columns of a tile touch in a row, for each one that they fill.

    On an H200 1000x8192x1000 f16, whose rows are not aligned to lines, took 59 us in tiles of 64 by
    128 where B is contiguous along N, and 37 along K; 304x5000x704 21 us in tiles of 64 by 32.
    """
    held = columns * bits // 8 / CACHE_LINE_BYTES
    ends = 0 if row * bits // 8 % CACHE_LINE_BYTES == 0 else 1 - VECTOR_BYTES / CACHE_LINE_BYTES
    # Parts of a line are as many loads as whole ones, too.
    return max(1.0, held + ends) / held / min(1.0, held)


def _narrowing(row: int, bits: int) -> int:
    """Loads or stores of a row of so many elements for each one of `VECTOR_BYTES`."""
    return VECTOR_BYTES // vector_bytes(row, bits)
