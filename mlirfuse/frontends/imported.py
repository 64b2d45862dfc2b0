"""What every importer hands to the compiler: a module on disk and its signature."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any


class WorkDirectory:
    """A temporary directory that goes with the object, without the warning of `tempfile`'s own.

    Attributes:
      name: its path.
    """

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="mlirfuse-import-")
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)

    def __enter__(self) -> str:
        """The path; leaving the block removes the directory."""
        return self.name

    def __exit__(self, *exception: object) -> None:
        """Removes the directory."""
        self._finalizer()


@dataclasses.dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape and element type of one argument or result.

    Attributes:
      shape: sizes; None for a dynamic dimension.
      dtype: element type in MLIR's spelling: `f32`, `bf16`, `i64`, `i1`, ...
      name: the model's own name for it, or an empty string.
    """

    shape: tuple[int | None, ...]
    dtype: str
    name: str = ""

    def __str__(self) -> str:
        """IREE's spelling, e.g. `4x?xf32`."""
        return "x".join(["?" if s is None else str(s) for s in self.shape] + [self.dtype])


@dataclasses.dataclass(frozen=True, slots=True)
class DynamicSize:
    """A size that a call chooses, and what the model was exported for.

    Attributes:
      name: the model's name for it.
      places: argument and axis of each dimension that has this size.
      least: the smallest size.
      most: the largest; None for no limit.
    """

    name: str
    places: tuple[tuple[int, int], ...]
    least: int = 0
    most: int | None = None

    def __str__(self) -> str:
        """What is accepted."""
        if self.most is None:
            return f"at least {self.least}"
        return f"{self.least} to {self.most}"


@dataclasses.dataclass(kw_only=True)
class ImportedModel:
    """A model as MLIR bytecode on disk, ready for `iree-compile`.

    Attributes:
      path: the bytecode (or text) file. Weights are resources of it, never text.
      input_type: value of `--iree-input-type`: `none`, `stablehlo`, `tosa`, `onnx`, `torch`. The
        importers of this package lower to linalg themselves, so it is `none`.
      function: the function to call.
      inputs: its arguments, in order.
      outputs: its results, in order.
      sizes: the dynamic sizes of the arguments, as far as the model says that some are equal or
        limited.
      source: file name or model name, for messages.
      frontend: `torch`, `jax`, `onnx` or `mlir`.
      flatten: turns the caller's arguments, `flatten(*args, **kwargs)`, into the flat argument list
        of `function`; None when arguments are passed as they are.
      unflatten: turns the list of flat results back into the structure that the model returns; None
        when one result stands for itself and several are a tuple.
      workdir: the directory that holds `path`; removed with the object.
      normalized: whether the module is past IREE's global optimization already, so that compilation
        continues with `--compile-from=global-optimization`.
    """

    path: Path
    input_type: str
    function: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    source: str
    frontend: str
    flatten: Any = None
    unflatten: Any = None
    workdir: WorkDirectory | None = None
    normalized: bool = False
    sizes: tuple[DynamicSize, ...] = ()
