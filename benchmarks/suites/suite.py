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
      run: measures the named pieces; the second argument asks for few rounds.
      tables: the results for people.
    """

    work: tuple[str, ...]
    quick_work: tuple[str, ...]
    run: Callable[[Sequence[str], bool], list[Row]]
    tables: Callable[[Results], list[Table]]
