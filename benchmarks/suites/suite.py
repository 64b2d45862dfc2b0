"""A suite: its workloads, its measurement and its tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from benchmarks.results import Results, Row
from benchmarks.tables import Table


@dataclasses.dataclass(frozen=True, slots=True)
class Suite:
    """Workloads with a common measurement.

    Attributes:
      work: names of the workloads, in order.
      quick_work: names of the workloads of a quick run.
      run: measures the named workloads, with few rounds if the second argument is true; None for a
        suite with its own command.
      tables: makes tables of the results.
      chart: makes a chart of the results, as SVG; None for no chart.
    """

    work: tuple[str, ...]
    quick_work: tuple[str, ...]
    run: Callable[[Sequence[str], bool], list[Row]] | None
    tables: Callable[[Results], list[Table]]
    chart: Callable[[Results], str] | None = None
