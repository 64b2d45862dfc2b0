"""The manifest of a program: a JSON document inside the `.vmfb`, which is a zip archive."""

from __future__ import annotations

import dataclasses
import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlirfuse.core import MlirfuseError, Report
from mlirfuse.runtime import pytree
from mlirfuse.support import calling
from mlirfuse.support.calling import Parameter
from mlirfuse.support.signature import DynamicSize, TensorSpec

MEMBER = "mlirfuse.json"
"""Name of the document in the archive; iree-runtime does not read it."""

SCHEMA = 1

_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, RecursionError),
    *(ValueError, LookupError, TypeError, AttributeError),
)
"""Exceptions of reading a damaged or hostile document."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Calling convention and origin of a program.

    Attributes:
      device: URI of the device that runs it.
      function: the function to call.
      inputs: specs of its arguments, in order.
      outputs: specs of its results, in order.
      structure: containers of the model's results, as `pytree.describe` writes them.
      source: file name or model name, for messages.
      report: the engine's report.
      sizes: dynamic sizes of the arguments whose range or equality is known.
      parameters: parameters of the model, for calls in its own form; empty where these are not
        known.
      has_state: whether the program keeps tensors from call to call; None where that is not known.
      waiting_workgroups: workgroups at most that wait for each other, which have to run at a time.
      measured: function -> its times with and without fusion, and the form that was kept; empty
        when nothing was measured.
    """

    device: str
    function: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    structure: dict[str, Any] | None
    source: str
    report: Report
    sizes: tuple[DynamicSize, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    has_state: bool | None = None
    waiting_workgroups: int = 0
    measured: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The document."""
        return {
            "schema": SCHEMA,
            "device": self.device,
            "function": self.function,
            "inputs": [dataclasses.asdict(spec) for spec in self.inputs],
            "outputs": [dataclasses.asdict(spec) for spec in self.outputs],
            "structure": self.structure,
            "source": self.source,
            "report": self.report.to_dict(),
            "sizes": [_size_to_dict(size) for size in self.sizes],
            "parameters": [parameter.to_dict() for parameter in self.parameters],
            "has_state": self.has_state,
            "waiting_workgroups": self.waiting_workgroups,
            "measured": dict(self.measured),
        }

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> Manifest:
        """Reads a document of `to_dict`.

        Raises:
          MlirfuseError: it is another version's, or not a manifest.
        """
        if entry.get("schema") != SCHEMA:
            raise MlirfuseError(
                f"manifest has schema {entry.get('schema')!r}; this mlirfuse reads {SCHEMA}"
            )
        inputs = tuple(_spec(e) for e in entry["inputs"])
        outputs = tuple(_spec(e) for e in entry["outputs"])
        pytree.check(entry["structure"], len(outputs))
        return cls(
            device=_text(entry["device"]),
            function=_text(entry["function"]),
            inputs=inputs,
            outputs=outputs,
            structure=entry["structure"],
            source=_text(entry["source"]),
            report=Report.from_dict(entry["report"]),
            sizes=tuple(_size(e, inputs) for e in entry.get("sizes", ())),
            parameters=calling.read(entry.get("parameters", ()), len(inputs)),
            has_state=_truth(entry.get("has_state")),
            waiting_workgroups=_natural(entry.get("waiting_workgroups", 0)),
            measured=dict(entry.get("measured", {})),
        )


# A file may hold anything: values are checked here, and nowhere later.


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


def _truth(value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise TypeError("neither true nor false")
    return value


def _natural(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError("not a size")
    return value


def _spec(entry: dict[str, Any]) -> TensorSpec:
    shape = tuple(None if n is None else _natural(n) for n in entry["shape"])
    order = tuple(_natural(axis) for axis in entry.get("order", ()))
    if order and sorted(order) != [*range(len(shape))]:
        raise ValueError("not an order of axes")
    wide = _text(entry.get("wide", ""))
    return TensorSpec(shape, _text(entry["dtype"]), _text(entry["name"]), order, wide)


def _size(entry: dict[str, Any], inputs: Sequence[TensorSpec]) -> DynamicSize:
    dimensions = tuple((_natural(index), _natural(axis)) for index, axis in entry["places"])
    if not dimensions or any(axis >= len(inputs[index].shape) for index, axis in dimensions):
        raise ValueError("a size of no argument")
    upper = entry["most"]
    return DynamicSize(
        _text(entry["name"]),
        dimensions,
        _natural(entry["least"]),
        None if upper is None else _natural(upper),
    )


def _size_to_dict(size: DynamicSize) -> dict[str, Any]:
    """The keys of schema 1, which every version reads: `places`, `least`, `most`."""
    return {
        "name": size.name,
        "places": size.dimensions,
        "least": size.min,
        "most": size.max,
    }


def read(path: Path) -> Manifest | None:
    """The manifest in a program; None when mlirfuse did not write the file.

    Raises:
      MlirfuseError: the manifest is damaged or of another version.
    """
    if not zipfile.is_zipfile(path):
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            if MEMBER not in archive.namelist():
                return None
            document = json.loads(archive.read(MEMBER))
        return Manifest.from_dict(document)
    except MlirfuseError as error:
        raise MlirfuseError(f"{path}: {error}") from error
    except _DAMAGE as error:
        raise MlirfuseError(f"{path}: its manifest is damaged; compile the model again") from error


def append(path: Path, manifest: Manifest) -> None:
    """Writes the manifest into a program that has none."""
    with zipfile.ZipFile(path, "a") as archive:
        # The default of ZipInfo, 1980, and not the clock's time: the same program, the same file.
        member = zipfile.ZipInfo(MEMBER)
        archive.writestr(member, json.dumps(manifest.to_dict()), zipfile.ZIP_DEFLATED)
