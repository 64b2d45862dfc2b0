"""The error of the cost model, from measured groups of one device."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlirfuse.targets import model_errors
from mlirfuse.targets.model_errors import ModelError

if TYPE_CHECKING:
    from benchmarks.ranks import Group


def measured(groups: Sequence[Group], device: str) -> ModelError:
    """The error of the model: of savings, or of times where stock's were not measured.

    Of savings those count that the model predicts: no other is shown.
    """
    savings = [
        (g.stock_modelled_us - g.modelled_us, g.stock_measured_us - g.measured_us)
        for g in groups
        if g.measured_us is not None
        and g.stock_modelled_us is not None
        and g.stock_measured_us is not None
    ]
    times = [(g.modelled_us, g.measured_us) for g in groups if g.measured_us is not None]
    pairs = [(p, m) for p, m in savings if p > 0] or times
    scale = statistics.median([m / p for p, m in pairs if p > 0])
    errors = sorted(_error(scale * p, m) for p, m in pairs)
    return ModelError(
        device=device,
        of=model_errors.SAVING if savings else model_errors.TIME,
        groups=len(pairs),
        scale=round(scale, 4),
        median=round(statistics.median(errors), 4),
        p90=round(errors[math.ceil(0.9 * len(errors)) - 1], 4),
    )


def _error(modelled: float, measured: float) -> float:
    larger = max(abs(modelled), abs(measured))
    return abs(modelled - measured) / larger if larger else 0.0


def row(found: ModelError) -> list[str]:
    """A row of the page's table of errors."""
    return [
        found.device,
        found.of,
        f"{found.scale:.2f}",
        f"{found.median:.0%}",
        f"{found.p90:.0%}",
    ]
