"""Whether an elementwise kernel is faster than IREE's code for the region."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.pointwise import heuristics, tile
from mlirfuse.kernels.pointwise.analysis import PointwiseAnalysis, analyze_ops, problem_of
from mlirfuse.kernels.pointwise.problem import PointwiseProblem
from mlirfuse.targets.base import Target

MEASURED_ON = "cuda:sm_90"
"""The target whose measurements count on a target without any: they are of IREE's code."""


def refusal(op: ir.Operation, target: Target) -> NoMatch | None:
    """Why an elementwise op that is alone would get no kernel as a group; None if it would."""
    analysis = analyze_ops([op], list(op.results))
    if not isinstance(analysis, PointwiseAnalysis):
        return analysis
    config = heuristics.choose_config(problem_of(analysis), target)
    plan = tile.plan(analysis, config)
    return profitable(plan, target) if isinstance(plan, Plan) else plan


def profitable(plan: Plan, target: Target) -> NoMatch | None:
    """Leaves a region with IREE unless a kernel was measured to be faster."""
    problem = plan.problem
    assert isinstance(problem, PointwiseProblem)
    found = lookup.baseline(target, problem, elsewhere=MEASURED_ON)
    if found is not None:
        return lookup.refusal(found, problem)
    results = "several results" if problem.several_results else "one result"
    return NoMatch(
        Reason.NOT_PROFITABLE,
        f"no kernel was measured near {problem} elements, {problem.trait}, {problem.result_bits}"
        f" bits, {results}",
    )
