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
    apart = 0
    if config.k_splits > 1:
        elements = problem.m * problem.n * problem.batch * config.k_splits
        apart += LAUNCH_COST + BYTE_COST * PART_BYTES * elements // num_sms
    if config.aligned_copies:
        apart += LAUNCH_COST + BYTE_COST * _copied_bytes(config, problem) // num_sms
    apart //= F32_COST if bits == 32 else 1
    return waves * (split_size(problem.k, config) * step + stores) + apart


def _narrowing(row: int, bits: int) -> int:
    """Loads or stores of a row of so many elements for each one of `VECTOR_BYTES`."""
    return VECTOR_BYTES // vector_bytes(row, bits)


def _copied_bytes(config: MatmulConfig, problem: MatmulProblem) -> int:
    """Bytes that copies of operands read and write."""
    columns = {"a": problem.m, "b": problem.n}
    elements = sum(columns[operand] for operand in config.aligned_copies) * problem.k
    return 2 * elements * problem.batch * problem.operand_bits // 8
