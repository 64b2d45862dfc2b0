"""The family of convolution kernels: implicit GEMMs, one tile per CTA or persistent."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.tile_writer import attempted
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.convolution import heuristics, implicit_gemm, persistent_sm90
from mlirfuse.kernels.convolution.analysis import Analysis, analyze, problem_of
from mlirfuse.kernels.convolution.problem import ConvolutionConfig, ConvolutionProblem
from mlirfuse.kernels.plan import Plan
from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True)
class ConvolutionFamily:
    """Implements `mlirfuse.kernels.family.KernelFamily`."""

    name: str = "convolution"
    problem_type: type[ConvolutionProblem] = ConvolutionProblem
    config_type: type[ConvolutionConfig] = ConvolutionConfig

    def plan(
        self, region: ir.Operation, target: Target, config: ConvolutionConfig | None = None
    ) -> Plan | NoMatch | None:
        """Plans the kernel of a region; None for another kind of region."""
        analysis = analyze(region)
        if not isinstance(analysis, Analysis):
            return analysis
        chosen = _choose(analysis, target) if config is None else config
        chosen = heuristics.clamp_block_n(chosen, analysis.out_channels)
        refusal = _refusal(analysis, chosen, target)
        if refusal is not None:
            return refusal
        return attempted(lambda: _plan(analysis, chosen, target), "pixels and channels")

    def problem(self, region: ir.Operation, target: Target) -> ConvolutionProblem | NoMatch | None:
        """The problem of a region; None for another kind of region."""
        analysis = analyze(region)
        return problem_of(analysis) if isinstance(analysis, Analysis) else analysis

    def default_config(self, problem: ConvolutionProblem, target: Target) -> ConvolutionConfig:
        """The configuration computed from the problem and the device."""
        return heuristics.default_config(problem, target)

    def configs(self, problem: ConvolutionProblem, target: Target) -> list[ConvolutionConfig]:
        """The configurations that the tuner measures."""
        return heuristics.configs(problem, target)


def _choose(analysis: Analysis, target: Target) -> ConvolutionConfig:
    """The nearest measured configuration that can run, else the default."""
    problem = problem_of(analysis)

    def runs(entry: lookup.Entry[ConvolutionProblem, ConvolutionConfig]) -> bool:
        config = heuristics.clamp_block_n(entry.config, analysis.out_channels)
        return _refusal(analysis, config, target) is None

    measured = lookup.nearest(target, problem, ConvolutionConfig, runs)
    return heuristics.default_config(problem, target) if measured is None else measured.config


def _refusal(analysis: Analysis, config: ConvolutionConfig, target: Target) -> NoMatch | None:
    """The reason why a configuration cannot run; None where it can."""
    if not config.consumer_warpgroups:
        return None
    return persistent_sm90.can_run(analysis, config, target)


def _plan(analysis: Analysis, config: ConvolutionConfig, target: Target) -> Plan:
    if config.consumer_warpgroups:
        return persistent_sm90.plan(analysis, config, target)
    return implicit_gemm.plan(analysis, config)


CONVOLUTION = ConvolutionFamily()
