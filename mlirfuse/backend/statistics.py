"""The commands of a call, from the statistics that IREE writes when it has scheduled a program."""

from __future__ import annotations

import csv
import dataclasses
import itertools
from pathlib import Path

from mlirfuse.kernels.vector import executable

_OURS = ("@extern_dispatch", f"@{executable.NAME}")
"""Beginnings of the symbols of kernels that IREE did not generate."""


@dataclasses.dataclass(frozen=True, slots=True)
class Statistics:
    """The dispatches of a call.

    Attributes:
      dispatches: their number.
      kernels: how many of them are kernels of a provider.
      left: names of the others.
      names: names of all of them, in order.
    """

    dispatches: int
    kernels: int
    left: tuple[str, ...]
    names: tuple[str, ...] = ()


def flags(path: Path) -> tuple[str, str]:
    """The flags of `iree-compile` by which it writes the statistics to a file."""
    return (
        "--iree-scheduling-dump-statistics-format=csv",
        f"--iree-scheduling-dump-statistics-file={path}",
    )


def read(path: Path) -> Statistics:
    """Reads the statistics without the dispatches of initializers, which run once.

    The file has a section for each `stream.cmd.execute`, named by a comment with the ops around
    it, and a line for each command in it.
    """
    symbols = []
    in_initializer = False
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            if row and row[0].startswith("; builtin.module"):
                in_initializer = "util.initializer" in row[0]
            elif len(row) > 2 and row[1] == "dispatch" and not in_initializer:
                symbols.append(row[2])
    left = tuple(map(_entry, (s for s in symbols if not s.startswith(_OURS))))
    names = tuple(map(_entry, symbols))
    return Statistics(len(symbols), len(symbols) - len(left), left, names)


def bytes_held(path: Path) -> int:
    """Bytes of the constants, the variables and the transient buffers of a program.

    Buffers of dynamic sizes do not count.
    """
    names = {"Constant Size", "Variable Size", "Transient Size"}
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    for head, row in itertools.pairwise(rows):
        if names <= set(head):
            return sum(int(n) for name, n in zip(head, row, strict=True) if name in names)
    return 0


def _entry(symbol: str) -> str:
    """Name of the entry point that `@executable::@entry` refers to."""
    return symbol.rpartition("@")[2]
