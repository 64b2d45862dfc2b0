"""The interface of a kernel family: what the kernel passes, the tuner and the tests iterate over.

    problem = family.problem(region, target)        sizes and traits, or the refusal
    config = family.default_config(problem, target) computed from the device
    plan = family.plan(region, target, config)      source, operands, grid

A family is one folder of `mlirfuse.kernels`; `registry.FAMILIES` lists them.
"""

from __future__ import annotations

from typing import Any, Protocol

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.problem import Problem, Record
from mlirfuse.targets.base import Target


class KernelFamily(Protocol):
    """Kernels for one kind of region.

    Attributes:
      name: name of the family, and of its folder.
      problem_type: dataclass of its problems.
      config_type: dataclass of its configurations.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def problem_type(self) -> type[Any]: ...  # noqa: D102

    @property
    def config_type(self) -> type[Any]: ...  # noqa: D102

    def plan(
        self, region: ir.Operation, target: Target, config: Any = None
    ) -> Plan | NoMatch | None:
        """Plans the kernel of a region; None for a region that is not of this family.

        Args:
          region: a `flow.dispatch.region`.
          target: the machine that is compiled for.
          config: the configuration to use; chosen by problem and target when left out.
        """

    def problem(self, region: ir.Operation, target: Target) -> Problem | NoMatch | None:
        """The problem of a region; None for a region that is not of this family."""

    def default_config(self, problem: Any, target: Target) -> Record:
        """The configuration computed from the problem and the device."""

    def configs(self, problem: Any, target: Target) -> list[Any]:
        """The configurations that the tuner measures."""
