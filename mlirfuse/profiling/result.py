"""A profile: the times of a program's kernels, and their forms."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from mlirfuse import report_html
from mlirfuse.profiling import table, trace
from mlirfuse.profiling.measured import Measured
from mlirfuse.support.atomic_file import replacing


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Profile(Measured):
    """The measured times of a program, as a table, JSON or a trace; the fields are `Measured`'s."""

    def text(self, *, top: int | None = None, color: bool = False) -> str:
        """A table of the kernels.

        Args:
          top: number of kernels shown; None for all.
          color: whether to use ANSI styles and the terminal's width.
        """
        return table.text(self, top=top, color=color)

    def __str__(self) -> str:
        """The table of all kernels."""
        return self.text()

    def _repr_html_(self) -> str:
        """The table of all kernels, for notebooks."""
        return report_html.preformatted(self.text())

    def trace(self) -> dict[str, Any]:
        """The calls in the JSON form of Chrome's traces, which Perfetto opens."""
        return trace.events(self)

    def save_trace(self, path: str | Path) -> None:
        """Writes `trace()` into a file.

        Raises:
          UsageError: the path cannot be written.
        """
        with replacing(path) as staged:
            staged.write_text(json.dumps(self.trace()), encoding="utf-8")
