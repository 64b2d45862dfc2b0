"""Recurrences: loops whose iterations carry states.

  %r:2 = scf.for %n = 0 to 512 iter_args(%h, %c) { LSTM cell }
becomes
  recurrence_kernel: all iterations; CTAs wait for each other where they exchange states
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.final_kernels import FinalKernel
from mlirfuse.kernels.family import KernelFamily
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.recurrence import heuristics, persistent
from mlirfuse.kernels.recurrence.analysis import (
    RecurrenceAnalysis,
    analyze,
    analyze_loop,
    problem_of,
)
from mlirfuse.kernels.recurrence.problem import RecurrenceConfig, RecurrenceProblem
from mlirfuse.targets.base import Target

PASS_NAME = "recurrence_triton_kernel"


def plan_recurrence(
    analysis: RecurrenceAnalysis, target: Target, config: RecurrenceConfig | None = None
) -> Plan | NoMatch:
    """Plans the kernel of a loop.

    Args:
      analysis: the loop.
      target: the target.
      config: a given configuration; else the nearest measured, or the computed one.
    """
    problem = problem_of(analysis)
    chosen = config or heuristics.choose_config(problem, target)
    waiting = chosen.column_tiles(problem.columns)
    if problem.k and waiting > heuristics.most_waiting(target):
        text = f"{waiting} CTAs wait for each other, and the device runs fewer at a time"
        return NoMatch(Reason.TARGET_UNSUPPORTED, text)
    return persistent.plan(analysis, chosen, target)


def plan_loop(loop: ir.Operation, target: Target) -> Plan | NoMatch | None:
    """Plans the kernel of an `scf.for`; None for one without states."""
    analysis = analyze_loop(loop)
    if analysis is None or isinstance(analysis, NoMatch):
        return analysis
    return plan_recurrence(analysis, target)


def waiting_workgroups(kernels: Iterable[FinalKernel], target: Target) -> int:
    """Workgroups at most that wait for each other in a kernel of these of a program."""
    counts = [math.prod(k.workgroups or ()) for k in kernels if k.code == PASS_NAME]
    return min(max(counts), heuristics.most_waiting(target)) if counts else 0


RECURRENCE = KernelFamily(
    name="recurrence",
    problem_type=RecurrenceProblem,
    config_type=RecurrenceConfig,
    analyze=analyze,
    problem_of=problem_of,
    plan_analysis=plan_recurrence,
    default_config=heuristics.default_config,
    configs=heuristics.configs,
)
