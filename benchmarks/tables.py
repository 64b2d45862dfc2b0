"""Tables of results, for a terminal and for a page."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Literal

PIPED_WIDTH = 120
"""Characters in a line where no terminal says otherwise."""


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Words and numbers in rows.

    Attributes:
      title: one line; a heading on a page.
      text: what the columns mean.
      header: names of the columns.
      rows: as many cells as the header has.
      words: how many columns from the left hold words; the others hold numbers.
    """

    title: str
    text: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1

    def markdown(self) -> str:
        """The table as a section of a page."""
        lines = [
            f"## {self.title}\n",
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
    for position, name in enumerate(table.header):
        side: Literal["left", "right"] = "left" if position < table.words else "right"
        shown.add_column(name, justify=side, overflow="fold")
    for row in table.rows:
        shown.add_row(*row)
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
    console.print(shown)
    console.print(Padding(table.text, (0, 1, 1, 1)), markup=False, highlight=False)
