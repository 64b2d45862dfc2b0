"""Empty modules for dialects that have no Python classes in IREE's bindings.

For each op and type that is read, the bindings import the module of its dialect,
`iree.compiler.dialects.NAME`, until that succeeds: thousands of failing imports for a program of a
dialect without one.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import sys

DIALECTS = ("chlo", "iree_linalg_ext", "stablehlo", "torch", "vhlo")
"""Dialects of programs that are read here and, in IREE 3.13, have no module."""


@functools.cache
def add() -> None:
    """Adds modules for those of `DIALECTS` that have none, in all of the process."""
    for dialect in DIALECTS:
        name = f"iree.compiler.dialects.{dialect}"
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            spec = importlib.machinery.ModuleSpec(name, None)
            sys.modules[name] = importlib.util.module_from_spec(spec)
