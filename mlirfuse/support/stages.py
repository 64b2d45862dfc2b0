"""Stages of long work, for a command that shows them: nothing happens where none listens."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

Show = Callable[[str, int, int], object]
"""Takes a stage, the number of its steps that are done, and their number; 0 for an unknown one."""

_listeners: list[Show] = []


def show(stage: str, done: int = 0, total: int = 0) -> None:
    """Tells the listener the present stage. Safe to call from several threads."""
    for listener in _listeners[-1:]:
        listener(stage, done, total)


@contextlib.contextmanager
def listened(listener: Show) -> Iterator[None]:
    """Makes a function the listener of this process until the block ends."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


class Counted:
    """A stage of steps that begin and end in any order, as builds in several threads."""

    def __init__(self, stage: str) -> None:
        """A stage.

        Args:
          stage: its name.
        """
        self._stage = stage
        self._lock = threading.Lock()
        self._begun = self._ended = 0

    def begin(self) -> None:
        """Counts a step; the first one after all others ended starts the count again."""
        with self._lock:
            if self._begun == self._ended:
                self._begun = self._ended = 0
            self._begun += 1
            counts = self._ended, self._begun
        show(self._stage, *counts)

    def end(self, _step: object = None) -> None:
        """Counts the end of a step; takes a future, as its callback."""
        with self._lock:
            self._ended += 1
            counts = self._ended, self._begun
        show(self._stage, *counts)
