"""Files of the command lines: `-` is stdin or stdout, and an output is whole or absent."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from mlirfuse.core import UsageError

STANDARD = "-"
"""The name of stdin and of stdout."""


def read_bytes(name: str) -> bytes:
    """Returns what is in a file, or on stdin for `-`.

    Raises:
      UsageError: it cannot be read.
    """
    if name == STANDARD:
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error


def check_readable(name: str) -> None:
    """Refuses a file that cannot be read, before anything else is done.

    Raises:
      UsageError: it cannot be read.
    """
    try:
        Path(name).open("rb").close()
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error


@contextlib.contextmanager
def output(name: str) -> Iterator[IO[bytes]]:
    """Opens a file that appears under its name when the block ends well, or stdout for `-`.

    Enter the block before the work that takes long: a path that cannot be written is refused at
    once.

    Raises:
      UsageError: the path cannot be written.
    """
    if name == STANDARD:
        yield sys.stdout.buffer
        return
    with staged(name) as path, path.open("wb") as file:
        yield file


@contextlib.contextmanager
def staged(name: str) -> Iterator[Path]:
    """Gives a path to write in place of `name`, and moves it there when the block ends well.

    Raises:
      UsageError: `name` cannot be written.
    """
    path = Path(name)
    if path.exists() and not path.is_file() and not path.is_dir():
        yield path  # a device or a pipe takes bytes; it cannot be replaced
        return
    path = path.resolve()
    try:
        if path.is_dir():
            raise IsADirectoryError(None, "it is a directory")
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(None, "permission denied")
        handle, text = tempfile.mkstemp(path.suffix, f".{path.stem}.", path.parent)
    except OSError as error:
        raise UsageError(f"cannot write {name}: {error.strerror}") from error
    os.close(handle)
    temporary = Path(text)
    try:
        yield temporary
        temporary.chmod(_mode(path))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _mode(path: Path) -> int:
    """Permissions that `path` has, or would get from `open`."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def directory(name: str) -> Path:
    """Makes a directory where it is missing.

    Raises:
      UsageError: it cannot be made.
    """
    path = Path(name)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the directory {name}: {error.strerror}") from error
    return path
