"""A call of a program that traces the tensors of each dispatch, in a process of its own.

Compiled with `--iree-flow-trace-dispatch-tensors`, a program runs its dispatches one by one and
gives IREE's debug sink the inputs of each before it, and the results after it. The process writes a
line for each of the two: when it dies, the last line names the kernel.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from mlirfuse.core import MlirfuseError
from mlirfuse.runtime.image import Image
from mlirfuse.runtime.manifest import Manifest
from mlirfuse.runtime.session import Session

REQUEST = "request.pickle"
LINES = "trace.jsonl"

LOADED = "the program is loaded"
"""Name of the line between the dispatches that prepare weights and those of the call."""

RESULTS = "the results of the program"
"""Name of the last line, in place of a kernel's."""


def serve(folder: Path) -> None:
    """Serves the request in a folder: a manifest, the program's path and its arguments.

    Raises:
      MlirfuseError: the program failed.
    """
    import iree.runtime as rt

    manifest, program, values = pickle.loads((folder / REQUEST).read_bytes())
    assert isinstance(manifest, Manifest)
    with (folder / LINES).open("w", encoding="utf-8") as lines:

        def traced(key: str, views: Sequence[Any]) -> None:
            kernel, _, side = key.rpartition(" ")
            _write(lines, kernel.rpartition("::")[2], side, [_array(rt, view) for view in views])

        sink = rt.HalModuleDebugSink(traced)
        session = Session(Image(program), manifest, None, debug_sink=sink)
        _write(lines, LOADED, "", [])
        results = session.call(values, "numpy")
        arrays = [_floats(np.asarray(result)) for result in results]
        _write(lines, RESULTS, "outputs", arrays)


def _write(
    lines: IO[str], kernel: str, side: str, arrays: Sequence[np.ndarray[Any, Any] | None]
) -> None:
    entry = {"kernel": kernel, "side": side, "tensors": [_counted(array) for array in arrays]}
    lines.write(f"{json.dumps(entry)}\n")
    lines.flush()


def _counted(array: np.ndarray[Any, Any] | None) -> dict[str, Any] | None:
    """How many elements are NaN or infinite; None for integers."""
    if array is None:
        return None
    return {
        "shape": list(array.shape),
        "nan": int(np.isnan(array).sum()),
        "inf": int(np.isinf(array).sum()),
    }


def _array(rt: Any, view: Any) -> np.ndarray[Any, Any] | None:
    """The elements of a tensor of floating point; None for others."""
    kinds = rt.HalElementType
    numpy = {
        int(kinds.FLOAT_16): np.float16,
        int(kinds.FLOAT_32): np.float32,
        int(kinds.FLOAT_64): np.float64,
        int(kinds.BFLOAT_16): np.uint16,
    }
    dtype = numpy.get(int(view.element_type))
    if dtype is None:
        return None
    mapped: np.ndarray[Any, Any] = view.map().asarray(list(view.shape), np.dtype(dtype))
    if dtype is not np.uint16:
        return mapped
    wide: np.ndarray[Any, Any] = mapped.astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32)


def _floats(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """A result, widened where numpy cannot ask it; None for integers."""
    if array.dtype.kind in "iub":
        return None
    return array if array.dtype.kind == "f" else array.astype(np.float32)


def main() -> int:
    """Entry point of the process."""
    try:
        serve(Path(sys.argv[1]))
    except MlirfuseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
