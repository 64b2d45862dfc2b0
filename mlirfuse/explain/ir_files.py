"""The IR around the passes that changed it, read from the files that `dump_ir_dir` wrote."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypedDict

_FILE = re.compile(r"\d+_(?P<name>\w+)_before\.mlir")


class PageIr(TypedDict):
    """Arguments of `html`.

    Attributes:
      before: the module before the passes; None where no pass changed it.
      after: the module after the passes; None where no pass changed it.
      steps: for each pass that changed it, its name and the module before and after it; None where
        that is not known.
    """

    before: str | None
    after: str | None
    steps: list[tuple[str, str, str]] | None


def read(folder: Path | None) -> PageIr:
    """The IR before and after all passes and each of them.

    Args:
      folder: the files of one run of the passes; None where they were not written.
    """
    if folder is None:
        return PageIr(before=None, after=None, steps=None)
    steps = []
    for path in sorted(folder.glob("*_before.mlir")):
        found = _FILE.fullmatch(path.name)
        if found is not None:
            after = path.with_name(path.name.replace("_before.mlir", "_after.mlir"))
            texts = [text.read_text(encoding="utf-8") for text in (path, after)]
            steps.append((found["name"], texts[0], texts[1]))
    first, last = (steps[0][1], steps[-1][2]) if steps else (None, None)
    return PageIr(before=first, after=last, steps=steps)
