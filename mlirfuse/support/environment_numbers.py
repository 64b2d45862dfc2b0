"""Numbers that a user sets by environment variables."""

from __future__ import annotations

import os

from mlirfuse.core import UsageError

THREADS_VARIABLE = "MLIRFUSE_THREADS"
"""Environment variable with the number of threads of `local-task`, which programs for CPUs are
compiled for, too. Without it IREE starts one for each physical core, up to 64."""


def threads() -> int | None:
    """The number of threads that the environment asks for; None for IREE's choice.

    Raises:
      UsageError: the variable holds no number.
    """
    return number(THREADS_VARIABLE, "a number of threads from 1", least=1)


def number(variable: str, meaning: str, *, least: int) -> int | None:
    """The number of an environment variable; None where it is not set.

    Args:
      variable: its name.
      meaning: of the number, for the message of an error.
      least: the smallest one.

    Raises:
      UsageError: the variable holds no number, or a smaller one.
    """
    text = os.environ.get(variable, "").strip()
    if text and (not text.isdecimal() or int(text) < least):
        raise UsageError(f"{variable}: '{text}' is not {meaning}")
    return int(text) if text else None
