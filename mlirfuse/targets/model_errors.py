"""The measured error of the cost model on each target, which decides how savings are shown.

`python -m benchmarks.ranks` measures; with `--docs` it writes the table from its results.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from importlib.resources import files
from typing import Any

FILE = "model_errors.json"

MAX_ESTIMATE_ERROR = 0.3
"""Median error up to which a modelled saving is shown in microseconds; above it is a rank."""

SAVING = "saving"
"""Value of `ModelError.of`: the time that a group saves against stock IREE's dispatches."""

TIME = "time"
"""Value of `ModelError.of`: the time of a group, from a record without stock's."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelError:
    """The distance of the model from measurements of one device.

    An error is the difference of the two values over the larger magnitude.

    Attributes:
      device: name of the device.
      of: `SAVING` or `TIME`.
      groups: number of groups measured.
      scale: factor of the model's values, after which it is as often too high as too low.
      median: median of the errors.
      p90: their 90th percentile.
    """

    device: str
    of: str
    groups: int
    scale: float
    median: float
    p90: float

    @property
    def is_small(self) -> bool:
        """Whether a modelled saving may be shown as an estimate."""
        return self.of == SAVING and self.median <= MAX_ESTIMATE_ERROR

    def __str__(self) -> str:
        """The error in words."""
        return (
            f"the error of the modelled {self.of} of {self.groups} groups on {self.device} is"
            f" {self.median:.0%} in the median, {self.p90:.0%} at the 90th percentile"
        )


def known(target: str) -> ModelError | None:
    """The error of the model on a target, by its spelling; None where none was measured."""
    entry = _table().get(target)
    return None if entry is None else ModelError(**entry)


@functools.cache
def _table() -> dict[str, dict[str, Any]]:
    text = files("mlirfuse.targets").joinpath(FILE).read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)
    return found
