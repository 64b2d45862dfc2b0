"""Tables of results, for a terminal and for a page."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Literal

PIPED_WIDTH = 120
"""Width of the output when it is not a terminal, in characters."""


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """A table of words and numbers.

    Attributes:
      title: heading, one line.
      text: explanation of the columns.
      header: names of the columns.
      rows: cells of each row, one for each column.
      words: count of columns from the left that hold words; the others hold numbers.
    """

    title: str
    text: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1

    def markdown(self, level: int = 2) -> str:
        """The table as a section of a page, with a heading of a level."""
        lines = [
            f"{'#' * level} {self.title}\n",
            f"{self.text}\n",
            _line(self.header),
            _line(["---"] * self.words + ["---:"] * (len(self.header) - self.words)),
            *map(_line, self.rows),
        ]
        return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def show(table: Table) -> None:
    """Prints the table to standard output."""
    from rich import box
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table as RichTable

    shown = RichTable(title=table.title, title_justify="left", box=box.SIMPLE_HEAD)
    for index, name in enumerate(table.header):
        justify: Literal["left", "right"] = "left" if index < table.words else "right"
        shown.add_column(name, justify=justify, overflow="fold")
    for row in table.rows:
        shown.add_row(*row)
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
    console.print(shown)
    console.print(Padding(table.text, (0, 1, 1, 1)), markup=False, highlight=False)
