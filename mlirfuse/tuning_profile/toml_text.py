"""Values as TOML: the standard library reads it and does not write it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_DELETE = "\x7f"
"""The one character that JSON strings may hold as it is and TOML strings may not."""


def value(given: Any) -> str:
    """A value on one line: text, numbers, booleans, lists, and tables in braces.

    Args:
      given: entries of a mapping that are None are left out, since TOML has no null.
    """
    if isinstance(given, Mapping):
        pairs = (f"{key(name)} = {value(v)}" for name, v in given.items() if v is not None)
        inner = ", ".join(pairs)
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(given, list | tuple):
        return f"[{', '.join(map(value, given))}]"
    text = json.dumps(given, ensure_ascii=False)
    return text.replace(_DELETE, "\\u007f")


def key(name: str) -> str:
    """A key, between quotes where it needs them."""
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else value(name)


def pairs(table: Mapping[str, Any]) -> str:
    """A line for each entry of a table."""
    return "".join(f"{key(name)} = {value(v)}\n" for name, v in table.items() if v is not None)
