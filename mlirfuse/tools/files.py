"""Files of the command lines: `-` is stdin or stdout, and an output is whole or absent."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from mlirfuse.core import UsageError
from mlirfuse.support.atomic_file import replacing

STANDARD = "-"
"""The name of stdin and of stdout."""


def read_bytes(name: str) -> bytes:
    """Returns the content of a file, or of stdin for `-`.

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
    with replacing(name) as path, path.open("wb") as file:
        yield file


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
