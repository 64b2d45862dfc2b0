"""Contains exceptions of the repairs at import: a model is imported without the repair that raised.

IREE may take the model as it is. Each repair that is left out is logged, and is a decision of the
report with the reason `fell_back`.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import TypeVar

from mlirfuse.core import MlirfuseError
from mlirfuse.support.contained import LOG, described, trace

T = TypeVar("T")

_left_out: contextvars.ContextVar[dict[str, str]] = contextvars.ContextVar("left_out")


@contextlib.contextmanager
def collected() -> Iterator[dict[str, str]]:
    """Collects the repairs that raise within the block: their names -> their messages."""
    parts: dict[str, str] = {}
    token = _left_out.set(parts)
    try:
        yield parts
    finally:
        _left_out.reset(token)


def leave_out(repair: str, error: BaseException) -> None:
    """Leaves a repair out, since it raised."""
    parts = _left_out.get({})
    if repair not in parts:
        parts[repair] = described(error)
        LOG.warning("%s left out: %s", repair, parts[repair])
    trace(error)


def attempt(repair: str, step: Callable[[], T], instead: T) -> T:
    """The result of a repair, `instead` where it raises; errors that users are told pass."""
    try:
        return step()
    except MlirfuseError:
        raise
    except Exception as error:
        leave_out(repair, error)
        return instead
