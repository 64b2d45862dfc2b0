"""What a suite is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from benchmarks.results import Results, Row
from benchmarks.tables import Table


@dataclasses.dataclass(frozen=True, slots=True)
class Suite:
    """Pieces of work that are measured and shown alike.

    Attributes:
      work: their names, in order.
      quick_work: those of a quick run.
      run: measures the named pieces; the second argument asks for few rounds. None where the suite
        has a command of its own.
      tables: the results for people.
      chart: the results as a picture, SVG.
    """

    work: tuple[str, ...]
    quick_work: tuple[str, ...]
    run: Callable[[Sequence[str], bool], list[Row]] | None
    tables: Callable[[Results], list[Table]]
    chart: Callable[[Results], str] | None = None
