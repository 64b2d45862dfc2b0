"""How a process ended, in words: its exit code, and the last line that it wrote to stderr."""

from __future__ import annotations

import signal
from typing import IO

TAIL_BYTES = 1 << 14
"""How much of the end of a process's stderr is read for its last line."""

LINE_CHARS = 400
"""Longest line that is shown."""


def how(code: int) -> str:
    """`ended with exit code 2`, or `died with SIGSEGV`.

    Args:
      code: as `subprocess.Popen.returncode`: negative for the number of a signal.
    """
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if name == "SIGKILL":
        name += " (killed from outside, often for want of memory)"
    return f"died with {name}"


def last_line(stderr: IO[bytes]) -> str:
    """The last line of a file that is not blank, e.g. the error under a traceback; else empty."""
    size = stderr.seek(0, 2)
    stderr.seek(max(0, size - TAIL_BYTES))
    lines = stderr.read().decode(errors="replace").splitlines()
    last = next((line for line in reversed(lines) if line.strip()), "")
    return last.strip()[:LINE_CHARS]
