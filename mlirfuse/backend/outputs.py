"""Files that are whole or absent."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mlirfuse.core import UsageError


@contextlib.contextmanager
def replacing(name: str | Path) -> Iterator[Path]:
    """Gives a path to write in place of `name`, and moves it there when the block ends well.

    A device or a pipe is written directly: it takes bytes and cannot be replaced. A symbolic link
    stays one, and a file keeps its permissions.

    Raises:
      UsageError: `name` cannot be written; raised before the block runs.
    """
    path = Path(name)
    if path.exists() and not path.is_file() and not path.is_dir():
        yield path
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
