"""Messages of processes: lines of JSON, and errors without the folders of this machine."""

from __future__ import annotations

import json
import os
import re
import select
from collections.abc import Callable, Iterator
from typing import Any

_FOLDER = re.compile(r"(?<![\w.])(?:/[\w.+-]+)+/(?=[\w.+-])")


def without_folders(text: str) -> str:
    """The text on one line, with the names of files alone, not their folders."""
    return _FOLDER.sub("", " ".join(text.split()))


def json_lines(source: int, patience: Callable[[], float]) -> Iterator[dict[str, Any]]:
    """The lines of JSON from a file descriptor, until it ends or is silent for too long.

    Args:
      source: the descriptor, as of a pipe.
      patience: seconds that the next part may take; no more is read where it is not above zero.
    """
    text = b""
    while (wait := patience()) > 0 and select.select([source], [], [], wait)[0]:
        data = os.read(source, 1 << 16)
        if not data:
            return
        *whole, text = (text + data).split(b"\n")
        yield from map(json.loads, whole)
