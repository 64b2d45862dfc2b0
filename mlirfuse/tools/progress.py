"""Progress on a terminal: the stage of the work, its count and the time that it takes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from mlirfuse.support import stages
from mlirfuse.support.stages import Show


@contextlib.contextmanager
def shown(stage: str) -> Iterator[Show]:
    """Shows a line on stderr until the block ends; nothing where stderr is no terminal.

    The stages that `support.stages` is told in the block are shown too.

    Args:
      stage: the first stage.
    """
    if not sys.stderr.isatty():
        yield lambda stage, done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    columns = (
        SpinnerColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[count]}"),
        TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis"),
        ),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(stage, total=None, count="")

        def show(stage: str, done: int, total: int) -> None:
            progress.update(task, description=stage, count=f"{done}/{total}" if total else "")

        with stages.listened(show):
            yield show
