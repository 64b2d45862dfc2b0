"""Files that are whole or absent."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from mlirfuse.core import MlirfuseError, UsageError

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of the system when a file cannot take more bytes."""


@contextlib.contextmanager
def replacing(name: str | Path) -> Iterator[Path]:
    """Gives a path to write in place of `name`, and moves it there when the block ends well.

    A device or a pipe is written directly: it takes bytes and cannot be replaced. A symbolic link
    stays one, and a file keeps its permissions. A block that removes the path leaves `name` as it
    was.

    Raises:
      UsageError: `name` cannot be written; raised before the block runs.
      MlirfuseError: the disk is full.
    """
    path = Path(name)
    if path.exists() and not path.is_file() and not path.is_dir():
        with _noticing_full(name):
            yield path
        return
    path = path.resolve()
    # Named before it is made: a signal in between must not leave the file behind.
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(8)}{path.suffix}")
    try:
        _claim(path, temporary, name)
        with _noticing_full(name):
            yield temporary
            if temporary.exists():
                temporary.chmod(_mode(path))
                temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _noticing_full(name: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise MlirfuseError(f"cannot write {name}: {error.strerror}") from error


def _claim(path: Path, temporary: Path, name: str | Path) -> None:
    try:
        if path.is_dir():
            raise IsADirectoryError(None, "it is a directory")
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(None, "permission denied")
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise UsageError(f"cannot write {name}: {error.strerror}") from error


def _mode(path: Path) -> int:
    """Permissions that `path` has, or would get from `open`."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
