"""Parameters of a program that archives provide when it is loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from mlirfuse.core import UsageError

Archives: TypeAlias = Mapping[str, str | os.PathLike[str]]
"""Scope -> path of an archive: `.irpa`, `.gguf` or `.safetensors`."""

MODULE = "io_parameters"
"""Name of IREE's module that a program with parameters imports."""


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
        try:
            if not Path(path).is_file():
                raise ValueError("no such file")
            index.load(str(path))
        except (ValueError, RuntimeError) as error:
            raise UsageError(f"cannot read parameters from {path}: {first_line(error)}") from error
        providers.append(index.create_provider(scope=scope))
    return rt.create_io_parameters_module(instance, *providers)
