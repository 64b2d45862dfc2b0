"""`--split-input-file` and `--verify-diagnostics`: sections of a text, and their expectations."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from mlirfuse.core import UsageError
from mlirfuse.tools.diagnostics import Diagnostic

SEPARATOR = "// -----"
"""Start of a line that ends a section."""

_EXPECTED = re.compile(
    r"expected-(?P<severity>error|warning|remark|note)(?P<regex>-re)?"
    r"(?:\s*@(?P<place>[+-]\d+|above|below|unknown))?"
    r"\s*(?P<times>\d+)?\s*\{\{(?P<text>.*?)\}\}"
)
_ATTEMPT = re.compile(r"//\s*expected-(error|warning|remark|note)")


@dataclasses.dataclass(frozen=True, slots=True)
class Expected:
    """One `expected-...` comment.

    Attributes:
      severity: `error`, `warning`, `remark` or `note`.
      line: the line of the diagnostic; None for any line, also none.
      pattern: text that the message has to contain.
      text: the same, as written.
    """

    severity: str
    line: int | None
    pattern: re.Pattern[str]
    text: str

    def matches(self, found: Diagnostic) -> bool:
        """Returns whether a diagnostic is the expected one."""
        return (
            found.severity == self.severity
            and self.line in (None, found.line)
            and self.pattern.search(found.message) is not None
        )


def split(text: str) -> Iterator[str]:
    """Yields the sections of a text, each after as many empty lines as keep its line numbers."""
    start = 0
    section: list[str] = []
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith(SEPARATOR):
            yield "\n" * start + "\n".join(section)
            start, section = number + 1, []
        else:
            section.append(line)
    yield "\n" * start + "\n".join(section)


def expectations(section: str, file: str) -> list[Expected]:
    """Reads the `expected-...` comments of a section.

    `@+1`, `@-1`, `@above` and `@below` move the line, `@unknown` takes any. `above` and `below`
    skip lines that hold expectations themselves.

    Raises:
      UsageError: a comment starts like an expectation and is none, or its `-re` does not compile.
    """
    lines = section.split("\n")
    occupied = [bool(_EXPECTED.search(line)) for line in lines]
    found: list[Expected] = []
    for index, line in enumerate(lines):
        if _ATTEMPT.search(line) and not occupied[index]:
            raise UsageError(
                f"{file}:{index + 1}: not an expectation; written like"
                " // expected-error @+1 {{part of the message}}"
            )
        for match in _EXPECTED.finditer(line):
            text = match["text"]
            try:
                pattern = re.compile(text if match["regex"] else re.escape(text))
            except re.error as error:
                raise UsageError(f"{file}:{index + 1}: bad pattern {text!r}: {error}") from None
            place = _line(match["place"], index, occupied)
            times = int(match["times"] or 1)
            found.extend([Expected(match["severity"], place, pattern, text)] * times)
    return found


def _line(place: str | None, index: int, occupied: list[bool]) -> int | None:
    if place == "unknown":
        return None
    if place in ("above", "below"):
        step = -1 if place == "above" else 1
        index += step
        while 0 <= index < len(occupied) and occupied[index]:
            index += step
        return index + 1
    return index + 1 + int(place or 0)


def mismatches(
    expected: Iterable[Expected], found: Iterable[Diagnostic], file: str
) -> list[Diagnostic]:
    """The expected diagnostics that are missing, and those that were not expected.

    Notes need not be expected: MLIR adds them to errors on its own.
    """
    missing_ones = list(expected)
    wrong: list[Diagnostic] = []
    for diagnostic in found:
        hit = next((e for e in missing_ones if e.matches(diagnostic)), None)
        if hit is not None:
            missing_ones.remove(hit)
        elif diagnostic.severity != "note":
            message = f"unexpected {diagnostic.severity}: {diagnostic.message}"
            wrong.append(dataclasses.replace(diagnostic, severity="error", message=message))
    for missing in missing_ones:
        message = f"expected {missing.severity} did not come: {missing.text}"
        wrong.append(Diagnostic(file, missing.line or 0, 1, "error", message))
    return wrong
