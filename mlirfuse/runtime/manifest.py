"""What a program says about itself: a JSON document inside the `.vmfb`, which is a zip archive."""

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
from mlirfuse.support.signature import DynamicSize, TensorSpec

MEMBER = "mlirfuse.json"
"""Name of the document in the archive; iree-runtime does not read it."""

SCHEMA = 1

_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, RecursionError),
    *(ValueError, LookupError, TypeError, AttributeError),
)
"""What reading a damaged or hostile document raises."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """How to call a program, and how it came about.

    Attributes:
      device: URI of the device that runs it.
      function: the function to call.
      inputs: its arguments, in order.
      outputs: its results, in order.
      structure: what the model returns, as `structure.describe` writes it.
      source: file name or model name, for messages.
      report: what the engine did.
      sizes: the dynamic sizes of the arguments, as far as something is known of them.
      measured: function -> its times with and without fusion, and which form was kept; empty when
        nothing was measured.
    """

    device: str
    function: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    structure: dict[str, Any] | None
    source: str
    report: Report
    sizes: tuple[DynamicSize, ...] = ()
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
            "sizes": [dataclasses.asdict(size) for size in self.sizes],
            "measured": dict(self.measured),
        }

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> Manifest:
        """Reads back what `to_dict` wrote.

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
            measured=dict(entry.get("measured", {})),
        )


# A file may hold anything: what is read is checked here, and nowhere later.


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError("not a size")
    return value


def _spec(entry: dict[str, Any]) -> TensorSpec:
    shape = tuple(None if n is None else _number(n) for n in entry["shape"])
    return TensorSpec(shape, _text(entry["dtype"]), _text(entry["name"]))


def _size(entry: dict[str, Any], inputs: Sequence[TensorSpec]) -> DynamicSize:
    places = tuple((_number(index), _number(axis)) for index, axis in entry["places"])
    if not places or any(axis >= len(inputs[index].shape) for index, axis in places):
        raise ValueError("a size of no argument")
    most = entry["most"]
    return DynamicSize(
        _text(entry["name"]),
        places,
        _number(entry["least"]),
        None if most is None else _number(most),
    )


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
