"""Reading of JSON files that a user names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlirfuse.core import UsageError


def read(file: Path, is_valid: Callable[[Any], bool], kind: str) -> Any:
    """The value in a JSON file.

    Args:
      file: the file, in UTF-8.
      is_valid: whether a parsed value has the expected form.
      kind: the expected contents, with an article, for the message: `a table of configurations`.

    Raises:
      UsageError: the file cannot be read, or holds something else.
    """
    try:
        value = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from error
    except ValueError:
        value = None
    if not is_valid(value):
        raise UsageError(f"{file} is not {kind}")
    return value
