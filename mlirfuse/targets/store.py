"""Files of measurements on this machine, in the user's data directory: one entry per target."""

from __future__ import annotations

import dataclasses
import json
import os
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import platformdirs

from mlirfuse.core import MlirfuseError, UsageError
from mlirfuse.support.atomic_file import replacing
from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementFile:
    """A JSON object of targets and their measurements.

    Attributes:
      variable: environment variable that names another file, or is `off` for none.
      old_variable: former name of the variable; an empty string for none.
      name: file name in the user's data directory.
      content: noun for the measurements, for messages.
      is_valid: whether an entry is well formed; it may raise ValueError, KeyError, TypeError or
        AttributeError for one that is not.
      invalid: message for a damaged file, in which `{file}` stands for its path.
    """

    variable: str
    old_variable: str = ""
    name: str
    content: str
    is_valid: Callable[[Any], bool]
    invalid: str

    def path(self) -> Path | None:
        """Path of the file; None where measurements are off."""
        given = os.environ.get(self.variable, "")
        if not given and self.old_variable and (given := os.environ.get(self.old_variable, "")):
            warnings.warn(
                f"{self.old_variable} is {self.variable} now; the old name goes with mlirfuse 0.3",
                DeprecationWarning,
                stacklevel=3,
            )
        if given.lower() == "off":
            return None
        return Path(given) if given else platformdirs.user_data_path("mlirfuse") / self.name

    def required_path(self) -> Path:
        """Path of the file.

        Raises:
          UsageError: measurements are off.
        """
        file = self.path()
        if file is None:
            raise UsageError(f"{self.variable}=off leaves no place for {self.content}; unset it")
        return file

    def entry(self, target: Target) -> Any:
        """The entry of a target; None if there is none, or measurements are off.

        Raises:
          UsageError: the file is damaged.
        """
        file = self.path()
        return None if file is None else self._read(file).get(str(target))

    def store(self, target: Target, entry: Any) -> Path:
        """Stores the entry of a target, and returns the path of the file.

        Raises:
          UsageError: measurements are off, or the present file is damaged.
          MlirfuseError: the file cannot be written.
        """
        file = self.required_path()
        _write(file, {**self._read(file), str(target): entry})
        return file

    def forget(self, target: Target) -> bool:
        """Removes the entry of a target; returns whether there was one.

        Raises:
          UsageError: measurements are off, or the file is damaged.
          MlirfuseError: the file cannot be written.
        """
        file = self.required_path()
        entries = self._read(file)
        if entries.pop(str(target), None) is None:
            return False
        _write(file, entries)
        return True

    def _read(self, file: Path) -> dict[str, Any]:
        try:
            text = file.read_text(encoding="utf-8")
        except OSError:
            return {}
        try:
            entries: dict[str, Any] = json.loads(text)
            valid = all(self.is_valid(entry) for entry in entries.values())
        except (ValueError, KeyError, TypeError, AttributeError):
            valid = False
        if not valid:
            raise UsageError(self.invalid.format(file=file))
        return entries


def _write(file: Path, entries: Mapping[str, Any]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as staged:
            staged.write_text(json.dumps(entries, indent=2, sort_keys=True) + "\n", "utf-8")
    except OSError as error:
        raise MlirfuseError(f"cannot write {file}: {error.strerror or error}") from error


def iree_version() -> str:
    """The minor version of IREE, which measurements are valid for."""
    return ".".join(version("iree-base-compiler").split(".")[:2])
