"""Modelled time of a matmul, for the choice of its tiles.

Waves of CTAs over the SMs, times the multiply-adds of a tile, the elements that it loads and those
that it stores. Parts of K, and copies of operands with aligned rows, are kernels of their own.
Times are in multiply-adds of a multiprocessor in the type of the operands.
"""

from __future__ import annotations

import math

from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.matmul.problem import VECTOR_BYTES, MatmulConfig, MatmulProblem
from mlirfuse.targets.base import Target

LOAD_COST = {8: 64, 16: 64, 32: 48, 64: 16}
"""Width of the operands in bits -> cost of loading an element of a block by vectors of
`VECTOR_BYTES`, in multiply-adds of the device. One of f32 is three products of TF32, at half the
rate of f16, and splits its elements. Narrower loads cost more by their number: on an H200 blocks of
64x32 tiles of f32 with K = 8149 took 5 times as long as with K = 2048, where the model says 3, and
those of 128x256 tiles of bf16 with K = 4707 took 17000 clocks, where it says 14000."""

LAUNCH_COST = 9 * 1000 * 1000
"""Multiply-adds of f16 of a multiprocessor in the time of one more kernel, about 5 us."""

F32_COST = 6
"""Multiply-adds of f16 in the time of one of f32: three products of TF32, at half the rate."""

BYTE_COST = 75
"""The same in the time of a byte to or from memory, at 13 bytes a clock."""

COPY_OCCUPANCY = 4
"""Times that narrow loads of a kernel that copies are cheaper: it has four times the warps."""

PART_BYTES = 8
"""Bytes of an element of a part of K, which is written and read in f32."""


def num_ctas(problem: MatmulProblem, config: MatmulConfig) -> int:
    """CTAs of one tile each."""
    return -(-problem.m // config.block_m) * -(-problem.n // config.block_n) * problem.batch


def split_size(k: int, config: MatmulConfig) -> int:
    """Elements of K of each part of a split-K, whole blocks."""
    return -(-k // (config.k_splits * config.block_k)) * config.block_k


def vector_bytes(elements: int, bits: int) -> int:
    """Bytes of the widest load that is aligned in all rows of so many elements."""
    return math.gcd(VECTOR_BYTES, elements * bits // 8)


def row_of_a(problem: MatmulProblem) -> int:
    """Elements of a row of A, its innermost dimension."""
    return problem.k if problem.a_k_contiguous else problem.m


def row_of_b(problem: MatmulProblem) -> int:
    """The same of B."""
    return problem.k if problem.b_k_contiguous else problem.n


def time(config: MatmulConfig, problem: MatmulProblem, target: Target) -> int:
    """The modelled time of a configuration of one tile per CTA."""
    bits, num_sms = problem.operand_bits, gpu_of(target).num_sms
    block_m, block_n = config.block_m, config.block_n * problem.accumulators
    waves = -(-num_ctas(problem, config) * config.k_splits // num_sms)
    load_a = 1 if "a" in config.aligned_copies else _narrowing(row_of_a(problem), bits)
    load_b = 1 if "b" in config.aligned_copies else _narrowing(row_of_b(problem), bits)
    step = block_m * block_n + LOAD_COST[bits] * (block_m * load_a + block_n * load_b)
    # Vectorized stores run under the main loops of other CTAs.
    stores = LOAD_COST[bits] * block_m * block_n * (_narrowing(problem.n, bits) - 1)
    kernel = waves * (split_size(problem.k, config) * step + stores)
    return kernel + _merge_time(config, problem, target) + _copy_time(config, problem, target)


def _merge_time(config: MatmulConfig, problem: MatmulProblem, target: Target) -> int:
    """The time of the kernel that adds parts of K, and of writing and reading them."""
    if config.k_splits == 1:
        return 0
    elements = problem.m * problem.n * problem.batch * config.k_splits
    return _of_type(LAUNCH_COST + _memory_time(elements * PART_BYTES, target), problem)


def _copy_time(config: MatmulConfig, problem: MatmulProblem, target: Target) -> int:
    """The time of the kernel that copies operands."""
    if not config.aligned_copies:
        return 0
    bits, loads, copied = problem.operand_bits, 0, 0
    for operand, columns, row in (
        ("a", problem.m, row_of_a(problem)),
        ("b", problem.n, row_of_b(problem)),
    ):
        if operand in config.aligned_copies:
            elements = columns * problem.k * problem.batch
            copied += 2 * elements * bits // 8
            loads += elements * _narrowing(row, bits)
    narrow = LOAD_COST[bits] * loads // (COPY_OCCUPANCY * gpu_of(target).num_sms)
    return _of_type(LAUNCH_COST + _memory_time(copied, target), problem) + narrow


def _memory_time(size: int, target: Target) -> int:
    """The time of so many bytes to or from memory, in multiply-adds of f16."""
    return BYTE_COST * size // gpu_of(target).num_sms


def _of_type(time_of_f16: int, problem: MatmulProblem) -> int:
    """A time in multiply-adds of the operands' type."""
    return time_of_f16 // (F32_COST if problem.operand_bits == 32 else 1)


def _narrowing(row: int, bits: int) -> int:
    """Loads or stores of a row of so many elements for each one of `VECTOR_BYTES`."""
    return VECTOR_BYTES // vector_bytes(row, bits)
