"""Exceptions of our own code that are contained: their text, and their traceback in the log.

`--debug` of the command lines shows the log of level DEBUG.
"""

from __future__ import annotations

import logging

LOG = logging.getLogger("mlirfuse")

MAX_MESSAGE_CHARS = 300
"""Longest excerpt of an exception's message, characters."""


def described(error: BaseException) -> str:
    """The type and the first line of the message of an exception."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kind = type(error).__name__
    return f"{kind}: {lines[0][:MAX_MESSAGE_CHARS]}" if lines else kind


def trace(error: BaseException) -> None:
    """Logs the traceback of an exception that is contained."""
    LOG.debug("contained: %s", described(error), exc_info=error)
