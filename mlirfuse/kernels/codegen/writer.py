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
        self._indent = ""

    def line(self, text: str) -> None:
        """Writes a line."""
        self.lines.append(self._indent + text)

    @contextlib.contextmanager
    def indented(self, header: str) -> Iterator[None]:
        """Writes the header of a loop, a condition or a function; its body is the `with` block."""
        self.line(header)
        before = self._indent
        self._indent += INDENT
        try:
            yield
        finally:
            self._indent = before


class Writer(Lines):
    """Collects lines of Triton or Gluon.

    Attributes:
      reuses: whether an expression that is written again has the name that it has; only for lines
        without loops, in which no name gets another value. A load that is written twice is loaded
        twice: compilers keep both.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reuses = False
        self._names = 0
        self._known: dict[str, str] = {}

    def write(self, lines: Iterable[str]) -> None:
        """Writes several lines."""
        for text in lines:
            self.line(text)

    def name(self, text: str) -> str:
        """Gives the value of an expression a name, and returns the name."""
        if text in self._known:
            return self._known[text]
        self._names += 1
        name = f"v{self._names}"
        self.line(f"{name} = {text}")
        if self.reuses:
            self._known[text] = name
        return name

    @contextlib.contextmanager
    def indented(self, header: str) -> Iterator[None]:
        """As in `Lines`; the names of the `with` block are unknown outside of it."""
        known = dict(self._known)
        try:
            with super().indented(header):
                yield
        finally:
            self._known = known

    @contextlib.contextmanager
    def captured(self) -> Iterator[list[str]]:
        """Collects the lines of the `with` block without indentation, to insert them elsewhere.

        Names go on counting, so that the lines may stand next to others of this writer.
        """
        lines, indent, known = self.lines, self._indent, self._known
        self.lines, self._indent, self._known = [], "", {}
        try:
            yield self.lines
        finally:
            self.lines, self._indent, self._known = lines, indent, known
