"""The interface of a kernel family, which the kernel passes, the tuner and the tests iterate over.

    problem = family.problem(region, target)        sizes and traits, or the refusal
    config = family.default_config(problem, target) computed from the device
    plan = family.plan(region, target, config)      source, operands, grid

A family is one folder of `mlirfuse.kernels`; `registry.FAMILIES` lists them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Generic, TypeVar

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.rounded_products import rounds_products
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.problem import Problem, Record
from mlirfuse.targets.base import Target

A = TypeVar("A")
P = TypeVar("P", bound=Problem)
C = TypeVar("C", bound=Record)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelFamily(Generic[A, P, C]):
    """Kernels for one kind of region.

    Attributes:
      name: name of the family, and of its folder.
      problem_type: dataclass of its problems.
      config_type: dataclass of its configurations.
      analyze: reads a region; None for a region that is not of this family, or the reason why
        there is no kernel.
      problem_of: the problem of an analysis.
      plan_analysis: plans the kernel of an analysis with a configuration, or with the one that it
        chooses by problem and target where that is None.
      default_config: the configuration computed from the problem and the device.
      configs: the configurations that the tuner measures.
      alone: the configuration without the kernels that combine parts or copy operands.
      portable: the configuration computed for a kernel that is not in Gluon, where others are.
      entries: other names than the family's under which its configurations are filed, which
        `Problem.family` gives.
    """

    name: str
    problem_type: type[P]
    config_type: type[C]
    analyze: Callable[[ir.Operation], A | NoMatch | None]
    problem_of: Callable[[A], P]
    plan_analysis: Callable[[A, Target, C | None], Plan | NoMatch | None]
    default_config: Callable[[P, Target], C]
    configs: Callable[[P, Target], list[C]]
    alone: Callable[[C], C] = lambda config: config
    portable: Callable[[P, Target], C] | None = None
    entries: tuple[str, ...] = ()

    def plan(
        self, region: ir.Operation, target: Target, config: C | None = None
    ) -> Plan | NoMatch | None:
        """Plans the kernel of a region; None for a region that is not of this family.

        Args:
          region: a `flow.dispatch.region`.
          target: the machine that is compiled for.
          config: the configuration to use; chosen by problem and target when left out.
        """
        analysis = self.analyze(region)
        if analysis is None or isinstance(analysis, NoMatch):
            return analysis
        planned = self.plan_analysis(analysis, target, config)
        if not isinstance(planned, Plan):
            return planned
        if config is None and planned.program.in_gluon and self.portable is not None:
            other = self.portable(self.problem_of(analysis), target)
            instead = self.plan_analysis(analysis, target, other)
            if isinstance(instead, Plan) and not instead.program.in_gluon:
                planned = dataclasses.replace(planned, instead=instead)
        return planned.without_contraction() if rounds_products(region) else planned

    def plan_alone(self, region: ir.Operation, target: Target) -> Plan | NoMatch | None:
        """Plans one kernel for a region; None for a region that is not of this family.

        Where the chosen configuration takes several, it is the computed one without them.
        """
        planned = self.plan(region, target)
        if not isinstance(planned, Plan) or len(planned.kernels()) == 1:
            return planned
        problem = self.problem(region, target)
        assert problem is not None
        assert not isinstance(problem, NoMatch)
        return self.plan(region, target, self.alone(self.default_config(problem, target)))

    def problem(self, region: ir.Operation, target: Target) -> P | NoMatch | None:
        """The problem of a region; None for a region that is not of this family."""
        analysis = self.analyze(region)
        if analysis is None or isinstance(analysis, NoMatch):
            return analysis
        return self.problem_of(analysis)
