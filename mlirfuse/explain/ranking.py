"""The order of candidates by modelled gain."""

from __future__ import annotations

import itertools

from mlirfuse.core import Candidate, Decision, Report


def ranked(report: Report) -> list[Candidate]:
    """All candidates by modelled gain, the largest first; those without a model last.

    The ranking does not depend on the order in which the engine considered them.
    """

    def key(decision: Decision) -> tuple[float, int, str, str, tuple[str, ...], int]:
        gain, saved = decision.gain_us, decision.bytes_saved
        return (
            float("inf") if gain is None else -gain,
            0 if saved is None else -saved,
            decision.function,
            decision.pass_name,
            decision.ops,
            -1 if decision.match is None else decision.match,
        )

    found = sorted(report.decisions, key=key)
    return [
        Candidate(decision, rank, _margin(decision, following))
        for rank, (decision, following) in enumerate(
            itertools.zip_longest(found, found[1:]), start=1
        )
    ]


def _margin(decision: Decision, following: Decision | None) -> float | None:
    if following is None or decision.gain_us is None or following.gain_us is None:
        return None
    return round(decision.gain_us - following.gain_us, 3)
