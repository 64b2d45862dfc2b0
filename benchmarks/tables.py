"""Tables of results, for a terminal and for a page."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Words and numbers in rows.

    Attributes:
      title: one line; a heading on a page.
      text: what the columns mean.
      header: names of the columns; the first one holds words, the others numbers.
      rows: as many cells as the header has.
    """

    title: str
    text: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """The table as a section of a page."""
        lines = [
            f"## {self.title}\n",
            f"{self.text}\n",
            _line(self.header),
            _line(["---"] + ["---:"] * (len(self.header) - 1)),
            *map(_line, self.rows),
        ]
        return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def show(table: Table) -> None:
    """Prints the table to standard output."""
    from rich.console import Console
    from rich.table import Table as RichTable

    shown = RichTable(title=table.title, caption=table.text, title_justify="left")
    for position, name in enumerate(table.header):
        shown.add_column(name, justify="right" if position else "left", overflow="fold")
    for row in table.rows:
        shown.add_row(*row)
    Console().print(shown)
