"""Switches that a command lacks and another one of ours has."""

from __future__ import annotations

import importlib
from typing import Any

from mlirfuse.core import normalized

COMMANDS = ("compile", "run", "profile", "opt", "tune", "bench", "bisect", "plan")
"""Names of the commands' modules, those first that a model is compiled and run with."""

_ABOUT = {
    "mlirfuse-opt": "mlirfuse-opt runs passes and compiles no program",
    "mlirfuse-run": "mlirfuse-run calls a program that is compiled",
}
"""Command -> why it lacks switches about models or programs."""


def advice(switch: str, command: str) -> str:
    """The end of the message about a switch that another command has; empty where none has it."""
    others = (name for name in map(_name, COMMANDS) if name != command)
    found = next((name for name in others if _has(name, switch)), None)
    if found is None:
        return ""
    because = f"{_ABOUT[command]}; " if command in _ABOUT else ""
    return f": {because}{found} has {switch}"


def _name(module: str) -> str:
    return f"mlirfuse-{module}"


def _has(command: str, switch: str) -> bool:
    module: Any = importlib.import_module(f"mlirfuse.tools.{command.removeprefix('mlirfuse-')}")
    spelled = (word for action in module.parser()._actions for word in action.option_strings)
    return normalized(switch) in map(normalized, spelled)
