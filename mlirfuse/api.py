"""The Python API: compile a model, fuse a module, ask what could be fused."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse import targets
from mlirfuse.core import Candidate, ImportFailedError, Report, UsageError
from mlirfuse.options import FusionOptions
from mlirfuse.runtime.guards import Guard, check_policy
from mlirfuse.runtime.module import FusedModule, Image, load
from mlirfuse.targets.base import Target

if TYPE_CHECKING:
    from iree.compiler import ir

    from mlirfuse.backend.cache import Cache
    from mlirfuse.backend.compiler import Compiler
    from mlirfuse.frontends.imported import ImportedModel

__all__ = ["candidates", "compile", "fuse", "list_passes", "load"]

Options = FusionOptions | Mapping[str, Any] | None
"""Switches: resolved, or by name; None for what the environment says."""


def compile(
    model: Any,
    example_inputs: Any = None,
    *,
    target: str | Target = "cpu",
    options: Options = None,
    dynamic_shapes: Any = None,
    function: str | None = None,
    attention: str = "auto",
    stock: bool = False,
    count_stock: bool = False,
    measure: bool = False,
    guard: str = "error",
    cache: bool = True,
    timeout: float | None = None,
    dump_ir_dir: str | os.PathLike[str] | None = None,
    cuda_graph: bool = False,
    **switches: Any,
) -> FusedModule:
    """Imports a model, fuses its operators and compiles it.

    Args:
      model: a `torch.nn.Module`, an exported program, a JAX function, MLIR, the path of a model
        file, or `package.module:function`; see `mlirfuse.frontends.import_model`.
      example_inputs: arguments of a module or function: a tuple, or a mapping of keywords.
      target: `cpu`, `cuda:sm_90`, `rocm:gfx942`, `vulkan:ampere`, ...
      options: the switches, instead of `switches`.
      dynamic_shapes: for PyTorch, as `torch.export.export` takes them.
      function: for MLIR with several functions, which one to call.
      attention: for PyTorch, the form of attention that is imported: `auto`, `whole`, `decomposed`.
      stock: compile without fusion of ours, to compare with.
      count_stock: fill in `report.dispatches["stock"]` too; it costs about a third of another
        code generation.
      measure: time each function with and without fusion on this machine's device, with random
        arguments, and keep the faster form; this passes the cache by.
      guard: what a call with arguments of other shapes, types or structure does: `recompile` for
        them, `fallback` to the model itself, `error`, or `off` to leave it to IREE's own checks.
      cache: use the compile cache.
      timeout: seconds that each step of the compiler may take; None for no limit.
      dump_ir_dir: existing directory for the IR before and after each pass that changed something,
        as `NNN_PASS_before.mlir`; the passes run once more for it.
      cuda_graph: issue the commands of a call as one CUDA graph; see `mlirfuse.load`.
      **switches: fields of `FusionOptions`, e.g. `disable_pass=["softmax_fusion"]`.

    Raises:
      UsageError: the request is wrong: unknown target, pass or switch, missing file.
      ImportFailedError: the model is damaged or holds what IREE does not take.
      CompileFailedError: the compiler refused, died or ran out of time.
      PassFailedError: a pass of the pipeline failed.
    """
    settled = resolved(options, switches)
    again = functools.partial(
        compile,
        model,
        target=target,
        options=settled,
        function=function,
        attention=attention,
        stock=stock,
        measure=measure,
        cache=cache,
        timeout=timeout,
        cuda_graph=cuda_graph,
    )
    guarded = _guard(guard, model, again, settled)
    with opened(
        model,
        example_inputs,
        target=target,
        options=settled,
        dynamic_shapes=dynamic_shapes,
        function=function,
        attention=attention,
        timeout=timeout,
        stock=stock,
        count_stock=count_stock,
    ) as work:
        if dump_ir_dir is not None:
            work.dump(Path(dump_ir_dir))
        if measure:
            image, report, times = work.measured()
        elif cache:
            from mlirfuse.backend.cache import Cache

            (image, report), times = work.cached(Cache.open()), {}
        else:
            (image, report), times = work.build(), {}
        return work.module(image, report, measured=times, guard=guarded, cuda_graph=cuda_graph)


def _guard(
    policy: str, model: Any, again: Callable[..., FusedModule], options: FusionOptions
) -> Guard:
    """The guard of a model that is about to be compiled.

    Raises:
      UsageError: an unknown policy, one that needs a model that can be called, or one that the
        feature `guard` is off for.
    """
    check_policy(policy)
    if not options.feature("guard"):
        if policy in ("recompile", "fallback"):
            raise UsageError(f"guard={policy} needs the feature 'guard', which is off")
        return Guard("off")
    if policy in ("error", "off"):
        return Guard(policy)
    if not callable(model):
        raise UsageError(
            f"guard={policy} takes a model that can be called for other arguments, a PyTorch module"
            f" or a function, not {type(model).__name__}"
        )
    return Guard(policy, model, again)


@contextlib.contextmanager
def opened(
    model: Any,
    example_inputs: Any = None,
    *,
    target: str | Target,
    options: FusionOptions,
    dynamic_shapes: Any = None,
    function: str | None = None,
    attention: str = "auto",
    timeout: float | None = None,
    stock: bool = False,
    count_stock: bool = False,
) -> Iterator[Work]:
    """Imports a model, with a private folder for compiling it; arguments are those of `compile`.

    Raises:
      UsageError, ImportFailedError: as `compile`.
    """
    from mlirfuse.backend.compiler import Compiler
    from mlirfuse.frontends import import_model

    compiler = Compiler(targets.parse(target), options, timeout)
    compiler.flags(fused=not stock)
    imported = import_model(
        model,
        example_inputs,
        dynamic_shapes=dynamic_shapes,
        function=function,
        attention=attention,
        timeout=timeout,
    )
    with (
        imported.workdir or contextlib.nullcontext(),
        tempfile.TemporaryDirectory(prefix="mlirfuse-") as folder,
    ):
        yield Work(compiler, imported, Path(folder), stock, count_stock)


def fuse(
    module: ir.Module | str | bytes | os.PathLike[str],
    *,
    target: str | Target = "cpu",
    options: Options = None,
    **switches: Any,
) -> tuple[ir.Module, Report]:
    """Runs the passes on a module as it stands.

    Args:
      module: linalg on tensors, plain or after IREE's global optimization: a module, text,
        bytecode, or a path. It is not changed.
      target: the machine that the module will be compiled for.
      options: the switches, instead of `switches`.
      **switches: fields of `FusionOptions`.

    Returns:
      The module with its groups, and what was decided.

    Raises:
      UsageError: an unknown target, pass or switch, or a missing file.
      ImportFailedError: the text is not valid MLIR.
      PassFailedError: a pass failed; the module is untouched.
    """
    from mlirfuse.pipelines import engine

    machine = targets.parse(target)
    switched = resolved(options, switches)
    return engine.run(_parsed(module), target=machine, options=switched)


def candidates(
    module: ir.Module | str | bytes | os.PathLike[str],
    *,
    target: str | Target = "cpu",
    options: Options = None,
    **switches: Any,
) -> list[Candidate]:
    """Every fusion that was considered, taken or not, by rank: the most profitable first.

    Arguments and errors are those of `fuse`.
    """
    from mlirfuse.explain.plain import ranked

    return ranked(fuse(module, target=target, options=options, **switches)[1])


def list_passes() -> list[dict[str, Any]]:
    """Name, aliases, summary, numerics, targets and options of every pass."""
    from mlirfuse.patterns import loading

    return [entry.to_dict() for entry in loading.passes().values()]


def resolved(options: Options, switches: Mapping[str, Any]) -> FusionOptions:
    """The options, or the switches resolved.

    Raises:
      UsageError: both are given, or a switch is unknown or malformed.
    """
    if options is not None and switches:
        raise UsageError(
            f"options= and {next(iter(switches))}= are both given; put the switch into the options"
        )
    return FusionOptions.of(options if options is not None else switches)


def _parsed(module: ir.Module | str | bytes | os.PathLike[str]) -> ir.Module:
    from iree.compiler import ir

    if isinstance(module, ir.Module):
        return module
    if isinstance(module, str) and ("\n" in module or "{" in module):
        module = module.encode()
    name = "<text>"
    if isinstance(module, str | os.PathLike):
        name = os.fspath(module)
        try:
            module = Path(module).read_bytes()
        except OSError as error:
            raise UsageError(f"cannot read {name}: {error.strerror or error}") from error
    try:
        with ir.Context():
            return ir.Module.parse(module)
    except ir.MLIRError as error:
        found = error.error_diagnostics[0] if error.error_diagnostics else None
        where = re.search(r":\d+:\d+", str(found.location)) if found else None
        what = found.message.splitlines()[0] if found else "not valid MLIR"
        raise ImportFailedError(f"{name}{where[0] if where else ''}: {what}") from error


@dataclasses.dataclass(slots=True)
class Work:
    """One compilation.

    Attributes:
      compiler: the compiler, target and options.
      imported: the model.
      folder: private directory for what lies between the phases.
      stock: whether to leave our passes out.
      count_stock: whether the number of dispatches without our passes is asked for.
      transient: whether the program fell back from a failure that may not happen again.
    """

    compiler: Compiler
    imported: ImportedModel
    folder: Path
    stock: bool
    count_stock: bool
    transient: bool = False

    @property
    def program(self) -> Path:
        return self.folder / "program.vmfb"

    @property
    def normalized(self) -> Path:
        """The module at global-optimization level, compiled to there on first use."""
        if self.imported.normalized:
            return self.imported.path
        path = self.folder / "normalized.mlirbc"
        if not path.exists():
            self.compiler.normalize(self.imported.path, path, input_type=self.imported.input_type)
        return path

    def dump(self, folder: Path) -> None:
        """Writes the IR before and after each pass that changes it, by a run for that alone."""
        from mlirfuse.backend.grouping import group

        group(
            self.normalized,
            self.folder / "dumped.mlirbc",
            target=self.compiler.target,
            options=self.compiler.options,
            dump_dir=folder,
        )

    def build(self) -> tuple[Image, Report]:
        """Compiles into `program`."""
        if self.stock:
            report = self._build_stock()
        else:
            report = self._build_fused()
            if self.count_stock:
                self._count_stock(report)
        return Image(self.program), report

    def _build_stock(self) -> Report:
        whole = not self.imported.normalized
        count = self.compiler.generate(
            self.imported.path,
            self.program,
            fused=False,
            input_type=self.imported.input_type if whole else None,
        )
        return Report(
            target=str(self.compiler.target),
            iree=version("iree-base-compiler"),
            options=self.compiler.options.to_dict(),
            dispatches={"stock": count, "fused": None},
        )

    def _build_fused(self) -> Report:
        from mlirfuse.backend.fallback import Fallback

        work = Fallback(self.compiler, self.normalized, self.folder)
        report = work.build(self.program)
        self.transient = work.transient
        return report

    def _count_stock(self, report: Report) -> None:
        report.dispatches["stock"] = self.compiler.count(self.normalized, self.folder)

    def measured(self) -> tuple[Image, Report, dict[str, Any]]:
        """Compiles each function with or without fusion, whichever is faster; with their times.

        Raises:
          UsageError: nothing is to be fused.
        """
        from mlirfuse import measurement

        if self.stock:
            raise UsageError("stock and measure are both given; stock has nothing to compare with")
        report, times = measurement.build(self)
        entries = {name: found.to_dict() for name, found in times.items()}
        return Image(self.program), report, entries

    def cached(self, store: Cache) -> tuple[Image, Report]:
        """Finds the program in the cache, or builds it and puts it there."""
        from mlirfuse.backend import cache

        key = cache.key(
            self.imported.path,
            target=self.compiler.target,
            options=self.compiler.options.to_dict(),
            stock=self.stock,
            input_type=self.imported.input_type,
            normalized=self.imported.normalized,
        )
        found = self._find(store, key)
        if found is None:
            with store.building(key):
                found = self._find(store, key)
                if found is None:
                    found = self.build()
                    if self.transient:
                        return found
                    store.store(key, self.program, {"report": found[1].to_dict()})
                    return found
        image, report = found
        if self.count_stock and report.dispatches["stock"] is None:
            self._count_stock(report)
            store.store(key, image.path, {"report": report.to_dict()})
        return image, report

    @staticmethod
    def _find(store: Cache, key: str) -> tuple[Image, Report] | None:
        entry = store.find(key)
        if entry is None:
            return None
        try:
            return Image(entry.program), Report.from_dict(entry.manifest["report"])
        except UsageError:  # evicted by another process since
            return None

    def module(
        self,
        image: Image,
        report: Report,
        *,
        measured: Mapping[str, Any] | None = None,
        guard: Guard | None = None,
        cuda_graph: bool = False,
    ) -> FusedModule:
        """The program with the model's calling convention."""
        from mlirfuse.runtime import structure
        from mlirfuse.runtime.manifest import Manifest

        imported = self.imported
        manifest = Manifest(
            device=self.compiler.target.device,
            function=imported.function,
            inputs=imported.inputs,
            outputs=imported.outputs,
            structure=structure.describe(imported.unflatten, len(imported.outputs)),
            source=imported.source,
            report=report,
            sizes=imported.sizes,
            measured=measured or {},
        )
        return FusedModule(
            image,
            manifest,
            flatten=imported.flatten,
            unflatten=imported.unflatten,
            guard=guard,
            cuda_graph=cuda_graph,
        )
