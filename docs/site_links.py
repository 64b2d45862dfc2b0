# noqa: INP001
"""Links of the documents to files outside of `docs`, for the site: they go to the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

REPOSITORY = "https://github.com/mlirfuse/mlirfuse"

_LINK = re.compile(r"\]\(\.\./([^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs with the text of each page.

    Raises:
      FileNotFoundError: a link names no file.
    """

    def absolute(link: re.Match[str]) -> str:
        path = ROOT / link[1]
        if not path.exists():
            raise FileNotFoundError(path)
        kind = "tree" if path.is_dir() else "blob"
        return f"]({REPOSITORY}/{kind}/main/{link[1]}{link[2] or ''})"

    return _LINK.sub(absolute, markdown)
