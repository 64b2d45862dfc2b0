"""One compilation, from the model to the program, for the API, the tools and debugging."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse import targets
from mlirfuse.core import CompileFailedError, ImportFailedError, Report, UsageError
from mlirfuse.options import FusionOptions
from mlirfuse.runtime.image import Image
from mlirfuse.runtime.module import FusedModule
from mlirfuse.support import temporary
from mlirfuse.support.contained import LOG, described, trace
from mlirfuse.support.signature import demoted
from mlirfuse.targets.base import Target

if TYPE_CHECKING:
    from mlirfuse.backend.compiler import Compiler
    from mlirfuse.frontends.imported import ImportedModel
    from mlirfuse.runtime.guards import Guard
    from mlirfuse.runtime.manifest import Manifest
    from mlirfuse.support.disk_cache import Cache
    from mlirfuse.tuning_profile.application import Applied
    from mlirfuse.tuning_profile.file import Profile

F64_AS_F32 = "float64 is computed as float32"
"""Start of the note of a program for which IREE has no code in f64."""

NORMALIZED = "normalized.mlirbc"

Options = FusionOptions | Mapping[str, Any] | None
"""Switches: resolved, or by name; None for those of the environment."""


def resolved(options: Options, switches: Mapping[str, Any]) -> FusionOptions:
    """The options, or the switches resolved.

    Raises:
      UsageError: both are given, or a switch is unknown or malformed.
    """
    if options is not None and switches:
        raise UsageError(
            f"options= and {next(iter(switches))}= are both given; put the switch into the options"
        )
    made = FusionOptions.of(options if options is not None else switches)
    if made is not options:  # the command lines show the notes of options that they have resolved
        for note in made.notes:
            LOG.warning("%s", note)
    return made


@contextlib.contextmanager
def open_model(
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
) -> Iterator[Compilation]:
    """Imports a model, with a private folder; arguments are those of `mlirfuse.compile`.

    Raises:
      UsageError, ImportFailedError: as `mlirfuse.compile`.
    """
    from mlirfuse.backend.compiler import Compiler
    from mlirfuse.frontends import import_model, matmul_precision
    from mlirfuse.support.subprocess import check_timeout

    check_timeout(timeout)
    profile = None if stock or options.profile is None else _profile_of(options.profile)
    if stock:
        options = dataclasses.replace(options, profile=None)
    compiler = Compiler(targets.parse(target), options, timeout)
    compiler.flags(fused=not stock)

    def imported_with(form: str) -> ImportedModel:
        with temporary.noticing_full():
            return import_model(
                model,
                example_inputs,
                dynamic_shapes=dynamic_shapes,
                function=function,
                attention=form,
                timeout=timeout,
            )

    imported = imported_with(attention)
    if compiler.target.name == "cpu" and not stock and options.feature("sample_loop"):
        imported = _looped(imported)
    applied = None
    if profile is not None:
        applied = _applied(profile, imported, compiler)
        settled = applied.settled
        options = settled.options
        compiler = Compiler(settled.target, options, timeout, settled.keeps_layout)
        if settled.attention is not None and attention == "auto":
            imported = imported_with(settled.attention)
    found = matmul_precision.of_framework(imported.frontend)
    if options.float32_matmul_precision == "auto" and found != matmul_precision.HIGHEST:
        options = dataclasses.replace(options, float32_matmul_precision=found)
        compiler = dataclasses.replace(compiler, options=options)
    if imported.left_out and not options.feature("fallback"):
        repair, message = next(iter(imported.left_out.items()))
        raise ImportFailedError(f"{imported.source}: {repair} failed: {message}")
    if compiler.target.demotes_f64 and not imported.normalized:
        imported = _with_f32(imported, compiler.target)
    with (
        imported.workdir or contextlib.nullcontext(),
        temporary.folder("mlirfuse-") as folder,
    ):
        yield Compilation(compiler, imported, folder, stock, count_stock, applied)


def _looped(imported: ImportedModel) -> ImportedModel:
    """The model as a loop over samples, where they are independent; else the model itself."""
    from mlirfuse.frontends.batches import sample_loop

    if imported.at_batch is None:
        return imported
    try:
        return sample_loop.looped(imported) or imported
    except Exception as error:  # the program for any number of samples is there
        LOG.warning("sample_loop left out: %s", described(error))
        trace(error)
        return imported


def _profile_of(path: str) -> Profile:
    """The profile of a file.

    Raises:
      UsageError: the file cannot be read, or is no profile.
    """
    from mlirfuse.tuning_profile import file

    return file.read(path)


def _applied(profile: Profile, imported: ImportedModel, compiler: Compiler) -> Applied:
    """The profile for an imported model; warnings say what of it does not apply."""
    from mlirfuse.tuning_profile import application, fingerprint

    found = fingerprint.of_file(imported.path)
    applied = application.apply(profile, found, compiler.target, compiler.options)
    for note in applied.notes:
        LOG.warning("%s", note)
    return applied


def _with_f32(imported: ImportedModel, target: Target) -> ImportedModel:
    """The model for a target on which IREE converts f64 to f32; a warning says so."""
    made = _in_f32(imported)
    if (made.inputs, made.outputs) != (imported.inputs, imported.outputs):
        LOG.warning(
            "%s: %s has no float64: arguments and results of float64 are float32",
            *(imported.source, target),
        )
    return made


def _in_f32(imported: ImportedModel) -> ImportedModel:
    """The model with the signature of its program where f64 becomes f32."""
    return dataclasses.replace(
        imported,
        inputs=tuple(map(demoted, imported.inputs)),
        outputs=tuple(map(demoted, imported.outputs)),
    )


def computes_f64_as_f32(report: Report) -> bool:
    """Whether a program was made in f32, since IREE has no code for an op in f64."""
    return any(note.startswith(F64_AS_F32) for note in report.notes)


@dataclasses.dataclass(slots=True)
class Compilation:
    """One compilation.

    Attributes:
      compiler: the compiler, target and options.
      imported: the model.
      folder: private directory for files between the phases.
      stock: whether to leave our passes out.
      count_stock: whether to count the dispatches without our passes too.
      profile: the profile that chose the compiler's options; None without one.
      transient: whether the program fell back from a failure that may not happen again.
      found: whether the program was found in the cache.
    """

    compiler: Compiler
    imported: ImportedModel
    folder: Path
    stock: bool
    count_stock: bool
    profile: Applied | None = None
    transient: bool = False
    found: bool = False

    @property
    def program(self) -> Path:
        """The file of the program."""
        return self.folder / "program.vmfb"

    @property
    def normalized(self) -> Path:
        """The module at global-optimization level, compiled to there on first use."""
        if self.imported.normalized:
            return self.imported.path
        path = self.folder / NORMALIZED
        if not path.exists():
            self.compiler.normalize(
                self.imported.path,
                path,
                input_type=self.imported.input_type,
                keeps_f64=self.imported.keeps_f64,
                has_angles=self.imported.has_angles,
            )
        return path

    def dump(self, folder: Path) -> None:
        """Writes the IR before and after each pass that changes it, by a run for that alone."""
        folder.mkdir(parents=True, exist_ok=True)
        self.grouped(dump_dir=folder)

    def grouped(self, *, dump_dir: Path | None = None) -> Path:
        """The module with the groups of the passes, which run once more for it.

        Args:
          dump_dir: folder for the IR before and after each pass that changes it; None for none.
        """
        from mlirfuse.backend.grouping_process import group

        path = self.folder / "dumped.mlirbc"
        group(
            self.normalized,
            path,
            target=self.compiler.target,
            options=self.compiler.options,
            dump_dir=dump_dir,
        )
        return path

    def build(self) -> tuple[Image, Report]:
        """Compiles into `program`, in another form where IREE refuses this one.

        The forms: convolutions with channels in the order of the model; f32 in place of f64; a
        batch without a loop over its samples.
        """
        try:
            return self._build()
        except CompileFailedError as error:
            if self.imported.normalized or error.stage not in ("codegen", "global-optimization"):
                raise
            failure = error
        for other in (self._channels_as_written, self._f64_as_f32, self._without_loop):
            note = other(failure)
            if note is None:
                continue
            (self.folder / NORMALIZED).unlink(missing_ok=True)
            try:
                image, report = self._build()
            except CompileFailedError:
                continue
            report.notes.append(note)
            return image, report
        for note in self.imported.notes:
            LOG.warning("%s", note)
        raise failure

    def _channels_as_written(self, failure: CompileFailedError) -> str | None:
        """Keeps the order of channels from now on; None where it was kept."""
        if self.stock or not self.compiler.moves_channels:
            return None
        self.compiler = dataclasses.replace(self.compiler, keeps_layout=True)
        return f"convolutions keep the order of their channels: {failure}"

    def _f64_as_f32(self, failure: CompileFailedError) -> str | None:
        """Makes f64 f32 from now on; None where there is none."""
        if not self.imported.keeps_f64 or self.compiler.target.demotes_f64:
            return None
        self.imported = _in_f32(dataclasses.replace(self.imported, keeps_f64=False))
        return f"{F64_AS_F32}, its arguments and results too: {failure}"

    def _without_loop(self, failure: CompileFailedError) -> str | None:
        """Leaves out the loop over samples from now on; None where there is none."""
        if self.imported.unlooped is None:
            return None
        self.imported = self.imported.unlooped
        return f"batches are computed as a whole, not in a loop over samples: {failure}"

    def _build(self) -> tuple[Image, Report]:
        if self.stock:
            report = self._build_stock()
        else:
            report = self._build_fused()
            if self.count_stock:
                self._count_stock(report)
        return Image(self.program), report

    def _build_stock(self) -> Report:
        from mlirfuse.backend import boundaries, final_program

        whole = not self.imported.normalized
        phases = self.folder / "phases"
        made = self.compiler.generate(
            self.imported.path,
            self.program,
            fused=False,
            input_type=self.imported.input_type if whole else None,
            keeps_f64=self.imported.keeps_f64,
            phases=phases,
        )
        report = Report(
            target=str(self.compiler.target),
            iree=version("iree-base-compiler"),
            options=self.compiler.options.to_dict(),
            dispatches={"stock": made.dispatches, "fused": None},
        )
        boundaries.record(report, final_program.read(phases, made))
        return report

    def _build_fused(self) -> Report:
        from mlirfuse.backend.fallback import Fallback
        from mlirfuse.kernels import triton_compiler
        from mlirfuse.pipelines.faults import Faults

        faults = Faults(parts=dict(self.imported.left_out))
        work = Fallback(self.compiler, self.normalized, self.folder, faults=faults)
        report = work.build(self.program)
        self.transient = work.transient
        lost = triton_compiler.missing()
        kernels = self.compiler.options.feature("kernels")
        if lost is not None and kernels and triton_compiler.supports(self.compiler.target):
            report.notes.append(
                f"{lost.detail}: IREE generates all code, which is 2 to 100 times slower for"
                " matmuls, convolutions, attention and reductions; --disable-feature=kernels"
                " leaves this note out"
            )
        report.notes += self.imported.notes
        return report

    def _count_stock(self, report: Report) -> None:
        from mlirfuse.backend import stock_program

        stock_program.count(report, self.compiler, self.normalized, self.folder)

    def cached(self, store: Cache) -> tuple[Image, Report]:
        """Finds the program in the cache, or builds it and puts it there."""
        from mlirfuse.backend import cache

        key = cache.key(
            self.imported.path,
            target=self.compiler.target,
            options=self.compiler.options.to_dict(),
            stock=self.stock,
            input_type=self.imported.input_type,
            keeps_f64=self.imported.keeps_f64,
            normalized=self.imported.normalized,
            keeps_layout=self.compiler.keeps_layout,
        )
        found = self._find(store, key)
        self.found = found is not None
        if found is None:
            with store.building(key):
                found = self._find(store, key)
                self.found = found is not None
                if found is None:
                    found = self.build()
                    if self.transient:
                        return found
                    store.store(key, self.program, {"report": found[1].to_dict()})
                    return found
        image, report = found
        if self.count_stock and not report.stock_kernels:
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
        cuda_graph: bool | None = None,
    ) -> FusedModule:
        """The program with the model's calling convention."""
        return FusedModule(
            image,
            self.manifest(report, measured=measured),
            flatten=self.imported.flatten,
            unflatten=self.imported.unflatten,
            guard=guard,
            cuda_graph=cuda_graph,
        )

    def manifest(self, report: Report, *, measured: Mapping[str, Any] | None = None) -> Manifest:
        """The manifest of the program.

        Args:
          report: the engine's report.
          measured: function -> its times; see `Manifest`.
        """
        from mlirfuse.kernels.recurrence import family as recurrence
        from mlirfuse.runtime import pytree
        from mlirfuse.runtime.manifest import Manifest

        imported = self.imported
        if self.profile is not None:
            report.profile = self.profile.to_dict()
        if computes_f64_as_f32(report):  # of a cached program too
            imported = _in_f32(imported)
        return Manifest(
            device=self.compiler.target.device,
            function=imported.function,
            inputs=imported.inputs,
            outputs=imported.outputs,
            structure=pytree.describe(imported.unflatten, len(imported.outputs)),
            source=imported.source,
            report=report,
            sizes=imported.sizes,
            parameters=imported.parameters,
            has_state=imported.has_state,
            waiting_workgroups=recurrence.waiting_workgroups(report.kernels, self.compiler.target),
            measured=measured or {},
        )
