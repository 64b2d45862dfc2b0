"""Progress on a terminal: the stage of the work, its count and the time that it takes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

Show = Callable[[str, int, int], None]
"""Shows a stage, the number of its steps that are done, and their total; 0 for no known total."""


@contextlib.contextmanager
def shown(stage: str) -> Iterator[Show]:
    """Shows a line on stderr until the block ends; nothing where stderr is no terminal.

    Args:
      stage: the first stage.
    """
    if not sys.stderr.isatty():
        yield lambda stage, done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(stage, total=None, count="")

        def show(stage: str, done: int, total: int) -> None:
            progress.update(task, description=stage, count=f"{done}/{total}" if total else "")

        yield show
