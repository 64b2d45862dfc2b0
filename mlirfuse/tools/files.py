"""Files of the command lines: `-` is stdin or stdout, and an output is whole or absent."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator
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


def keep_inputs(
    inputs: Iterable[str | Path | None],
    outputs: Iterable[tuple[str, str | Path | None]],
    dump_dir: str | None = None,
) -> None:
    """Refuses outputs that would overwrite an input, before anything is written.

    Args:
      inputs: names of files that are read; other words, as `package.module:function`, are none.
      outputs: switch and name of each file that is written; None for one that is not.
      dump_dir: folder of `--dump-ir-dir`.

    Raises:
      UsageError: an output is one of the inputs, also by way of a link.
    """
    read = [path for name in inputs if name is not None and (path := Path(name)).is_file()]
    for switch, name in outputs:
        found = next((p for p in read if name is not None and _is_same(p, Path(name))), None)
        if found is not None:
            raise UsageError(
                f"{switch}={name} would overwrite the input {found}; name another file"
            )
    folder = None if dump_dir is None else Path(dump_dir).resolve()
    for path in read:
        if path.resolve().parent == folder and _DUMP.fullmatch(path.name):
            raise UsageError(
                f"--dump-ir-dir={dump_dir} may overwrite the input {path}; name another folder"
            )


_DUMP = re.compile(r"\d{3,}_\w+_(before|after)\.mlir")


def _is_same(one: Path, other: Path) -> bool:
    return other.is_file() and one.samefile(other)


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
