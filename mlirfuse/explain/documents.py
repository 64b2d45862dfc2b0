"""The decisions as JSON: the numbers of the engine's model, and what they are worth.

`gain_us` is the model's own number. So a document has the error of the model, measured on the
target, and for each decision the saving as `--explain` shows it: a rank where the error is large or
not known.
"""

from __future__ import annotations

from typing import Any

from mlirfuse.core import Report
from mlirfuse.explain.ranking import ranked
from mlirfuse.explain.savings import Savings


def report_document(report: Report) -> dict[str, Any]:
    """The report in the shape of the decisions schema, for `--explain=json` and `--decisions`."""
    savings = Savings(report)
    entries = [d.to_dict() | {"saving": savings.entry(d)} for d in report.decisions]
    return report.to_dict() | {"decisions": entries, "savings": savings.to_dict()}


def candidates_document(report: Report) -> list[dict[str, Any]]:
    """All candidates by rank, for `--candidates=json`."""
    savings = Savings(report)
    error = savings.error_entry()
    return [
        candidate.to_dict() | {"saving": savings.entry(candidate.decision), "model_error": error}
        for candidate in ranked(report)
    ]
