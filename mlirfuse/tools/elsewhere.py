"""Switches that a command lacks: those of another command of ours, and names of passes."""

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
    """The end of the message about an unknown switch; empty where nothing is known of it.

    Args:
      switch: the switch with its dashes; `mlir-opt` has one for each pass, as `--cse`.
      command: name of the command.
    """
    name = switch.lstrip("-")
    if _has(command, "--pipeline") and _is_pass(name):
        return f": it is a pass; give --pipeline={name}"
    others = (other for other in map(_name, COMMANDS) if other != command)
    found = next((other for other in others if _has(other, switch)), None)
    if found is None:
        return ""
    because = f"{_ABOUT[command]}; " if command in _ABOUT else ""
    return f": {because}{found} has {switch}"


def _is_pass(name: str) -> bool:
    from mlirfuse.pipelines import mlir_passes
    from mlirfuse.plugins import registry

    return registry.find_pass(name) is not None or mlir_passes.is_registered(name)


def _name(module: str) -> str:
    return f"mlirfuse-{module}"


def _has(command: str, switch: str) -> bool:
    module: Any = importlib.import_module(f"mlirfuse.tools.{command.removeprefix('mlirfuse-')}")
    spelled = (word for action in module.parser()._actions for word in action.option_strings)
    return normalized(switch) in map(normalized, spelled)
