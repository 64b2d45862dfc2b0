"""Regions of loops over states, whose iterations add up contractions of a state."""

from __future__ import annotations

from mlirfuse.kernels.recurrence.problem import RecurrenceProblem


def module_text(problem: RecurrenceProblem) -> str:
    """A module whose region has the problem.

    Raises:
      ValueError: no region is known for the problem: none is measured yet, since the groups of
        passes never hold a loop.
    """
    raise ValueError(f"a recurrence: {problem.to_dict()}")
