"""Completion of words in a shell, by `argcomplete`: `pip install 'mlirfuse[completion]'`.

    eval "$(register-python-argcomplete mlirfuse-opt mlirfuse-compile ...)"

The shell runs the command with the variable `_ARGCOMPLETE`; it answers and ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterable

VARIABLE = "_ARGCOMPLETE"


def complete(parser: argparse.ArgumentParser) -> None:
    """Answers the shell and ends the process, if a shell asks."""
    if VARIABLE not in os.environ:
        return
    with contextlib.suppress(ImportError):
        import argcomplete

        for action in parser._actions:
            if action.dest in _WORDS:
                action.completer = _list(_WORDS[action.dest])  # type: ignore[attr-defined]
        argcomplete.autocomplete(parser)


def _list(words: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    """Completes the last of several words that commas separate."""

    def completer(prefix: str, **_: object) -> list[str]:
        given, comma, _last = prefix.rpartition(",")
        return [f"{given}{comma}{word}" for word in words()]

    return completer


def _passes() -> Iterable[str]:
    from mlirfuse.plugins import registry

    return registry.passes()


def _pipelines() -> Iterable[str]:
    from mlirfuse.pipelines.presets import PRESETS

    return (*PRESETS, *_passes())


def _features() -> Iterable[str]:
    from mlirfuse.options import FEATURES

    return FEATURES


def _numerics() -> Iterable[str]:
    from mlirfuse.options import NUMERICS_LIMITS

    return NUMERICS_LIMITS


def _targets() -> Iterable[str]:
    from mlirfuse.fusion_pass import TARGET_NAMES

    return TARGET_NAMES


def _sides() -> Iterable[str]:
    from mlirfuse.benchmarking.sides import SIDES

    return SIDES


_WORDS: dict[str, Callable[[], Iterable[str]]] = {
    "against": _sides,
    "disable_feature": _features,
    "disable_pass": _passes,
    "enable_feature": _features,
    "enable_pass": _passes,
    "mlir_print_ir_after": _passes,
    "mlir_print_ir_before": _passes,
    "numerics": _numerics,
    "pipeline": _pipelines,
    "target": _targets,
}
"""Name of an argument -> the words that it takes."""
