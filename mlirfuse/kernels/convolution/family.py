"""The family of convolution kernels.

implicit_gemm       one tile per CTA
parallel_split_k    the same for few tiles, whose CTAs split K
persistent_sm90     warp-specialized persistent implicit GEMM for Hopper
direct              groups of few channels, without matrix instructions
"""

from __future__ import annotations

import dataclasses
import functools

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.iteration_space import known_product
from mlirfuse.kernels.codegen.tile_writer import attempted
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.convolution import (
    direct,
    heuristics,
    implicit_gemm,
    parallel_split_k,
    persistent_sm90,
)
from mlirfuse.kernels.convolution.analysis import Analysis, analyze, problem_of
from mlirfuse.kernels.convolution.problem import ConvolutionConfig, ConvolutionProblem
from mlirfuse.kernels.family import KernelFamily
from mlirfuse.kernels.matmul.aligned_copies import AlignedCopy
from mlirfuse.kernels.plan import Plan
from mlirfuse.targets.base import Target


def _plan(
    analysis: Analysis, target: Target, config: ConvolutionConfig | None
) -> Plan | NoMatch | None:
    chosen = _choose(analysis, target) if config is None else config
    if problem_of(analysis).is_direct:
        return attempted(lambda: direct.plan(analysis, chosen), "pixels and channels")
    chosen = heuristics.clamp_block_n(chosen, analysis.out_channels)
    refusal = _refusal(analysis, chosen, target)
    if refusal is not None:
        return refusal
    return attempted(lambda: _plan_config(analysis, chosen, target), "pixels and channels")


def _choose(analysis: Analysis, target: Target) -> ConvolutionConfig:
    """The nearest measured configuration that can run, else the default."""
    problem = problem_of(analysis)
    classes = known_product([surround.stride for surround in analysis.surrounds])
    default = functools.partial(heuristics.default_config, classes=classes)
    computed = default(problem, target)
    if computed.aligned_copies:
        return computed  # Measured problems have aligned rows.

    def runs(entry: lookup.Entry[ConvolutionProblem, ConvolutionConfig]) -> bool:
        config = heuristics.clamp_block_n(entry.config, analysis.out_channels)
        known = entry.problem
        alike = known.operand_bits == problem.operand_bits and known.is_direct == problem.is_direct
        alike = alike and not heuristics.is_tf32(problem, target)  # measured as f32
        busy = heuristics.keeps_busy(known, config, problem, target)
        return alike and busy and _refusal(analysis, config, target) is None

    return lookup.choose(target, problem, ConvolutionConfig, default, runs)


def _refusal(analysis: Analysis, config: ConvolutionConfig, target: Target) -> NoMatch | None:
    """The reason why a configuration cannot run; None where it can."""
    if not config.consumer_warpgroups:
        return None
    return persistent_sm90.can_run(analysis, config, target)


def _plan_config(analysis: Analysis, config: ConvolutionConfig, target: Target) -> Plan:
    if config.consumer_warpgroups:
        return persistent_sm90.plan(analysis, config, target)
    analysis = _with_copies(analysis, config)
    if parallel_split_k.can_run(analysis, config):
        return parallel_split_k.plan(analysis, config, target)
    return implicit_gemm.plan(analysis, config, target)


def _with_copies(analysis: Analysis, config: ConvolutionConfig) -> Analysis:
    """The convolution of the copies that a configuration has, of operands that can have one."""
    problem, copied = problem_of(analysis), config.aligned_copies
    if problem.narrow_filter and "b" in copied:
        copy = AlignedCopy("s0", analysis.filter)
        analysis = dataclasses.replace(analysis, filter_copy=copy)
    if problem.narrow_image and "a" in copied:
        copy = AlignedCopy("s1" if analysis.filter_copy else "s0", analysis.image)
        analysis = dataclasses.replace(analysis, image_copy=copy)
    return analysis


CONVOLUTION = KernelFamily(
    name="convolution",
    problem_type=ConvolutionProblem,
    config_type=ConvolutionConfig,
    analyze=analyze,
    problem_of=problem_of,
    plan_analysis=_plan,
    default_config=heuristics.default_config,
    configs=heuristics.configs,
    alone=ConvolutionConfig.alone,
    portable=heuristics.default_config,
)
