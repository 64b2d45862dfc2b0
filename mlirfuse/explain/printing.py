"""Texts and sizes that are safe to print."""

from __future__ import annotations

import re

_PACKAGES = re.compile(r"/\S*/(?:site|dist)-packages/")


def printable(value: str) -> str:
    """`value` with every control character escaped: locations come from the user's model."""
    if value.isprintable():
        return value
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)


def place(location: str) -> str:
    """A location without the folder of the installed packages, which switches accept as well."""
    return printable(_PACKAGES.sub("", location))


def layer_name(layer: str) -> str:
    """The name of a layer as PyTorch and `--why` have it: `blocks.0.norm` for `blocks/0/norm`."""
    return printable(layer.replace("/", "."))


def byte_size(count: int | None) -> str:
    """A size with a binary unit, e.g. `1.5 KiB`; `-` when it is not known."""
    if count is None:
        return "-"
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
