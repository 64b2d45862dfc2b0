"""Calls of a program in a separate process, where a crash becomes an error of this one."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlirfuse.core import MlirfuseError, Report
from mlirfuse.runtime import array_files
from mlirfuse.runtime.inputs import Array
from mlirfuse.support import module_process, temporary
from mlirfuse.support.signature import TensorSpec
from mlirfuse.support.subprocess import run_tool

if TYPE_CHECKING:
    from mlirfuse.runtime.image import Image
    from mlirfuse.runtime.module import FusedModule

_REQUEST = "request.json"
_RESPONSE = "response.json"


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """The function that is called.

    Attributes:
      function: name of the function.
      inputs: its arguments, in order.
      outputs: its results, in order.
    """

    function: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Called:
    """The outcome of a function's calls.

    Attributes:
      results: results of the first call, in order.
      seconds: wall time of each call after the first.
    """

    results: list[Array]
    seconds: list[float]


def call(
    program: Path,
    inputs: Sequence[Array],
    *,
    signature: Signature,
    device: str,
    timeout: float | None = None,
    repeat: int = 0,
) -> Called:
    """Calls a function of a program once, then `repeat` times for their wall time.

    Args:
      program: a `.vmfb`.
      inputs: arguments, in order.
      signature: the function.
      device: URI of iree-runtime's device.
      timeout: seconds for all calls; None for no limit.
      repeat: number of timed calls.

    Raises:
      CompileFailedError: in stage `run`: the program failed, crashed or ran out of time.
    """
    calls = [(signature, inputs)]
    (called,) = call_all(program, calls, device=device, timeout=timeout, repeat=repeat)
    return called


def call_all(
    program: Path,
    calls: Sequence[tuple[Signature, Sequence[Array]]],
    *,
    device: str,
    timeout: float | None = None,
    repeat: int = 0,
) -> list[Called]:
    """Calls several functions of a program, each with its arguments, in one process.

    Arguments and errors are those of `call`.
    """
    with temporary.folder("mlirfuse-") as name:
        folder = Path(name)
        request = {
            "program": str(program.resolve()),
            "device": device,
            "repeat": repeat,
            "calls": [
                {
                    "signature": dataclasses.asdict(signature),
                    "inputs": array_files.write(folder, f"input{index}_", inputs),
                }
                for index, (signature, inputs) in enumerate(calls)
            ],
        }
        (folder / _REQUEST).write_text(json.dumps(request), encoding="utf-8")
        interpreter = Path(sys.executable).name
        arguments = module_process.arguments("mlirfuse.runtime.isolated", str(name))
        run_tool(interpreter, arguments, stage="run", timeout=timeout)
        response = json.loads((folder / _RESPONSE).read_text(encoding="utf-8"))
        return [
            Called(array_files.read(folder, f"result{index}_", entry["results"]), entry["seconds"])
            for index, entry in enumerate(response)
        ]


def opened(image: Image, device: str, signature: dict[str, Any]) -> FusedModule:
    """A function of a program, whose results are a tuple.

    Args:
      image: the program.
      device: URI of iree-runtime's device.
      signature: fields of the `Signature`, as JSON has them.
    """
    from mlirfuse.runtime.manifest import Manifest
    from mlirfuse.runtime.module import FusedModule

    outputs = _specs(signature["outputs"])
    manifest = Manifest(
        device=device,
        function=signature["function"],
        inputs=_specs(signature["inputs"]),
        outputs=outputs,
        structure={"tuple": [{"leaf": i} for i in range(len(outputs))]},
        source=image.path.name,
        report=Report(target="unknown", iree="unknown", options={}),
    )
    return FusedModule(image, manifest)


def _serve(folder: Path) -> None:
    from mlirfuse.runtime.image import Image

    request = json.loads((folder / _REQUEST).read_text(encoding="utf-8"))
    image = Image(Path(request["program"]))
    response = []
    for index, entry in enumerate(request["calls"]):
        inputs = array_files.read(folder, f"input{index}_", entry["inputs"])
        signature = entry["signature"]
        program = opened(image, request["device"], signature)
        results = [np.array(r) for r in program(*inputs)]
        seconds = []
        for _ in range(request["repeat"]):
            began = time.perf_counter()
            program(*inputs)
            seconds.append(time.perf_counter() - began)
        entries = array_files.write(folder, f"result{index}_", results)
        response.append({"results": entries, "seconds": seconds})
    (folder / _RESPONSE).write_text(json.dumps(response), encoding="utf-8")


def _specs(entries: Sequence[dict[str, Any]]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec.from_dict(e) for e in entries)


def main() -> int:
    """Entry point of the separate process: serves the request in a folder."""
    try:
        _serve(Path(sys.argv[1]))
    except MlirfuseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
