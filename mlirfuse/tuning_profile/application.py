"""Applies a profile to one compilation, and says of each entry whether it holds there."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from mlirfuse.core import UsageError
from mlirfuse.options import NUMERICS_LIMITS, FusionOptions
from mlirfuse.targets.base import Target
from mlirfuse.targets.rates import cpu_name
from mlirfuse.targets.store import iree_version
from mlirfuse.tuning_profile import entry as words
from mlirfuse.tuning_profile import overrides
from mlirfuse.tuning_profile.entry import Entry, Setting
from mlirfuse.tuning_profile.file import Profile, Section

if TYPE_CHECKING:
    from iree.compiler import ir

_OPPOSITES = {"disable": "enable", "enable": "disable"}

ATTENTIONS = ("whole", "decomposed")


def versions() -> dict[str, str]:
    """The versions that measurements hold for, by package; IREE's is its minor version."""
    found = {"iree": iree_version()}
    for package in ("mlirfuse", "triton"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    return found


def device_name(target: Target) -> str:
    """The device of a target that names none: this machine's CPU; else the architecture."""
    return cpu_name() if target.name == "cpu" and target.arch in ("", "host") else target.arch


@dataclasses.dataclass(frozen=True, slots=True)
class Settled:
    """What a compilation is made with.

    Attributes:
      options: the switches.
      target: the machine, with kernel configurations, numbers and arguments of the settings.
      attention: form in which attention is imported; None for that of the caller.
      keeps_layout: whether convolutions keep the order of channels that the model has.
    """

    options: FusionOptions
    target: Target
    attention: str | None = None
    keeps_layout: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Applied:
    """A profile in one compilation.

    Attributes:
      settled: what it is made with.
      source: name of the profile's file.
      section: the section that was used; None where none is for this model and target.
      entries: each entry with the reason why it does not apply; the reason is empty where it does.
      notes: a line for each thing that the user has to know.
    """

    settled: Settled
    source: str
    section: Section | None
    entries: tuple[tuple[Entry, str], ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The decisions as JSON, for reports."""
        section = self.section
        return {
            "file": self.source,
            "model": None if section is None else section.name,
            "result": {} if section is None else dict(section.result),
            "entries": [
                {**entry.to_dict(), "applied": not reason, "reason": reason or None}
                for entry, reason in self.entries
            ],
            "notes": list(self.notes),
        }


def settle(
    settings: Iterable[Setting], options: FusionOptions, target: Target, place: str
) -> tuple[Settled, dict[str, str]]:
    """Applies settings; those that cannot be applied are left out, with the reason by their key.

    Args:
      settings: in any order.
      options: the switches of other places, which win.
      target: the machine.
      place: name of the place of the settings, for messages.
    """
    reasons: dict[str, str] = {}
    switches: dict[str, Any] = {}
    settled = Settled(options, target)
    for setting in settings:
        try:
            if setting.set in overrides.NOT_SWITCHES or setting.set.startswith(words.TARGET):
                settled = _changed(settled, setting)
                continue
            _check_switch(setting, options)
            added = _with_switch(switches, setting)
            options.over(place, added)
        except UsageError as error:
            text = " ".join(str(error).split()).removeprefix(f"{place}: ")
            # The names of all passes are no part of a note.
            reasons[setting.key] = re.sub(r" \(known: [^()]*\)$", "", text)
        else:
            switches = added
    merged = options.over(place, switches)
    for setting in settings:
        if setting.key not in reasons and not _holds(setting, merged):
            verb, _, noun = setting.set.partition("_")
            opposite = f"{_OPPOSITES.get(verb, verb)}_{noun}"
            places = (options.origins.get(name) for name in (opposite, setting.set))
            reasons[setting.key] = f"overridden by {next(filter(None, places), 'a switch')}"
    return dataclasses.replace(settled, options=merged), reasons


def _changed(settled: Settled, setting: Setting) -> Settled:
    """With a setting that is no switch.

    Raises:
      UsageError: it does not apply.
    """
    if setting.set == words.ATTENTION:
        if setting.value not in ATTENTIONS:
            raise UsageError(f"attention is {' or '.join(ATTENTIONS)}, not {setting.value!r}")
        return dataclasses.replace(settled, attention=setting.value)
    if setting.set == words.CHANNEL_ORDER:
        if setting.value != words.AS_WRITTEN:
            raise UsageError(f"the order of channels is {words.AS_WRITTEN}, not {setting.value!r}")
        return dataclasses.replace(settled, keeps_layout=True)
    return dataclasses.replace(settled, target=overrides.changed(settled.target, setting))


def _check_switch(setting: Setting, options: FusionOptions) -> None:
    """Refuses a looser class of numerics than the one that is allowed."""
    if setting.set != "numerics":
        return
    order = list(NUMERICS_LIMITS)
    if setting.value in order and order.index(setting.value) > order.index(options.numerics):
        raise UsageError(f"looser than --numerics={options.numerics}, which is allowed here")


def _with_switch(switches: Mapping[str, Any], setting: Setting) -> dict[str, Any]:
    """Switches with one more: of a switch with several names they add up."""
    fields = FusionOptions.__dataclass_fields__
    if not isinstance(fields[setting.set].default, tuple):
        return {**switches, setting.set: setting.value}
    return {**switches, setting.set: [*switches.get(setting.set, ()), setting.value]}


def _holds(setting: Setting, options: FusionOptions) -> bool:
    """Whether options have what a setting says."""
    value = getattr(options, setting.set, None)
    if setting.set not in FusionOptions.__dataclass_fields__:
        return True
    if isinstance(value, tuple):
        return setting.value in value
    return value == setting.value or str(value) == str(setting.value)


def apply(profile: Profile, fingerprint: str, target: Target, options: FusionOptions) -> Applied:
    """Applies the section of a model and target, and the kernel configurations of the target.

    Args:
      profile: the profile.
      fingerprint: of the imported model, or of the model after IREE's global optimization.
      target: the machine.
      options: the switches of all places, which win over the profile.
    """
    plain = dataclasses.replace(options, profile=None, origins=_without_profile(options.origins))
    now, device = versions(), device_name(target)
    used: Section | None = None
    entries: list[tuple[Entry, str]] = []
    chosen: list[Entry] = []
    for section in profile.sections:
        if section.target != str(target):
            continue
        matches = fingerprint in section.graphs
        main = matches and used is None
        if main:
            used = section
        for entry in section.entries:
            if entry.setting.set != words.KERNEL and not main:
                continue  # of another model
            reason = _stale(section, entry, now, device)
            if reason:
                entries.append((entry, reason))
            else:
                chosen.append(entry)
    settled, reasons = settle([e.setting for e in chosen], plain, target, profile.source)
    entries += [(entry, reasons.get(entry.setting.key, "")) for entry in chosen]
    notes = _notes(profile, used, entries, fingerprint, target)
    return Applied(settled, profile.source, used, tuple(entries), tuple(notes))


def for_module(module: ir.Module, target: Target, options: FusionOptions) -> Applied | None:
    """The profile that the options name, for a module as it stands; None where they name none.

    Raises:
      UsageError: the file cannot be read, or is no profile.
    """
    if options.profile is None:
        return None
    from mlirfuse.tuning_profile import file, fingerprint

    return apply(file.read(options.profile), fingerprint.of_module(module), target, options)


def _without_profile(origins: Mapping[str, str]) -> dict[str, str]:
    return {name: where for name, where in origins.items() if name != "profile"}


def _stale(section: Section, entry: Entry, now: Mapping[str, str], device: str) -> str:
    """Why the measurement of an entry does not count here; empty where it does."""
    measured = {**section.versions, **entry.versions}
    needed = ("iree", "triton") if entry.setting.set == words.KERNEL else ("iree",)
    for package in needed:
        found = measured.get(package, "unknown")
        if found != now[package]:
            return f"measured with {package} {found}, this is {now[package]}"
    if section.device != device:
        return f"measured on {section.device}, this is {device}"
    return ""


def _notes(
    profile: Profile,
    used: Section | None,
    entries: Sequence[tuple[Entry, str]],
    fingerprint: str,
    target: Target,
) -> list[str]:
    notes = []
    if used is None:
        known = ", ".join(section.name for section in profile.sections) or "none"
        notes.append(
            f"{profile.source}: no section is for this model ({fingerprint[:8]}) on {target}"
            f" (sections: {known}); tune it: mlirfuse-tune MODEL -o {profile.source}"
        )
    for entry, reason in entries:
        if reason:
            notes.append(f"{profile.source}: {entry.setting} does not apply: {reason}")
    return notes
