"""Files that are whole or absent."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mlirfuse.core import UsageError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives a file beside `path` to write, and moves it over `path` when the block ends well.

    A device or a pipe is written directly: it cannot be replaced.

    Raises:
      UsageError: `path` cannot be written.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        yield path
        return
    try:
        if path.is_dir():
            raise IsADirectoryError(None, "it is a directory")
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(None, "permission denied")
        with tempfile.TemporaryDirectory(prefix=f".{path.stem}.", dir=path.parent) as folder:
            staged = Path(folder, path.name)
            yield staged
            staged.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
