"""Temporary folders, with errors that name the place: TMPDIR may be missing or full."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mlirfuse.core import MlirfuseError
from mlirfuse.support.atomic_file import FULL
from mlirfuse.support.contained import LOG

VARIABLE = "TMPDIR"
"""Environment variable with the place of temporary files."""

NONE = f"no directory can be written for temporary files; {VARIABLE} names another"
"""Message where no place can be written at all."""


@contextlib.contextmanager
def folder(prefix: str) -> Iterator[Path]:
    """A private folder that is removed with the block.

    Args:
      prefix: start of its name.

    Raises:
      MlirfuseError: no place for temporary files can be written, or it is full.
    """
    with noticing_full(), tempfile.TemporaryDirectory(prefix=prefix, dir=place()) as name:
        yield Path(name)


def place() -> str:
    """The folder of temporary files.

    A `TMPDIR` that is no folder which can be written is a warning, once: Python uses another one.

    Raises:
      MlirfuseError: no folder can be written.
    """
    try:
        found = tempfile.gettempdir()
    except FileNotFoundError as error:
        raise MlirfuseError(NONE) from error
    _check(os.environ.get(VARIABLE), found)
    return found


@contextlib.contextmanager
def noticing_full() -> Iterator[None]:
    """A block that writes temporary files.

    Raises:
      MlirfuseError: their place is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL or not _is_inside(error.filename, place()):
            raise
        raise MlirfuseError(
            f"cannot write temporary files in {place()}: {error.strerror}; {VARIABLE} names another"
            " place"
        ) from error


@functools.cache
def _check(given: str | None, place: str) -> None:
    if given and not (os.path.isdir(given) and os.access(given, os.W_OK)):
        LOG.warning(
            "%s=%s is no directory that can be written; temporary files are in %s",
            *(VARIABLE, given, place),
        )


def _is_inside(filename: str | None, folder: str) -> bool:
    """Whether a file is in a folder; one whose name the system does not say counts as such."""
    return filename is None or Path(filename).resolve().is_relative_to(Path(folder).resolve())
