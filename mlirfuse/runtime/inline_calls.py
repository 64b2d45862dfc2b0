"""Calls of small programs on the thread of the caller.

`local-task` wakes its threads for each call and waits for them, which takes 10 to 60 microseconds;
`local-sync` runs all kernels on the calling thread. The faster device of a program depends on its
work and on the machine, so both are timed in its first calls.

A program whose call fails on several threads for want of an allocation goes on with one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from mlirfuse.runtime.manifest import Manifest
from mlirfuse.runtime.session import Session

FEATURE = "inline_calls"
"""Name of the feature that turns them off."""

THREADS, INLINE = "local-task", "local-sync"

MAX_SECONDS = 500e-6
"""Time of a call on several threads up to which one thread is tried. A call of one thread is the
faster one where the time that its other threads save is below the time that they take to wake: 60
microseconds on a virtual machine, and more where other processes use its cores; with two threads
that is so up to several times this."""

MAX_RATIO = 2
"""A call of one thread that takes so many times as long ends the trial: with many threads, the rest
of it would take long."""

UNTIMED_CALLS, TIMED_CALLS = 2, 5
"""Calls on each device: the first ones allocate memory and read the program from its file."""

UNCOMMITTED = "transient buffer has not been committed"
"""Part of IREE's error where the value of a loop is freed, or read, before it is allocated: the
queue of `local-task` loses the order (https://github.com/iree-org/iree/issues/24885). `local-sync`
allocates at once, and frees with the last reference."""

_log = logging.getLogger("mlirfuse.runtime")


def tries(manifest: Manifest) -> bool:
    """Whether the device of a program may be chosen by trial.

    It runs on two devices then, so it must keep nothing from call to call.
    """
    off = manifest.report.disables(FEATURE)
    return manifest.device == THREADS and manifest.has_state is False and not off


def cures(error: Exception, manifest: Manifest) -> bool:
    """Whether the calling thread can repeat a call that failed on several threads."""
    cured = UNCOMMITTED in str(error) and tries(manifest)
    if cured:
        _log.warning(
            "%s: IREE loses the order of allocations on %s; calls run on the calling thread, %s",
            manifest.source,
            THREADS,
            INLINE,
        )
    return cured


class Trial:
    """The first calls of a program, on two devices in turn.

    Attributes:
      chosen: the session of the faster device; None during the trial.
    """

    def __init__(
        self,
        session: Session,
        open_inline: Callable[[], Session],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Begins with the session of several threads.

        Args:
          session: the program on `local-task`.
          open_inline: loads it on `local-sync`.
          clock: the time in seconds.
        """
        self.chosen: Session | None = None
        self._threads, self._open_inline, self._clock = session, open_inline, clock
        self._inline: Session | None = None
        self._seconds: dict[str, list[float]] = {THREADS: [], INLINE: []}
        self._lock = threading.Lock()

    def call(self, values: Sequence[Any], kind: Any) -> list[Any]:
        """Calls the program with checked arguments; see `Session.call`."""
        if not self._lock.acquire(blocking=False):
            # Calls of other threads would be part of the measured times.
            return (self.chosen or self._threads).call(values, kind)
        try:
            session = self.chosen or self._inline or self._threads
            began = self._clock()
            results = session.call(values, kind)
            if self.chosen is None:
                self._count(session, self._clock() - began)
            return results
        finally:
            self._lock.release()

    def _count(self, session: Session, seconds: float) -> None:
        is_inline = session is self._inline
        times = self._seconds[INLINE if is_inline else THREADS]
        times.append(seconds)
        is_done = len(times) == UNTIMED_CALLS + TIMED_CALLS
        fewest = {name: min(t[UNTIMED_CALLS:], default=0.0) for name, t in self._seconds.items()}
        if is_inline:
            if is_done or fewest[INLINE] > MAX_RATIO * fewest[THREADS]:
                self._choose(session, fewest)
        elif is_done and fewest[THREADS] <= MAX_SECONDS:
            self._inline = self._open_inline()
        elif is_done:
            self.chosen = self._threads

    def _choose(self, inline: Session, fewest: dict[str, float]) -> None:
        self.chosen = inline if fewest[INLINE] < fewest[THREADS] else self._threads
        self._inline = None
        _log.debug(
            "%s: calls take %.0f us on %s and %.0f us on %s",
            inline.source,
            *(1e6 * fewest[THREADS], THREADS, 1e6 * fewest[INLINE], INLINE),
        )
