"""Which refusals of the engine were about two kernels of the final program.

Ops are known by their location and layer, which several ops may have in common: a norm is ten ops
of one line, and each of three kernels may have some of them. So a candidate certainly has an op of
a kernel if no other kernel has ops of that location and layer.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Sequence

from mlirfuse.core import Decision, Kind, Reason
from mlirfuse.final_kernels import FinalKernel, Place

_Ops = collections.Counter[Place]

_DIFFERS = frozenset(
    {Reason.CONSTANT_UNVERIFIED, Reason.STRUCTURE, Reason.WRONG_AXIS, Reason.INDEXING_MAP}
)
"""Refusals of a pattern whose last op was found, and another one not."""

_NO_PAIR = frozenset({Reason.SINGLE_OP, Reason.LEFT_TO_PRODUCER})
"""Refusals that say nothing about a second op."""


@dataclasses.dataclass(frozen=True, slots=True)
class Refusals:
    """The refusals that explain why two kernels are not one.

    Attributes:
      certain: refused candidates with ops of both kernels.
      possible: refused candidates whose ops may be ops of both, and of no other kernel but those
        that have ops of the same location and layer.
      patterns: patterns whose last op has the location and layer of an op of each kernel.
    """

    certain: list[Decision]
    possible: list[Decision]
    patterns: list[Decision]


class Candidates:
    """The refused candidates of a run, by the kernels that have their ops."""

    def __init__(self, kernels: Sequence[FinalKernel], decisions: Iterable[Decision]) -> None:
        """Counts the ops of the kernels; those of a group as they were when it was formed."""
        decisions = list(decisions)
        formed = {(d.pass_name, d.match): _Ops(d.places) for d in decisions if d.taken}
        self._kernels = [
            _Ops(k.places) | formed.get((k.pass_name or "", k.match), _Ops()) for k in kernels
        ]
        self._holders = _Ops(key for kernel in self._kernels for key in kernel)
        self._refused = [
            (d, _Ops(d.places))
            for d in decisions
            if not d.taken
            and d.reason is not None
            and d.reason not in _NO_PAIR
            and d.kind is not Kind.SIBLING
            and "-" not in d.ops
        ]

    def of(self, source: int, target: int) -> Refusals:
        """The refusals about two kernels, by their indices."""
        one, other = self._kernels[source], self._kernels[target]
        found = Refusals([], [], [])
        for decision, candidate in self._refused:
            if len(decision.ops) < 2:
                if _is_pattern(decision) and candidate.keys() <= one.keys() & other.keys():
                    found.patterns.append(decision)
            elif candidate <= one or candidate <= other:
                continue  # it may be all in one of them
            elif self._has(candidate, one) and self._has(candidate, other):
                found.certain.append(decision)
            elif candidate & one and candidate & other and _is_about(decision, one | other):
                found.possible.append(decision)
        return found

    def _has(self, candidate: _Ops, kernel: _Ops) -> bool:
        """Whether an op of the candidate is in the kernel, since it is in no other one."""
        return any(key in candidate and self._holders[key] == 1 for key in kernel)


def _is_about(decision: Decision, pair: _Ops) -> bool:
    """Whether most ops of a candidate may be in two kernels; of one with a contraction, all."""
    candidate = _Ops(decision.places)
    inside = sum(count for key, count in candidate.items() if key in pair)
    least = candidate.total() if decision.kind is Kind.EPILOGUE else candidate.total() // 2 + 1
    return inside >= least


def _is_pattern(decision: Decision) -> bool:
    return decision.kind is not Kind.REWRITE and decision.reason in _DIFFERS
