"""Runs a module in another interpreter that finds modules where this one does.

The package, Triton or a user's passes can be importable here alone: from the current folder, or
from an entry that the program added to `sys.path`.
"""

from __future__ import annotations

import json
import os
import sys

_PROGRAM = (
    "import json, runpy, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def arguments(module: str, *words: str) -> list[str]:
    """Arguments of the interpreter that runs a module with words as its `sys.argv[1:]`."""
    path = [os.path.abspath(entry) for entry in sys.path]
    return ["-P", "-c", _PROGRAM, json.dumps(path), module, *words]
