"""The result of every importer: a module on disk and its signature."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlirfuse.support import temporary
from mlirfuse.support.calling import Parameter
from mlirfuse.support.signature import DynamicSize, TensorSpec


class WorkDirectory:
    """A temporary directory that is removed with the object, without the warning of `tempfile`.

    Attributes:
      name: its path.
    """

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="mlirfuse-import-", dir=temporary.place())
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)

    def __enter__(self) -> str:
        """The path; leaving the block removes the directory."""
        return self.name

    def __exit__(self, *exception: object) -> None:
        """Removes the directory."""
        self._finalizer()


@dataclasses.dataclass(kw_only=True)
class ImportedModel:
    """A model as MLIR bytecode on disk, ready for `iree-compile`.

    Attributes:
      path: the bytecode or text file. Weights are resources of it, never text.
      input_type: value of `--iree-input-type`: `none`, `stablehlo`, `tosa`, `onnx`, `torch`. The
        importers of this package lower to linalg themselves, so it is `none`.
      function: the function to call.
      inputs: specs of its arguments, in order.
      outputs: specs of its results, in order.
      sizes: dynamic sizes of the arguments whose equality or range the model states.
      source: file name or model name, for messages.
      frontend: `torch`, `jax`, `onnx` or `mlir`.
      flatten: turns the caller's arguments, `flatten(*args, **kwargs)`, into the flat argument list
        of `function`; None when arguments are passed as they are.
      unflatten: turns the list of flat results into the containers that the model returns; None
        for one result alone, or several in a tuple.
      parameters: parameters of the model, for calls of a loaded program; empty where JSON cannot
        describe their containers.
      workdir: the directory that holds `path`; removed with the object.
      keeps_f64: whether the model itself has f64 tensors. IREE's lowering brings f64 into models of
        f32 too, for variances: there it becomes f32.
      has_state: whether the model keeps tensors from call to call.
      has_angles: whether the model has sines, cosines or tangents.
      reference: the framework's own computation, from the flat arguments to the flat results:
        tensors for PyTorch, arrays of numpy for the others; None where there is none, as for MLIR,
        or for models that change state.
      left_out: repairs of the import that raised -> the messages of their exceptions.
      at_batch: imports the model for a number of samples, where its open sizes are the numbers of
        samples in the first dimensions of arguments; None where they are others.
      notes: notes for the user about the model.
      unlooped: the model without the loop over samples that the module is; None where it is none.
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
    parameters: tuple[Parameter, ...] = ()
    workdir: WorkDirectory | None = None
    keeps_f64: bool = False
    has_state: bool = False
    has_angles: bool = False
    reference: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    at_batch: Callable[[int], ImportedModel] | None = None
    notes: tuple[str, ...] = ()
    unlooped: ImportedModel | None = None
    normalized: bool = False
    sizes: tuple[DynamicSize, ...] = ()
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
