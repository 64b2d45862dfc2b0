"""Every switch in one object, and the one order in which places may set it.

Later places win: defaults < `[tool.mlirfuse]` of `mlirfuse.toml` < the environment variable
`MLIRFUSE_FLAGS` < `with scoped(...)` < command line or Python arguments. Pass switches and
feature switches are overridden by name, loaded passes add up, every other switch is overridden as a
whole. In one place disable beats enable.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import json
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mlirfuse.core import FusionPass, Kind, UsageError, nearest, normalized

CONFIG_NAME = "mlirfuse.toml"
"""File of the current directory whose table `[tool.mlirfuse]` holds switches."""

CONFIG_VARIABLE = "MLIRFUSE_CONFIG"
"""Environment variable with the path to use instead of `CONFIG_NAME`; empty for no file."""

FLAGS_VARIABLE = "MLIRFUSE_FLAGS"
"""Environment variable with switches in the spelling of the command line."""

NUMERICS_LIMITS = ("exact", "reassociating", "any")
"""Values of `--numerics`, strictest first."""

FEATURES: Mapping[str, tuple[bool, str]] = {
    "fma": (True, "contract a multiply and an add into one rounding"),
    "data_tiling": (True, "lay matmul operands out in the target's tiles"),
    "fallback": (True, "undo what IREE's code generation fails on, and compile again"),
    "guard": (True, "check shapes, types and sizes of the arguments of a call"),
    "kernels": (False, "replace groups by kernels of a provider"),
}
"""Code generation features: name -> (on by default, summary)."""

_TRUE = frozenset({"on", "true", "yes", "1"})
_FALSE = frozenset({"off", "false", "no", "0"})
_OP_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)+")


def flag(field: str) -> str:
    """Returns the command line's spelling of a field of `FusionOptions`."""
    return "--" + field.replace("_", "-")


def _passes() -> Mapping[str, FusionPass]:
    from mlirfuse.plugins import registry

    return registry.passes()


@dataclasses.dataclass(frozen=True, slots=True)
class Selector:
    """A pass, or some of its matches: `name`, `name@match=3`, `name@func=main`.

    Attributes:
      name: the pass's own name, no alias.
      match: number of the match among those of the pass; None for every match.
      func: symbol name of the function; None for every function.
    """

    name: str
    match: int | None = None
    func: str | None = None

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Reads a selector.

        Raises:
          UsageError: the pass is unknown, or a qualifier is neither `match=N` nor `func=NAME`.
        """
        head = text.strip().partition("@")[0]
        from mlirfuse.plugins import registry

        name = registry.find_pass(head)
        if name is None:
            raise UsageError(f"unknown pass '{head.strip()}'{nearest(head.strip(), _passes())}")
        return dataclasses.replace(cls.read(text), name=name)

    @classmethod
    def read(cls, text: str) -> Selector:
        """Reads what `str` of a selector wrote: the name is the pass's own.

        Raises:
          UsageError: a qualifier is neither `match=N` nor `func=NAME`.
        """
        name, *qualifiers = text.strip().split("@")
        match: int | None = None
        func: str | None = None
        for qualifier in qualifiers:
            key, _, value = qualifier.partition("=")
            if key == "match" and value.isdecimal() and match is None:
                match = int(value)
            elif key == "func" and value and func is None:
                func = value
            else:
                raise UsageError(
                    f"bad qualifier '@{qualifier}' in '{text.strip()}';"
                    " accepted: @match=NUMBER, @func=NAME, each once"
                )
        return cls(name, match, func)

    @property
    def whole(self) -> bool:
        """Whether it stands for every match of the pass."""
        return self.match is None and self.func is None

    def covers(self, function: str, match: int) -> bool:
        """Says whether it stands for this match of its pass."""
        return self.match in (None, match) and self.func in (None, function)

    def __str__(self) -> str:
        """The one spelling that `parse` reads back."""
        func = "" if self.func is None else f"@func={self.func}"
        match = "" if self.match is None else f"@match={self.match}"
        return f"{self.name}{func}{match}"


def _strings(value: Any) -> tuple[str, ...]:
    """Flattens a comma-separated text or an iterable of such texts, without duplicates."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, Iterable) or isinstance(texts, Mapping):
        raise UsageError(f"takes names separated by commas or a list of names, not {value!r}")
    names: dict[str, None] = {}
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"takes names, not {text!r}")
        names.update((n.strip(), None) for n in text.split(",") if n.strip())
    return tuple(names)


def _selectors(value: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(Selector.parse(text)) for text in _strings(value)))


def _features(value: Any) -> tuple[str, ...]:
    known = {normalized(name): name for name in FEATURES}
    names: dict[str, None] = {}
    for text in _strings(value):
        name = known.get(normalized(text))
        if name is None:
            raise UsageError(f"unknown feature '{text}'{nearest(text, FEATURES)}")
        names[name] = None
    return tuple(names)


def _op_kinds(value: Any) -> tuple[str, ...]:
    names = _strings(value)
    for name in names:
        if not _OP_NAME.fullmatch(name):
            raise UsageError(
                f"'{name}' is not an op name; write it with its dialect: linalg.matmul"
            )
    return names


def _groups(value: Any) -> tuple[tuple[str, ...], ...]:
    entries = [value] if isinstance(value, str) else value
    if not isinstance(entries, list | tuple):
        raise UsageError(f"takes groups of locations, LOC,LOC, not {value!r}")
    groups = [_strings(entry) for entry in entries if entry]
    for group in groups:
        if len(group) < 2:
            raise UsageError(f"takes at least two locations, LOC,LOC, not '{','.join(group)}'")
    return tuple(groups)


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _TRUE | _FALSE:
        return value.strip().lower() in _TRUE
    raise UsageError(f"takes on or off, not {value!r}")


def _optional_bool(value: Any) -> bool | None:
    return None if value is None else _bool(value)


def _limit(value: Any) -> int | None:
    if value is None or (isinstance(value, str) and value.strip().lower() == "none"):
        return None
    text = str(value).strip()
    if not text.isdecimal():
        raise UsageError(f"takes a number of rewrites from 0, or none, not {value!r}")
    return int(text)


def _numerics(value: Any) -> str:
    text = str(value).strip().lower()
    if text not in NUMERICS_LIMITS:
        raise UsageError(f"unknown class '{value}' (known: {', '.join(NUMERICS_LIMITS)})")
    return text


def _pipeline(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"takes a preset's name or passes separated by commas, not {value!r}")
    return value.strip()


def _switch(default: Any, read: Callable[[Any], Any]) -> Any:
    return dataclasses.field(default=default, metadata={"read": read})


@dataclasses.dataclass(frozen=True, kw_only=True)
class FusionOptions:
    """The resolved switches of one compilation.

    Construct it with `resolve`, which asks every place; the constructor takes the final values and
    checks them.

    Attributes:
      load_pass: passes that are not ours: `package.module:PASS`, or the path of a file of PDL
        patterns. What one place loads, all places can name, and places add up.
      pipeline: name of a preset, or passes in order (`a,b{opt=1},cse`).
      disable_pass: selectors (`name`, `name@match=3`, `name@func=main`) of what is off.
      enable_pass: selectors of what is on where the target would have it off. A selector with a
        qualifier, and none for the whole pass, leaves the pass on for what it selects alone.
      skip_op_kind: names of ops that join no group.
      single_op_groups: whether a group may have one op.
      horizontal: all sibling fusion on or off at once; None leaves it to the passes' own switches.
      never_fuse: locations or `mlirfuse.id`s of ops that join no group.
      must_fuse: groups of locations that have to end in one group each.
      numerics: the loosest class of rewrites allowed: `exact`, `reassociating` or `any`.
      disable_feature: code generation features that are off.
      enable_feature: code generation features that are on.
      fusion_limit: number of applied rewrites after which the engine stops; None for no limit.
      origins: field -> where its value came from.
      notes: remarks about the request, e.g. that one place both disabled and enabled a pass.

    Raises:
      UsageError: a value is unknown or malformed, switches contradict each other, or a switch asks
        for something that this version does not do.
    """

    load_pass: tuple[str, ...] = _switch((), _strings)
    pipeline: str = _switch("default", _pipeline)
    disable_pass: tuple[str, ...] = _switch((), _selectors)
    enable_pass: tuple[str, ...] = _switch((), _selectors)
    skip_op_kind: tuple[str, ...] = _switch((), _op_kinds)
    single_op_groups: bool = _switch(False, _bool)
    horizontal: bool | None = _switch(None, _optional_bool)
    never_fuse: tuple[str, ...] = _switch((), _strings)
    must_fuse: tuple[tuple[str, ...], ...] = _switch((), _groups)
    numerics: str = _switch("reassociating", _numerics)
    disable_feature: tuple[str, ...] = _switch((), _features)
    enable_feature: tuple[str, ...] = _switch((), _features)
    fusion_limit: int | None = _switch(None, _limit)
    origins: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)
    notes: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    def __post_init__(self) -> None:
        """Brings every value to its one form and refuses what cannot be done."""
        given = {name: getattr(self, name) for name in switch_names()}
        with _loaded([("", given)]):
            for name, value in _read_place("", given).items():
                object.__setattr__(self, name, value)
            self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        both = sorted(set(self.never_fuse) & {loc for group in self.must_fuse for loc in group})
        if both:
            raise UsageError(
                f"--never-fuse and --must-fuse both name {both[0]}; keep it in one of them"
            )
        if self.horizontal is None:
            return
        siblings = {name for name, entry in _passes().items() if entry.kind is Kind.SIBLING}
        word = "on" if self.horizontal else "off"
        against = self.disable_pass if self.horizontal else self.enable_pass
        for selector in map(Selector.read, against):
            if selector.name in siblings and (selector.whole or not self.horizontal):
                verb = "--disable-pass" if self.horizontal else "--enable-pass"
                raise UsageError(
                    f"--horizontal={word} contradicts {verb}={selector}; give one of them"
                )

    @classmethod
    def resolve(cls, *, place: str = "arguments", **switches: Any) -> FusionOptions:
        """Asks every place in order and merges the answers.

        Args:
          place: what `origins` and `notes` call the place of `switches`; messages about these
            name the switch alone.
          **switches: fields of `FusionOptions`; None means not given.

        Raises:
          UsageError: a place holds an unknown or malformed switch, or the result contradicts
            itself.
        """
        given = {name: value for name, value in switches.items() if value is not None}
        places = [*_config_places(), *_environment_places(), *_scopes.get()]
        with _loaded([*places, ("", given)]):
            layers = [(where, _read_place(where, found)) for where, found in places]
            return cls(**_merge([*layers, (place, _read_place("", given))]))

    @classmethod
    def of(cls, value: FusionOptions | Mapping[str, Any] | None) -> FusionOptions:
        """Returns options as they are, and resolves a mapping of switches or None."""
        return value if isinstance(value, FusionOptions) else cls.resolve(**(value or {}))

    def pass_switch(self, name: str) -> bool | None:
        """Says whether switches turn a pass on or off; None leaves it to the target.

        Args:
          name: the pass's own name, no alias.
        """
        if any(s.whole for s in self._named(self.disable_pass, name)):
            return False
        if self._named(self.enable_pass, name):
            return True
        entry = None if self.horizontal is None else _passes().get(name)
        if entry is not None and entry.kind is Kind.SIBLING:
            return self.horizontal
        return None

    def allows(self, name: str, function: str, match: int) -> bool:
        """Says whether the selectors leave this match of a pass that is on.

        Args:
          name: the pass's own name, no alias.
          function: symbol name of the function.
          match: number of the match among those of the pass in this run, from 0.
        """
        if any(s.covers(function, match) for s in self._named(self.disable_pass, name)):
            return False
        enabled = self._named(self.enable_pass, name)
        return not enabled or any(s.covers(function, match) for s in enabled)

    @staticmethod
    def _named(selectors: tuple[str, ...], name: str) -> list[Selector]:
        return [s for s in map(Selector.read, selectors) if s.name == name]

    def feature(self, name: str) -> bool:
        """Says whether a code generation feature is on.

        Raises:
          UsageError: there is no such feature.
        """
        if name not in FEATURES:
            raise UsageError(f"unknown feature '{name}'{nearest(name, FEATURES)}")
        if name in self.disable_feature:
            return False
        return name in self.enable_feature or FEATURES[name][0]

    def to_dict(self) -> dict[str, Any]:
        """The switches as a dictionary for JSON; `FusionOptions(**it)` gives them back."""
        values = {name: getattr(self, name) for name in switch_names()}
        return {n: list(v) if isinstance(v, tuple) else v for n, v in values.items()}

    def to_switches(self) -> list[str]:
        """The words of a command line that give these options where no other place sets any."""
        words = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if "read" not in field.metadata or value == field.default:
                continue
            lists = value if field.name == "must_fuse" else [value]
            for entry in lists:
                text = ",".join(entry) if isinstance(entry, tuple) else str(entry)
                shown = {"True": "on", "False": "off"}.get(text, text)
                words.append(f"{flag(field.name)}={shown}")
        return words

    def describe(self) -> str:
        """The switches as a `mlirfuse.toml`, with where each value came from in a comment."""
        lines = ["[tool.mlirfuse]"]
        for name, value in self.to_dict().items():
            text = f"# {name} is not set" if value is None else f"{name} = {json.dumps(value)}"
            lines.append(f"{text:<48}  # {self.origins.get(name, 'default')}")
        return "\n".join([*lines, *(f"# note: {note}" for note in self.notes), ""])


def switch_names() -> tuple[str, ...]:
    """Names of the fields of `FusionOptions` that a place can set, in order."""
    return tuple(f.name for f in dataclasses.fields(FusionOptions) if "read" in f.metadata)


_Layer = tuple[str, Mapping[str, Any]]

_scopes: contextvars.ContextVar[tuple[_Layer, ...]] = contextvars.ContextVar(
    "mlirfuse_scopes", default=()
)


@contextlib.contextmanager
def scoped(**switches: Any) -> Iterator[None]:
    """Sets switches for everything compiled inside the `with` block, in this context only.

    Args:
      **switches: fields of `FusionOptions`; None means not given.

    Raises:
      UsageError: a switch is unknown or malformed.
    """
    place = "with options(...)"
    given = {name: value for name, value in switches.items() if value is not None}
    outside = [*_config_places(), *_environment_places(), *_scopes.get()]
    with _loaded([*outside, (place, given)]):
        layer = (place, _read_place(place, given))
    token = _scopes.set((*_scopes.get(), layer))
    try:
        yield
    finally:
        _scopes.reset(token)


def _read_place(place: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Brings the switches of one place to the types of their fields."""
    fields = {f.name: f for f in dataclasses.fields(FusionOptions) if "read" in f.metadata}
    known = {normalized(name): name for name in fields}
    prefix = f"{place}: " if place else ""
    values: dict[str, Any] = {}
    for key, value in given.items():
        name = known.get(normalized(key))
        if name is None:
            raise UsageError(f"{prefix}unknown switch '{key}'{nearest(key, fields)}")
        try:
            values[name] = fields[name].metadata["read"](value)
        except UsageError as error:
            said = " ".join(str(error).splitlines())
            raise UsageError(f"{prefix}{flag(name)}: {said}") from None
    return values


def _loaded(places: Iterable[_Layer]) -> contextlib.AbstractContextManager[None]:
    """Makes known what `--load-pass` of any place names: all places may switch it."""
    specs: dict[str, None] = {}
    for place, given in places:
        for key, value in given.items():
            if normalized(key) == normalized("load_pass"):
                specs.update(dict.fromkeys(_read_place(place, {key: value})["load_pass"]))
    if not specs:
        return contextlib.nullcontext()
    from mlirfuse.plugins import registry

    return registry.scope(specs)


def _config_places() -> list[_Layer]:
    chosen = os.environ.get(CONFIG_VARIABLE)
    if chosen == "":
        return []
    path = Path(chosen or CONFIG_NAME)
    if chosen is None and not path.is_file():
        return []
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        source = f"{CONFIG_VARIABLE}: " if chosen else ""
        raise UsageError(f"{source}cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from None
    tool = document.get("tool", {})
    table = tool.get("mlirfuse", {}) if isinstance(tool, dict) else None
    if not isinstance(table, dict):
        raise UsageError(f"{path}: tool.mlirfuse must be a table of switches")
    return [(str(path), table)]


def _environment_places() -> list[_Layer]:
    text = os.environ.get(FLAGS_VARIABLE, "")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{FLAGS_VARIABLE}: {str(error).lower()} in '{text}'") from None
    names = {normalized(name): name for name in switch_names()}
    given: dict[str, Any] = {}
    for word in words:
        head, equals, value = word.partition("=")
        if not head.startswith("--"):
            raise UsageError(f"{FLAGS_VARIABLE}: '{word}' is not a switch; write --name=value")
        name = names.get(normalized(head))
        if name is None:
            choices = [flag(n) for n in switch_names()]
            raise UsageError(f"{FLAGS_VARIABLE}: unknown switch '{head}'{nearest(head, choices)}")
        default = FusionOptions.__dataclass_fields__[name].default
        if not equals:
            if not isinstance(default, bool):
                raise UsageError(f"{FLAGS_VARIABLE}: {flag(name)} takes a value: {flag(name)}=...")
            value = "on"
        if isinstance(default, tuple):
            given.setdefault(name, []).append(value)
        else:
            given[name] = value
    return [(FLAGS_VARIABLE, given)] if given else []


_PER_NAME = (("disable_pass", "enable_pass"), ("disable_feature", "enable_feature"))


def _merge(layers: Iterable[_Layer]) -> dict[str, Any]:
    """Merges places, later ones over earlier ones; see the module's docstring."""
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
            said: dict[str, dict[str, list[str]]] = {}
            for field in (disable, enable):
                for entry in layer.get(field, ()):
                    key = entry.partition("@")[0]
                    said.setdefault(key, {disable: [], enable: []})[field].append(entry)
            for key, entries in said.items():
                for entry in set(entries[disable]) & set(entries[enable]):
                    notes.append(f"{place}: {entry} is both disabled and enabled; disabled wins")
                    entries[enable].remove(entry)
                places[disable, key] = place
            per_name[disable].update(said)
    for disable, enable in _PER_NAME:
        for field in (disable, enable):
            merged = {key: e[field] for key, e in per_name[disable].items() if e[field]}
            if merged:
                values[field] = tuple(entry for entries in merged.values() for entry in entries)
                origins[field] = _origin({key: places[disable, key] for key in merged})
    return {**values, "origins": origins, "notes": tuple(notes)}


def _origin(where: Mapping[str, str]) -> str:
    """Where the names of a merged list came from: one place, or the names by place."""
    if len(set(where.values())) == 1:
        return next(iter(where.values()))
    by_place: dict[str, list[str]] = {}
    for name, place in where.items():
        by_place.setdefault(place, []).append(name)
    return "; ".join(f"{place}: {', '.join(names)}" for place, names in by_place.items())
