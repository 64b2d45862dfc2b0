"""The file of a profile: TOML with a section for each model and a line for each setting."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlirfuse.core import MlirfuseError, UsageError
from mlirfuse.support.atomic_file import replacing
from mlirfuse.tuning_profile import toml_text
from mlirfuse.tuning_profile.entry import Entry

SCHEMA = 1
"""Version of the form of the file."""

_HEAD = """\
# Written by mlirfuse-tune; used with --profile=FILE. One line for each setting: `speedup` is the
# time without it over the time with it, the other settings in place, with its 95 % interval;
# ratios between 1/noise and noise are no difference.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """The settings of one model on one device.

    Attributes:
      model: file or name of the model, for readers.
      graph: fingerprint of the imported model.
      further_graphs: fingerprints of the same model as its file has it, and past IREE's global
        optimization.
      target: spelling of the target.
      device: name of the device where the target names none; see `device_name`.
      versions: package -> its version.
      objective: `latency`, `throughput` or `memory`.
      shapes: shapes of the arguments that were measured, with their weights.
      result: facts of the whole search: times with and without the profile, number of candidates.
      entries: the settings.
    """

    model: str
    graph: str
    target: str
    device: str
    versions: Mapping[str, str]
    objective: str
    shapes: tuple[str, ...] = ()
    further_graphs: tuple[str, ...] = ()
    result: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    entries: tuple[Entry, ...] = ()

    @property
    def identity(self) -> tuple[str, str, str, str, tuple[str, ...]]:
        """What the settings are for: no two sections of a file share it."""
        return (self.graph, self.target, self.device, self.objective, self.shapes)

    @property
    def graphs(self) -> tuple[str, ...]:
        """The fingerprints of the model."""
        return (self.graph, *self.further_graphs)

    @property
    def name(self) -> str:
        """Model, start of the fingerprint and target, for messages."""
        return f"{self.model} ({self.graph[:8]}) on {self.target}"

    def text(self) -> str:
        """The section of the file."""
        fields = dataclasses.asdict(dataclasses.replace(self, entries=()))
        del fields["entries"]
        fields["shapes"] = list(self.shapes)
        lines = "".join(f"  {toml_text.value(entry.to_dict())},\n" for entry in self.entries)
        entries = f"entries = [\n{lines}]\n" if lines else "entries = []\n"
        return f"\n[[model]]\n{toml_text.pairs(fields)}{entries}"

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Section:
        """The section of a table of the file.

        Raises:
          UsageError: a field is missing, unknown or of a wrong type.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(given.keys() - known)
        if unknown:
            raise UsageError(f"unknown field '{unknown[0]}'")
        for name in ("model", "graph", "target", "device", "objective"):
            if not isinstance(given.get(name), str):
                raise UsageError(f"'{name}' is missing or no text")
        entries = given.get("entries", [])
        for name, kind in (
            ("versions", dict),
            ("result", dict),
            ("shapes", list),
            ("further_graphs", list),
        ):
            if not isinstance(given.get(name, kind()), kind):
                raise UsageError(f"'{name}' is malformed")
        if not isinstance(entries, list):
            raise UsageError("'entries' is no list")
        found = []
        for index, entry in enumerate(entries):
            if not isinstance(entry, Mapping):
                raise UsageError(f"entry {index + 1} is no table")
            try:
                found.append(Entry.from_dict(entry))
            except UsageError as error:
                raise UsageError(f"entry {index + 1}: {error}") from None
        lists = ("shapes", "further_graphs")
        fields = {**given, **{name: tuple(map(str, given.get(name, ()))) for name in lists}}
        return cls(**{"versions": {}, **fields, "entries": tuple(found)})


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """A profile.

    Attributes:
      sections: the sections.
      source: name of the file, for messages.
    """

    sections: tuple[Section, ...]
    source: str = ""

    def text(self) -> str:
        """The file."""
        return f"{_HEAD}schema = {SCHEMA}\n{''.join(s.text() for s in self.sections)}"

    def write(self, path: str | Path) -> None:
        """Writes the file, whole or not at all.

        Raises:
          UsageError: the file cannot be written.
        """
        with replacing(path) as staged:
            staged.write_text(self.text(), encoding="utf-8")


def read(path: str | Path) -> Profile:
    """The profile of a file.

    Raises:
      UsageError: the file cannot be read, or is no profile of this version.
    """
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from None
    if document.get("schema") != SCHEMA:
        raise UsageError(
            f"{path}: no profile of mlirfuse-tune, or one of another version: schema is"
            f" {document.get('schema')!r}, not {SCHEMA}"
        )
    tables = document.get("model", [])
    if not isinstance(tables, list) or not all(isinstance(t, Mapping) for t in tables):
        raise UsageError(f"{path}: 'model' is no list of tables: [[model]]")
    sections = []
    for index, table in enumerate(tables):
        try:
            sections.append(Section.from_dict(table))
        except UsageError as error:
            raise UsageError(f"{path}: model {index + 1}: {error}") from None
    repeated = {s.identity for s in sections}
    if len(repeated) < len(sections):
        raise UsageError(f"{path}: two sections are for the same model, target and objective")
    return Profile(tuple(sections), str(path))


def merge(profiles: list[Profile]) -> tuple[Profile, list[str]]:
    """One profile of several, and a line for each section that stood in more than one.

    Settings of a section were measured together, so a section is taken as a whole: of two for the
    same model, target, objective and shapes the one of the later IREE, with which the other would
    not apply, then the one whose gain is surer, then the later one.

    Raises:
      MlirfuseError: no profile is given.
    """
    if not profiles:
        raise MlirfuseError("no profile to merge")
    kept: dict[tuple[object, ...], tuple[Section, str]] = {}
    notes = []
    for profile in profiles:
        for section in profile.sections:
            old = kept.get(section.identity)
            if old is None or _rank(section) >= _rank(old[0]):
                kept[section.identity] = section, profile.source
            if old is not None and old[0] != section:
                best, chosen = kept[section.identity]
                note = f"{section.name} is in {old[1]} and {profile.source}: {chosen} kept"
                if section.versions.get("iree") != old[0].versions.get("iree"):
                    note += f", measured with iree {best.versions.get('iree', 'unknown')}"
                notes.append(note)
    return Profile(tuple(section for section, _ in kept.values())), notes


def _rank(section: Section) -> tuple[tuple[int, ...], float]:
    """The version of IREE, and the lower end of the interval of the whole gain."""
    version = tuple(int(n) for n in re.findall(r"\d+", section.versions.get("iree", "")))
    interval = section.result.get("interval", [1.0])
    return version, float(interval[0]) if interval else 1.0
