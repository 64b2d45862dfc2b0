"""The registry of passes: ours, those of installed packages, and those of `--load-pass`.

    [project.entry-points."mlirfuse.passes"]
    double_negation_rewrite = "my_package.double_negation_rewrite:PASS"

A package registers its passes like this. `--load-pass=my_package.module:PASS` and
`--load-pass=patterns.pdl.mlir` load more, for one run: `PASSES` is never changed. A loaded
pass has the same switches, indices of matches, reasons and reports as a pass of ours.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import hashlib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from mlirfuse import patterns
from mlirfuse.core import FusionPass, GroupRules, Kind, Numerics, UsageError, normalized
from mlirfuse.pipelines.presets import PRESETS
from mlirfuse.plugins.pdl import read_patterns

GROUP = "mlirfuse.passes"
"""Entry point group in which packages register their passes."""

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
_OBJECT = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)")
_FIELDS = {field.name: field for field in dataclasses.fields(FusionPass)}
_NO_PATTERN = _FIELDS["match"].default

_Loaded = Mapping[str, FusionPass]

_scope: contextvars.ContextVar[_Loaded | None] = contextvars.ContextVar(
    "mlirfuse_loaded", default=None
)


def passes() -> Mapping[str, FusionPass]:
    """Every registered pass: ours first, then the loaded ones, in that order."""
    extra = loaded()
    return {**patterns.PASSES, **extra} if extra else patterns.PASSES


def find_pass(name: str) -> str | None:
    """Returns the pass that `name` or an alias stands for; None when there is none."""
    registered = passes()
    if name in registered:
        return name
    wanted = normalized(name)
    for known, entry in registered.items():
        if any(normalized(n) == wanted for n in (known, *entry.aliases)):
            return known
    return None


def loaded() -> Mapping[str, FusionPass]:
    """The passes that are not ours: of installed packages, and of the scope around."""
    extra = _scope.get()
    return _installed() if extra is None else extra


@contextlib.contextmanager
def scope(specs: Iterable[str]) -> Iterator[None]:
    """Registers the passes that `--load-pass` names, inside the `with` block.

    Args:
      specs: `package.module:NAME`, or the path of a file of PDL patterns.

    Raises:
      UsageError: one cannot be loaded, or its name is taken.
    """
    extra = dict(_installed())
    for spec in specs:
        for entry in _load(spec):
            _register(extra, entry, f"--load-pass={spec}")
    token = _scope.set(extra)
    try:
        yield
    finally:
        _scope.reset(token)


def fingerprint() -> str:
    """A digest of the sources of loaded passes: another version makes another program."""
    extra = loaded()
    total = hashlib.sha256()
    for name, entry in sorted(extra.items()):
        total.update(f"{name}\0{entry.source}\0".encode())
        for path in _sources(entry):
            total.update(path.read_bytes())
    return total.hexdigest() if extra else ""


def _sources(entry: FusionPass) -> list[Path]:
    """The files of the package that the pass comes from, as far as they are imported."""
    if isinstance(entry.rewrite, functools.partial):
        return []  # Of a file of patterns, whose text is the pass's `source`.
    package = entry.rewrite.__module__.partition(".")[0]
    modules = [m for n, m in list(sys.modules.items()) if n.partition(".")[0] == package]
    files = {Path(f) for m in modules if (f := getattr(m, "__file__", None))}
    return sorted(path for path in files if path.suffix == ".py" and path.is_file())


@functools.cache
def _installed() -> Mapping[str, FusionPass]:
    """The passes of the entry points, by name; each is imported once in a process."""
    extra: dict[str, FusionPass] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        package = point.dist.name if point.dist is not None else "?"
        where = f"pass '{point.name}' of the installed package '{package}'"
        try:
            found = point.load()
        except Exception as error:
            raise UsageError(f"{where} cannot be loaded: {_error_text(error)}") from error
        _register(extra, _as_pass(found, where), where)
    return extra


def _load(spec: str) -> list[FusionPass]:
    if spec.endswith((".mlir", ".mlirbc")):
        return [_as_pass(entry, f"--load-pass={spec}") for entry in read_patterns(Path(spec))]
    found = _OBJECT.fullmatch(spec)
    if found is None:
        raise UsageError(
            f"--load-pass={spec}: takes package.module:PASS or the path of a .pdl.mlir file"
        )
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        module = importlib.import_module(found["module"])
    except Exception as error:
        raise UsageError(f"--load-pass={spec}: {_error_text(error)}") from error
    finally:
        sys.path.remove(folder)
    if not hasattr(module, found["name"]):
        raise UsageError(f"--load-pass={spec}: the module has no '{found['name']}'")
    return [_as_pass(getattr(module, found["name"]), f"--load-pass={spec}")]


def _error_text(error: Exception) -> str:
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text[:300]}"


def _as_pass(found: Any, where: str) -> FusionPass:
    """The pass itself, or the one that a class describes: its attributes are a pass's fields."""
    if isinstance(found, FusionPass):
        entry = found
    elif inspect.isclass(found):
        entry = _of_class(found, where)
    else:
        raise UsageError(
            f"{where}: is of type {type(found).__name__}; a mlirfuse.core.FusionPass, or a class"
            " with its fields as attributes, would be accepted"
        )
    if not isinstance(entry.name, str) or not _NAME.fullmatch(entry.name):
        raise UsageError(
            f"{where}: '{entry.name}' is no name of a pass; it is written like"
            " double_negation_rewrite"
        )
    for field, kind in (("numerics", Numerics), ("kind", Kind)):
        if not isinstance(getattr(entry, field), kind):
            raise UsageError(f"{where}: its {field} is not a mlirfuse.core.{kind.__name__}")
    if entry.forms_group not in (None, True, False):
        raise UsageError(f"{where}: its forms_group is not True, False or None")
    for field in ("match", "rewrite", "legal", "profitable"):
        if not callable(getattr(entry, field)):
            raise UsageError(f"{where}: its {field} cannot be called")
    if entry.rules is not None and not isinstance(entry.rules, GroupRules):
        raise UsageError(f"{where}: its rules are not a mlirfuse.core.GroupRules")
    if entry.rules is None and entry.match is _NO_PATTERN:
        raise UsageError(f"{where}: has neither a match nor rules")
    if not dataclasses.is_dataclass(entry.options):
        raise UsageError(f"{where}: its options are not a dataclass")
    return entry


_described: dict[type, FusionPass] = {}
"""Passes of classes: one instance each, however often it is loaded."""


def _of_class(found: type, where: str) -> FusionPass:
    if found in _described:
        return _described[found]
    required = [n for n, f in _FIELDS.items() if f.default is dataclasses.MISSING]
    missing = [n for n in required if n != "summary" and not hasattr(found, n)]
    if missing:
        raise UsageError(f"{where}: the class {found.__name__} has no '{missing[0]}'")
    try:
        instance = found()
    except TypeError as error:
        raise UsageError(
            f"{where}: cannot be made without arguments: {_error_text(error)}"
        ) from error
    values = {name: getattr(instance, name) for name in _FIELDS if hasattr(found, name)}
    values.setdefault("summary", (found.__doc__ or found.__name__).strip().partition("\n")[0])
    return _described.setdefault(found, FusionPass(**values))


def _register(extra: dict[str, FusionPass], entry: FusionPass, where: str) -> None:
    """Adds a pass under its name.

    Raises:
      UsageError: another pass or preset has the name, or one of its aliases.
    """
    if extra.get(entry.name) == entry:
        return
    known = {normalized(name): f"the preset '{name}'" for name in PRESETS}
    for other in (*patterns.PASSES.values(), *extra.values()):
        for name in (other.name, *other.aliases):
            known[normalized(name)] = f"the pass '{other.name}'"
    for name in (entry.name, *entry.aliases):
        if normalized(name) in known:
            raise UsageError(
                f"{where}: the name '{name}' is taken by {known[normalized(name)]}; rename it"
            )
    extra[entry.name] = entry
