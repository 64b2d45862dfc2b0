"""The options of `torch.compile(model, backend="mlirfuse", options={...})`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from mlirfuse import targets
from mlirfuse.core import UsageError, nearest, normalized
from mlirfuse.options import FusionOptions, switch_names
from mlirfuse.support.subprocess import check_timeout

SOURCE = "torch.compile"
"""Name of the model in messages: Dynamo does not pass the model's own name."""


@dataclasses.dataclass(frozen=True, slots=True)
class BackendOptions:
    """The options of `torch.compile(..., options={...})`.

    Attributes:
      target: as for `mlirfuse.compile`; None for the machine of the tensors.
      fallback: whether PyTorch runs a graph that cannot be compiled; otherwise it is an error.
      freeze: whether parameters and buffers become constants of the program.
      pack_weights: whether the weights of matmuls on a CPU are packed when they change, in place of
        each call.
      stock: whether to compile without mlirfuse's passes, as a baseline.
      cache: whether to use the compile cache.
      timeout: time limit of each step of the compiler, in seconds; None for no limit.
      cuda_graph: whether to issue the commands of a call on CUDA as one CUDA graph; see
        `mlirfuse.load`; None for where the program allows it.
      report: folder that gets a folder for each graph, with the report of each of its programs.
      debug_dir: folder that gets a folder for each graph, with the graph, its parts, their IR and
        reports; None for none, unless `TORCH_COMPILE_DEBUG` asks for one.
      switches: all other keys, resolved.
    """

    target: str | None = None
    fallback: bool = True
    freeze: bool = False
    pack_weights: bool = False
    stock: bool = False
    cache: bool = True
    timeout: float | None = None
    cuda_graph: bool | None = None
    report: str | os.PathLike[str] | None = None
    debug_dir: str | os.PathLike[str] | None = None
    switches: FusionOptions = dataclasses.field(default_factory=FusionOptions.resolve)

    @classmethod
    def read(cls, given: Mapping[str, Any] | None) -> BackendOptions:
        """Reads the options of `torch.compile`.

        Raises:
          UsageError: an unknown key or target, or a value of a wrong type.
        """
        own = {field.name for field in dataclasses.fields(cls)} - {"switches"}
        known = {normalized(name): name for name in (*own, *switch_names())}
        values: dict[str, Any] = {}
        switches: dict[str, Any] = {}
        for key, value in (given or {}).items():
            name = known.get(normalized(key))
            if name is None:
                choices = sorted(known.values())
                raise UsageError(f"options: unknown key '{key}'{nearest(key, choices)}")
            (values if name in own else switches)[name] = value
        if values.get("cuda_graph", True) is None:
            del values["cuda_graph"]
        for name in ("fallback", "freeze", "pack_weights", "stock", "cache", "cuda_graph"):
            if not isinstance(values.get(name, True), bool):
                raise UsageError(f"options: {name}={values[name]!r} is neither True nor False")
        for name in ("report", "debug_dir"):
            if not isinstance(values.get(name), str | os.PathLike | None):
                raise UsageError(f"options: {name}={values[name]!r} is no path of a folder")
        try:
            check_timeout(values.get("timeout"))
        except UsageError as error:
            raise UsageError(f"options: {error}") from None
        if values.get("target") is not None:
            targets.parse(values["target"])
        place = "options of torch.compile"
        return cls(**values, switches=FusionOptions.resolve(place=place, **switches))
