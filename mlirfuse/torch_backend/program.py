"""One compiled part of a graph."""

from __future__ import annotations

import copy
import dataclasses
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse.core import CompileFailedError, ImportFailedError
from mlirfuse.frontends import matmul_precision
from mlirfuse.options import FusionOptions
from mlirfuse.torch_backend import files, packed_weights
from mlirfuse.torch_backend.options import SOURCE, BackendOptions

if TYPE_CHECKING:
    import torch

    from mlirfuse.compilation import Compilation
    from mlirfuse.runtime.module import FusedModule
    from mlirfuse.targets.base import Target

LOG = logging.getLogger("mlirfuse.torch")


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """The machine that holds the tensors of a graph.

    Attributes:
      target: its target, or the one that the options ask for.
      uri: URI of its device.
      device: PyTorch's name of it.
    """

    target: Target
    uri: str
    device: torch.device


class Program:
    """A compiled part with AOTAutograd's boxed calls: the list of arguments becomes empty.

    Attributes:
      fused: the program.
      cached: whether it was found in the cache.
      seconds: time that compiling took.
      texts: file name -> IR, for the page of a report and the debug folder; empty unless asked for.
    """

    _boxed_call = True

    def __init__(
        self,
        module: torch.fx.GraphModule,
        frozen: Mapping[int, torch.Tensor],
        options: BackendOptions,
        machine: Machine,
        *,
        keeps_texts: bool = False,
    ) -> None:
        self._options = options
        self._machine = machine
        self._module = copy.deepcopy(module) if frozen else None
        self._versions = packed_weights.versions(frozen)
        self._packs = options.pack_weights and not options.freeze and bool(frozen)
        self._changes = packed_weights.Changes()
        self._keeps_texts = keeps_texts
        self.fused: FusedModule
        self.cached = False
        self.seconds = 0.0
        self.texts: dict[str, str] = {}
        self._compile(module, frozen)

    def _compile(self, module: torch.fx.GraphModule, frozen: Mapping[int, torch.Tensor]) -> None:
        from torch._subclasses.fake_tensor import unset_fake_temporarily

        from mlirfuse.compilation import computes_f64_as_f32, open_model
        from mlirfuse.frontends.torch_graph import import_graph
        from mlirfuse.runtime.guards import Guard
        from mlirfuse.support.contained import LOG as NOTES
        from mlirfuse.support.disk_cache import Cache

        start = time.perf_counter()
        options, target = self._options, self._machine.target
        with unset_fake_temporarily():  # constants are real tensors
            model = import_graph(
                module,
                constants=frozen,
                source=SOURCE,
                timeout=options.timeout,
                parameters=self._packs,
            )
        if model.imported.keeps_f64 and target.demotes_f64:
            raise ImportFailedError(f"{SOURCE}: {target} has no float64")
        with open_model(
            model.imported,
            target=target,
            options=_with_precision(options.switches),
            timeout=options.timeout,
            stock=options.stock,
        ) as compilation:
            if options.cache:
                image, report = compilation.cached(Cache.open())
            else:
                image, report = compilation.build()
            if computes_f64_as_f32(report):
                raise CompileFailedError(
                    f"{SOURCE}: IREE lacks a function of float64 for {target}",
                    stage="codegen",
                    returncode=1,
                )
            for note in report.notes:
                NOTES.warning("%s", note)
            if self._keeps_texts:
                self.texts = _texts(compilation)
            program = compilation.module(image, report, guard=Guard("off"))
            self.cached = compilation.found
        device = self._machine.uri
        if program.device != device.partition(":")[0]:
            device = program.device  # the requested target is not the tensors' machine
        self._model = model
        wished = options.cuda_graph if device.startswith("cuda") else None
        same = device == program.device and wished is None
        if self._packs:
            with unset_fake_temporarily():
                program = program.with_parameters(packed_weights.archives(frozen))
        self.fused = program if same else program.on(device, cuda_graph=wished)
        self.seconds = time.perf_counter() - start

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """Runs the program."""
        given = list(arguments)
        arguments.clear()
        if self._versions:
            if packed_weights.changed(given, self._versions):
                self._take(given)
            else:
                self._changes.call()
        results = self.fused(*[make(given) for make in self._model.make_arguments])
        return [make(given, results) for make in self._model.make_results]

    def _take(self, given: Sequence[Any]) -> None:
        """Takes the new values of parameters."""
        if not self._packs or self._changes.change():
            self._thaw()
            return
        tensors = {index: given[index] for index in self._versions}
        self.fused = self.fused.with_parameters(packed_weights.archives(tensors))
        self._versions = packed_weights.versions(tensors)

    def _thaw(self) -> None:
        """Compiles the parameters as arguments, since one of them has changed."""
        assert self._module is not None
        said = "a frozen parameter was changed"
        if self._packs:
            said = "the weights change in nearly each call"
        LOG.info("%s: %s; all are arguments from now on", SOURCE, said)
        self._versions, self._packs = {}, False
        self._compile(self._module, {})


def _with_precision(switches: FusionOptions) -> FusionOptions:
    """The switches with the precision of convolutions that PyTorch itself would have."""
    if switches.float32_conv_precision != "auto":
        return switches
    found = matmul_precision.of_torch_convolutions()
    return dataclasses.replace(switches, float32_conv_precision=found)


def _texts(compilation: Compilation) -> dict[str, str]:
    """The IR after the import, and with the groups of the passes, without the data."""
    paths = {files.IMPORTED: compilation.imported.path}
    if not compilation.stock:
        paths[files.GROUPED] = compilation.grouped()
    return {name: _text(path) for name, path in paths.items()}


def _text(path: Path) -> str:
    from iree.compiler import ir

    from mlirfuse.frontends.lowering import parse_module

    with ir.Context():
        module = parse_module(path, SOURCE)
        asm = module.operation.get_asm(large_elements_limit=16, large_resource_limit=64)
        return str(asm)
