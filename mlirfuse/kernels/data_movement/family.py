"""The family of data movement: concatenations of tensors that lie in memory."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.loop_nest import VECTOR
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.data_movement import concat
from mlirfuse.kernels.data_movement.analysis import ConcatAnalysis, analyze, problem_of
from mlirfuse.kernels.data_movement.problem import ConcatConfig, ConcatProblem
from mlirfuse.kernels.plan import Plan
from mlirfuse.targets.base import Target

NUM_WARPS = 4

LOADS_PER_THREAD = 2
"""Vectorized loads of 16 bytes of 16-bit elements per thread."""


@dataclasses.dataclass(frozen=True, slots=True)
class DataMovementFamily:
    """Implements `mlirfuse.kernels.family.KernelFamily`."""

    name: str = "data_movement"
    problem_type: type[ConcatProblem] = ConcatProblem
    config_type: type[ConcatConfig] = ConcatConfig

    def plan(
        self, region: ir.Operation, target: Target, config: ConcatConfig | None = None
    ) -> Plan | NoMatch | None:
        """Plans the kernel of a region; None for another kind of region."""
        analysis = analyze(region)
        if not isinstance(analysis, ConcatAnalysis):
            return analysis
        return plan_concat(analysis, target, config)

    def problem(self, region: ir.Operation, target: Target) -> ConcatProblem | NoMatch | None:
        """The problem of a region; None for another kind of region."""
        analysis = analyze(region)
        return problem_of(analysis) if isinstance(analysis, ConcatAnalysis) else analysis

    def default_config(self, problem: ConcatProblem, target: Target) -> ConcatConfig:
        """The configuration computed from the problem and the device."""
        elements = VECTOR * LOADS_PER_THREAD * gpu_of(target).warp_size * NUM_WARPS
        return ConcatConfig(elements, NUM_WARPS)

    def configs(self, problem: ConcatProblem, target: Target) -> list[ConcatConfig]:
        """The configurations that the tuner measures."""
        default = self.default_config(problem, target)
        found = [ConcatConfig(n, warps) for n in (1024, 2048, 4096, 8192) for warps in (4, 8)]
        return list(dict.fromkeys([default, *found]))


DATA_MOVEMENT = DataMovementFamily()


def plan_concat(
    analysis: ConcatAnalysis, target: Target, config: ConcatConfig | None = None
) -> Plan:
    """Plans the kernel of a concatenation, of a region or before there is one.

    Args:
      analysis: the concatenation.
      target: the target.
      config: a given configuration; else the nearest measured, or the computed one.
    """
    problem = problem_of(analysis)
    if config is None:
        measured = lookup.nearest(target, problem, ConcatConfig)
        default = DATA_MOVEMENT.default_config(problem, target)
        config = default if measured is None else measured.config
    return concat.plan(analysis, config)
