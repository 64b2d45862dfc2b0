"""The lines of a kernel while it is written: indentation and names of values.

with writer.indented("for start in tl.range(0, 512, 64):"):
writer.line("a = tl.load(x0 + start)")
product = writer.name("a * a")                  # v1
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

INDENT = "    "


class Lines:
    """Collects indented lines.

    Attributes:
      lines: the lines written so far, indented.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 0

    def line(self, text: str) -> None:
        """Writes a line."""
        self.lines.append(INDENT * self._depth + text)

    @contextlib.contextmanager
    def indented(self, header: str) -> Iterator[None]:
        """Writes the header of a loop, a condition or a function; its body is the `with` block."""
        self.line(header)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1


class Writer(Lines):
    """Collects lines of Triton or Gluon."""

    def __init__(self) -> None:
        super().__init__()
        self._names = 0

    def write(self, lines: Iterable[str]) -> None:
        """Writes several lines."""
        for text in lines:
            self.line(text)

    def name(self, text: str) -> str:
        """Gives the value of an expression a name of its own, and returns the name."""
        self._names += 1
        self.line(f"v{self._names} = {text}")
        return f"v{self._names}"

    @contextlib.contextmanager
    def captured(self) -> Iterator[list[str]]:
        """Collects the lines of the `with` block without indentation, to insert them elsewhere.

        Names go on counting, so that the lines may stand next to others of this writer.
        """
        lines, depth = self.lines, self._depth
        self.lines, self._depth = [], 0
        try:
            yield self.lines
        finally:
            self.lines, self._depth = lines, depth
