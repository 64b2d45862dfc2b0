"""Imports models in processes of their own: in one process PyTorch exports a model at a time."""

from __future__ import annotations

import dataclasses
import multiprocessing
from concurrent import futures
from pathlib import Path

from benchmarks.tune.models import MODELS, build
from mlirfuse.core import MlirfuseError
from mlirfuse.tuning.model import tune


class Importers:
    """The processes.

    Args:
      count: models at a time.
    """

    def __init__(self, count: int) -> None:
        """No process is started yet."""
        context = multiprocessing.get_context("spawn")
        self._pool = futures.ProcessPoolExecutor(count, mp_context=context)

    def opened(self, request: tune.Request, dtype: str, folder: Path) -> tune.Opened:
        """The imported model of a request, whose model is a name.

        Args:
          request: without example inputs: those of one of `MODELS` are made in the process.
          dtype: element type of `MODELS`.
          folder: an existing folder for the imported model.

        Raises:
          MlirfuseError: the model cannot be imported, or its process died.
        """
        try:
            found = self._pool.submit(_opened, request, dtype, folder).result()
        except futures.process.BrokenProcessPool as error:
            raise MlirfuseError(f"the process of the import died: {error}") from error
        if isinstance(found, str):
            raise MlirfuseError(found)
        return found

    def close(self) -> None:
        """Ends the processes."""
        self._pool.shutdown(cancel_futures=True)


def _opened(request: tune.Request, dtype: str, folder: Path) -> tune.Opened | str:
    """In a process: the imported model, or the error, of which not every kind can be pickled."""
    try:
        if request.model in MODELS:
            model, inputs = build(request.model, dtype)
            request = dataclasses.replace(request, model=model, example_inputs=inputs)
        return tune.opened(request, folder)
    except MlirfuseError as error:
        return str(error)
