"""Stages of the software pipelines of matmuls, from shared memory and the CTAs of an SM."""

from __future__ import annotations

from mlirfuse.kernels.codegen.dot_precision import uses_warpgroups
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.matmul.cost_model import num_ctas, stage_bytes
from mlirfuse.kernels.matmul.problem import MatmulConfig, MatmulProblem
from mlirfuse.targets.base import Target

MAX_ACCUMULATORS_PER_THREAD = 128
"""Accumulators of a thread at most, of its 255 registers."""

MAX_SHARING_CTAS, MIN_SHARED_STAGES = 3, 3
"""CTAs that share an SM at most where they are all of its CTAs, and stages that each then has."""


def stages_that_fit(config: MatmulConfig, problem: MatmulProblem, target: Target) -> int:
    """Stages that fit in two thirds of the shared memory; the rest is for layout conversions.

    Of f32 the parts of a block of B are in shared memory, too, where warpgroups read them.
    """
    split = 0
    if problem.operand_bits == 32 and uses_warpgroups(config.block_m, config.num_warps, target):
        split = 8 * config.block_n * problem.accumulators * config.block_k
    room = gpu_of(target).shared_memory_per_cta * 2 // 3 - split
    return room // stage_bytes(config, problem)


def shares_sm(config: MatmulConfig, problem: MatmulProblem, target: Target) -> bool:
    """Whether an SM has two CTAs or more, by their number and their registers.

    Of f32 it was not measured: the parts of its products need registers of their own.
    """
    gpu = gpu_of(target)
    elements = config.block_m * config.block_n * problem.accumulators
    few = 2 * elements <= MAX_ACCUMULATORS_PER_THREAD * config.num_warps * gpu.warp_size
    return few and problem.operand_bits == 16 and num_ctas(problem, config) > gpu.num_sms


def shared_stages(config: MatmulConfig, problem: MatmulProblem, target: Target) -> int:
    """Stages of two CTAs that share an SM: one computes its epilogue while the other one loads.

    On an H100 `mish(x @ w)` of 8192x512x512 f16 took 31 us in tiles of 64x128 with six stages, and
    20 with four, of which two CTAs have room; a product of 2048x2048x2048 took 28.5 us in tiles of
    128x128 with four stages, and 26.2 with three. Where three CTAs of each SM are all there are,
    none starts late: on an H200 8x59x1280x4456 f16 took 33.0 us in tiles of 64x128 with four
    stages, and 30.2 with three.
    """
    gpu, bytes_of_stage = gpu_of(target), stage_bytes(config, problem)
    stages = gpu.shared_memory_per_sm // 2 // bytes_of_stage
    if 2 * gpu.num_sms < num_ctas(problem, config) <= MAX_SHARING_CTAS * gpu.num_sms:
        shared = gpu.shared_memory_per_sm // MAX_SHARING_CTAS // bytes_of_stage
        return shared if shared >= MIN_SHARED_STAGES else stages
    return stages
