"""The places that set switches: configuration file, environment, scopes; and how they merge.

A place is a layer: its name for messages, and the switches that it sets. Which switches there are,
and the types of their values, is passed in.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mlirfuse.core import UsageError, nearest, normalized

CONFIG_NAME = "mlirfuse.toml"
"""File of the current directory whose table `[tool.mlirfuse]` holds switches."""

CONFIG_VARIABLE = "MLIRFUSE_CONFIG"
"""Environment variable with the path to use instead of `CONFIG_NAME`; empty for no file."""

FLAGS_VARIABLE = "MLIRFUSE_FLAGS"
"""Environment variable with switches in the spelling of the command line."""

Layer = tuple[str, Mapping[str, Any]]
"""Name of a place, and the switches that it sets."""

_PER_NAME = (("disable_pass", "enable_pass"), ("disable_feature", "enable_feature"))
"""Pairs of switches that a later place overrides for the names that it gives alone."""

_scopes: contextvars.ContextVar[tuple[Layer, ...]] = contextvars.ContextVar(
    "mlirfuse_scopes", default=()
)


def flag(field: str) -> str:
    """Returns the command line's spelling of a field of `FusionOptions`."""
    return "--" + field.replace("_", "-")


def surrounding(defaults: Mapping[str, object]) -> list[Layer]:
    """The layers of the configuration file, the environment and the scopes, weakest first.

    Args:
      defaults: default of each switch, by name.

    Raises:
      UsageError: the file or the environment variable cannot be read.
    """
    return [*_config_file(), *_environment(defaults), *_scopes.get()]


@contextlib.contextmanager
def scope(layer: Layer) -> Iterator[None]:
    """Adds a layer to `surrounding` for the `with` block, in this context only."""
    token = _scopes.set((*_scopes.get(), layer))
    try:
        yield
    finally:
        _scopes.reset(token)


def config_notes() -> list[str]:
    """Remarks about tables of the configuration file that hold no switches of ours.

    A `pyproject.toml`, which `CONFIG_VARIABLE` may name, has tables of other tools.
    """
    path, document = _config_document()
    if path is None or path.name == "pyproject.toml":
        return []
    tool = document.get("tool", {})
    tables = [name for name in document if name != "tool"]
    tables += [f"tool.{name}" for name in tool if name != "mlirfuse"]
    return [f"{path}: [{name}] is not read; switches are in [tool.mlirfuse]" for name in tables]


def _config_file() -> list[Layer]:
    path, document = _config_document()
    if path is None:
        return []
    tool = document.get("tool", {})
    table = tool.get("mlirfuse", {}) if isinstance(tool, dict) else None
    if not isinstance(table, dict):
        raise UsageError(f"{path}: tool.mlirfuse must be a table of switches")
    return [(str(path), table)]


def _config_document() -> tuple[Path | None, dict[str, Any]]:
    """The configuration file and its content; None where there is none."""
    chosen = os.environ.get(CONFIG_VARIABLE)
    if chosen == "":
        return None, {}
    path = Path(chosen or CONFIG_NAME)
    if chosen is None and not path.is_file():
        return None, {}
    try:
        return path, tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        source = f"{CONFIG_VARIABLE}: " if chosen else ""
        raise UsageError(f"{source}cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from None


def _environment(defaults: Mapping[str, object]) -> list[Layer]:
    text = os.environ.get(FLAGS_VARIABLE, "")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{FLAGS_VARIABLE}: {str(error).lower()} in '{text}'") from None
    names = {normalized(name): name for name in defaults}
    given: dict[str, Any] = {}
    for word in words:
        head, equals, value = word.partition("=")
        if not head.startswith("--"):
            raise UsageError(f"{FLAGS_VARIABLE}: '{word}' is not a switch; write --name=value")
        name = names.get(normalized(head))
        if name is None:
            choices = [flag(n) for n in defaults]
            raise UsageError(f"{FLAGS_VARIABLE}: unknown switch '{head}'{nearest(head, choices)}")
        if not equals:
            if not isinstance(defaults[name], bool):
                raise UsageError(f"{FLAGS_VARIABLE}: {flag(name)} takes a value: {flag(name)}=...")
            value = "on"
        if isinstance(defaults[name], tuple):
            given.setdefault(name, []).append(value)
        else:
            given[name] = value
    return [(FLAGS_VARIABLE, given)] if given else []


def merge(layers: Iterable[Layer]) -> dict[str, Any]:
    """Merges layers whose values have been read, later ones over earlier ones.

    Returns:
      The switches that some layer sets, with `origins` and `notes` of `FusionOptions`.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    notes: list[str] = []
    per_name: dict[str, dict[str, dict[str, list[str]]]] = {d: {} for d, _ in _PER_NAME}
    places: dict[tuple[str, str], str] = {}
    loaded: dict[str, str] = {}
    paired = {field for pair in _PER_NAME for field in pair}
    for place, layer in layers:
        for name, value in layer.items():
            if name == "load_pass":
                values[name] = tuple(dict.fromkeys((*values.get(name, ()), *value)))
                loaded.update(dict.fromkeys(value, place))
                origins[name] = _origin(loaded)
            elif name not in paired:
                values[name] = value
                origins[name] = place
        for disable, enable in _PER_NAME:
            given: dict[str, dict[str, list[str]]] = {}
            for field in (disable, enable):
                for entry in layer.get(field, ()):
                    key = entry.partition("@")[0]
                    given.setdefault(key, {disable: [], enable: []})[field].append(entry)
            for key, entries in given.items():
                for entry in set(entries[disable]) & set(entries[enable]):
                    notes.append(f"{place}: {entry} is both disabled and enabled; disabled wins")
                    entries[enable].remove(entry)
                places[disable, key] = place
            per_name[disable].update(given)
    for disable, enable in _PER_NAME:
        for field in (disable, enable):
            merged = {key: e[field] for key, e in per_name[disable].items() if e[field]}
            if merged:
                values[field] = tuple(entry for entries in merged.values() for entry in entries)
                origins[field] = _origin({key: places[disable, key] for key in merged})
    return {**values, "origins": origins, "notes": tuple(notes)}


def _origin(where: Mapping[str, str]) -> str:
    """The place of the names of a merged list; of several places each with its names."""
    if len(set(where.values())) == 1:
        return next(iter(where.values()))
    by_place: dict[str, list[str]] = {}
    for name, place in where.items():
        by_place.setdefault(place, []).append(name)
    return "; ".join(f"{place}: {', '.join(names)}" for place, names in by_place.items())
