"""Whether IREE's code for an elementwise region was measured to be as fast as a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.pointwise import heuristics, tile
from mlirfuse.kernels.pointwise.analysis import PointwiseAnalysis, analyze_ops, problem_of
from mlirfuse.kernels.pointwise.problem import PointwiseProblem
from mlirfuse.structured.ir import slices
from mlirfuse.targets.base import Target

MEASURED_ON = "cuda:sm_90"
"""The target whose measurements count on a target without any: they are of IREE's code."""

MAX_DOUBLINGS = 1.0
"""Distance in doublings of the elements above which a measurement of IREE's code does not count:
that it saturates the memory with many elements says nothing of few."""


def refusal(group: Sequence[ir.Operation], target: Target) -> NoMatch | None:
    """Why ops would get no kernel as a group; None if they would.

    Args:
      group: elementwise ops and ops that move data, in block order.
      target: the machine that is compiled for.
    """
    analysis = analyze_ops(group, slices.results_of(list(group)))
    if not isinstance(analysis, PointwiseAnalysis):
        return analysis
    config = heuristics.choose_config(problem_of(analysis), target)
    plan = tile.plan(analysis, config, target)
    return profitable(plan, target) if isinstance(plan, Plan) else plan


def profitable(plan: Plan, target: Target) -> NoMatch | None:
    """Takes the kernel unless IREE's code was measured to be as fast."""
    problem = plan.problem
    assert isinstance(problem, PointwiseProblem)
    found = lookup.baseline(target, problem, elsewhere=MEASURED_ON, within=MAX_DOUBLINGS)
    return None if found is None else lookup.refusal(found, problem)
