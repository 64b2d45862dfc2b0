"""One line of a profile: a setting, its place, its gain, and the measurement behind it.

{ set = "disable_pass", value = "softmax_fusion@match=3", where = "main: model.mlir:12:8", ... }
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mlirfuse.core import UsageError
from mlirfuse.options import Selector, switch_names

KERNEL = "kernel"
"""`set` of a kernel configuration: family, problem and configuration, as `MeasuredConfig`."""

ATTENTION = "attention"
"""`set` of the form in which attention of PyTorch is imported: `whole` or `decomposed`."""

CHANNEL_ORDER = "channel_order"
"""`set` of the order of channels of convolutions: `as_written` keeps the model's."""

AS_WRITTEN = "as_written"

IREE_OPTION = "iree_option"
"""`set` of an argument of `iree-compile`."""

TARGET = "target."
"""Start of `set` of a number of the target that tiles are computed from: `target.cpu.l2_bytes`."""

NOT_TUNED = frozenset({"load_pass", "must_fuse", "profile", "fusion_limit"})
"""Switches that a profile does not set: they load code, name profiles or are for debugging."""

PASS_SWITCHES = ("disable_pass", "enable_pass")


def settable(name: str) -> bool:
    """Whether a profile may set this."""
    if name in switch_names():
        return name not in NOT_TUNED
    return name in (KERNEL, ATTENTION, CHANNEL_ORDER, IREE_OPTION) or name.startswith(TARGET)


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """A change of the default: one switch, configuration or number.

    Attributes:
      set: the field that is set; see `settable`.
      value: its value; of a switch with names, one of them.
    """

    set: str
    value: Any

    @property
    def selector(self) -> Selector | None:
        """The selector of a switch of passes."""
        return Selector.read(self.value) if self.set in PASS_SWITCHES else None

    @property
    def key(self) -> str:
        """One text for each setting."""
        return f"{self.set}={_canonical(self.value)}"

    def __hash__(self) -> int:
        """The hash of the key: a value may be a list or a table."""
        return hash(self.key)

    def to_dict(self) -> dict[str, Any]:
        """The fields."""
        return {"set": self.set, "value": self.value}

    def __str__(self) -> str:
        """The setting in few words."""
        if self.set == KERNEL:
            config = ", ".join(f"{n}={v}" for n, v in (self.value["config"] or {}).items())
            return f"{self.value['family']} kernel: {config or 'as computed'}"
        return f"{self.set}={self.value}"


def _canonical(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{k}:{_canonical(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return str(value)


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A setting and the evidence for it.

    Attributes:
      setting: the setting.
      where: the ops that it is about, for readers; the whole model where it is empty.
      speedup: time without this setting, as a multiple of the time with it, the others in place.
      interval: 95 % interval of the median of `speedup`.
      noise: factor within which a ratio does not count.
      rounds: number of rounds of the measurement.
      how: the measurement in words.
      versions: package -> its version that the entry was measured with.
    """

    setting: Setting
    where: str = ""
    speedup: float = 1.0
    interval: tuple[float, float] = (1.0, 1.0)
    noise: float = 1.0
    rounds: int = 0
    how: str = ""
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The fields in the order of a line of the file."""
        return {
            **self.setting.to_dict(),
            "where": self.where or "the model",
            "speedup": round(self.speedup, 4),
            "interval": [round(end, 4) for end in self.interval],
            "noise": round(self.noise, 4),
            "rounds": self.rounds,
            "how": self.how,
            "versions": dict(self.versions),
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Entry:
        """The entry of a line.

        Raises:
          UsageError: a field is missing, unknown or of a wrong type, or nothing is named that a
            profile can set.
        """
        fields = {"set", "value", "where", "speedup", "interval", "noise", "rounds", "how"}
        unknown = sorted(given.keys() - fields - {"versions"})
        if unknown:
            raise UsageError(f"unknown field '{unknown[0]}'")
        missing = sorted({"set", "value"} - given.keys())
        if missing:
            raise UsageError(f"'{missing[0]}' is missing")
        name, value = given["set"], given["value"]
        if not isinstance(name, str) or not settable(name):
            raise UsageError(f"a profile does not set '{name}'")
        if name == KERNEL:
            _check_kernel(value)
        elif name in PASS_SWITCHES:
            if not isinstance(value, str):
                raise UsageError(f"{name} takes the name of a pass, not {value!r}")
            Selector.read(value)
        try:
            low, high = (float(end) for end in given.get("interval", (1.0, 1.0)))
            return cls(
                setting=Setting(name, value),
                where=str(given.get("where", "")),
                speedup=float(given.get("speedup", 1.0)),
                interval=(low, high),
                noise=float(given.get("noise", 1.0)),
                rounds=int(given.get("rounds", 0)),
                how=str(given.get("how", "")),
                versions={str(k): str(v) for k, v in dict(given.get("versions", {})).items()},
            )
        except (TypeError, ValueError) as error:
            raise UsageError(f"a number is malformed: {error}") from None


def _check_kernel(value: Any) -> None:
    valid = (
        isinstance(value, Mapping)
        and isinstance(value.get("family"), str)
        and isinstance(value.get("problem"), Mapping)
        and isinstance(value.get("config", {}), Mapping)
    )
    if not valid:
        raise UsageError("a kernel has a family, a problem and a config")
