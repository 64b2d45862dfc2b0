"""Parameters of a program that archives provide when it is loaded."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from mlirfuse.core import UsageError
from mlirfuse.support import temporary

if TYPE_CHECKING:
    import numpy as np

Archives: TypeAlias = Mapping[str, "str | os.PathLike[str] | Mapping[str, np.ndarray[Any, Any]]"]
"""Scope -> path of an archive: `.irpa`, `.gguf` or `.safetensors`; or arrays by name, which stay as
they are while the program is open."""

MODULE = "io_parameters"
"""Name of IREE's module that a program with parameters imports."""


@contextlib.contextmanager
def as_files(archives: Archives) -> Iterator[dict[str, str | os.PathLike[str]]]:
    """The archives as files, for another process: arrays are written to files of the block."""
    import iree.runtime as rt

    with temporary.folder("mlirfuse-") as folder:
        found: dict[str, str | os.PathLike[str]] = {}
        for number, (scope, path) in enumerate(archives.items()):
            if not isinstance(path, Mapping):
                found[scope] = path
                continue
            index = rt.ParameterIndex()
            for name, array in path.items():
                index.add_buffer(name, array)
            found[scope] = Path(folder, f"{number}.irpa")
            index.create_archive_file(str(found[scope]))
        yield found


def parameters_module(instance: Any, archives: Archives) -> Any:
    """The module of IREE that reads the parameters of archives.

    Args:
      instance: the `VmInstance`.
      archives: by scope.

    Raises:
      UsageError: an archive cannot be read.
    """
    import iree.runtime as rt

    from mlirfuse.runtime.devices import first_line

    providers = []
    for scope, path in archives.items():
        index = rt.ParameterIndex()
        if isinstance(path, Mapping):
            for name, array in path.items():
                index.add_buffer(name, array)
            providers.append(index.create_provider(scope=scope))
            continue
        try:
            if not Path(path).is_file():
                raise ValueError("no such file")
            index.load(str(path))
        except (ValueError, RuntimeError) as error:
            raise UsageError(f"cannot read parameters from {path}: {first_line(error)}") from error
        providers.append(index.create_provider(scope=scope))
    return rt.create_io_parameters_module(instance, *providers)
