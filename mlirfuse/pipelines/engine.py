"""Runs a pipeline of named passes on a clone: switches, judgement, counting, verification.

Everything that a pass need not know is here and in `pass_run`, once for all of them: which passes
and matches are on, which ops may join a group, whether a group can be one dispatch, how many
rewrites were applied, and the record of every decision.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from iree.compiler import ir

from mlirfuse.builders.bf16_casts import round_integers_to_bf16
from mlirfuse.builders.equal_results import drop_equal_results
from mlirfuse.core import (
    CompileFailedError,
    FusionPass,
    MlirfuseError,
    NoMatch,
    PassFailedError,
    PassRun,
    Reason,
    Report,
)
from mlirfuse.kernels import triton_compiler
from mlirfuse.options import FusionOptions
from mlirfuse.patterns import PASSES
from mlirfuse.pipelines import mlir_passes, op_index
from mlirfuse.pipelines.faults import REPEATED_LAYERS, Faults, attempt
from mlirfuse.pipelines.ir_dump import IrDump, Printing
from mlirfuse.pipelines.mlir_passes import error_line
from mlirfuse.pipelines.must_fuse import MustFuse
from mlirfuse.pipelines.op_index import Function
from mlirfuse.pipelines.pass_options import pass_options
from mlirfuse.pipelines.pass_run import Observer, PassRunner, RunState
from mlirfuse.pipelines.repeated_layers.replicate import replicate
from mlirfuse.pipelines.repeated_layers.shorten import shorten
from mlirfuse.pipelines.resolve import resolve
from mlirfuse.pipelines.spec import PipelineItem
from mlirfuse.plugins import registry
from mlirfuse.structured.ir import analysis_cache, marks, ops
from mlirfuse.support.dense_elements import make_readable
from mlirfuse.targets import rates
from mlirfuse.targets.base import Target

Listener = Callable[[PassRun], None]

Starting = Callable[[str], None]
"""Called with the name of a pass before it runs."""


def run(
    module: ir.Module,
    *,
    target: Target,
    options: FusionOptions,
    dump_dir: Path | None = None,
    printing: Printing | None = None,
    listener: Listener | None = None,
    observer: Observer | None = None,
    faults: Faults | None = None,
    starting: Starting | None = None,
    checks_must_fuse: bool = True,
) -> tuple[ir.Module, Report]:
    """Runs the pipeline that the options name.

    Args:
      module: linalg on tensors, at IREE's global-optimization level or plain; not changed.
      target: the machine that the module will be compiled for.
      options: every switch.
      dump_dir: existing directory for the IR before and after each pass that changed something.
      printing: the IR around passes as text; None for none.
      listener: called after each pass.
      observer: called around each rewrite.
      faults: parts of our own code that are left out since they raised; kernels and the
        deduplication of layers that raise are added. None: whatever raises is an error.
      starting: called with the name of each pass before it runs.
      checks_must_fuse: whether required groups have to be groups of the result; otherwise the
        dispatches that IREE makes of it are checked.

    Returns:
      The rewritten module, in the same context, and the report.

    Raises:
      UsageError: an unknown pass, pass option or preset.
      PassFailedError: a pass raised or left invalid IR.
      MustFuseError: ops that have to end in one group did not.
    """
    make_readable(module.context)
    try:
        with module.context, _without_collection(), registry.scope(options.load_pass):
            try:
                done = None
                if dump_dir is None and printing is None and observer is None:
                    done = run_on_representatives(module, target, options, listener, faults)
                if done is not None:
                    return done
                dump = IrDump(dump_dir, printing)
                work = PipelineRun.of(module, target, options, dump, observer, faults=faults)
                return work.passes(listener, starting, checks_must_fuse=checks_must_fuse)
            except PassFailedError:
                # Verification after each pass takes a tenth of all time, and names the pass.
                work = PipelineRun.of(
                    module, target, options, None, None, faults=faults, checked=True
                )
                work.passes(None)
                raise
    finally:
        ops.clear_caches()


def run_on_representatives(
    module: ir.Module,
    target: Target,
    options: FusionOptions,
    listener: Listener | None,
    faults: Faults | None = None,
) -> tuple[ir.Module, Report] | None:
    """A run on representatives of repeated layers, replicated for all of them.

    Returns:
      The module and report of a run on all layers; None where there are no repeated layers, or the
      result cannot be replicated.
    """
    if not _may_deduplicate(options):
        return None
    with analysis_cache.run_scope():
        marked = marks.any_in(module)
    if marked:
        return None
    short = attempt(faults, REPEATED_LAYERS, lambda: shorten(module, clone), None)
    if short is None:
        return None
    work = PipelineRun.of(short.module, target, options, None, None, faults=faults)
    grouped, report = work.passes(None)
    if not attempt(
        faults,
        REPEATED_LAYERS,
        lambda: replicate(short, grouped, report, work.state.records),
        False,
    ):
        return None
    if listener is not None:
        for done in report.passes:
            listener(done)
    return grouped, report


def _may_deduplicate(options: FusionOptions) -> bool:
    """Whether no switch distinguishes layers, and all passes are ours."""
    selectors = (*options.disable_pass, *options.enable_pass)
    items = [item.name for item in resolve(options.pipeline)]
    return (
        not options.never_fuse
        and not options.must_fuse
        and options.fusion_limit is None
        and not any("@" in selector for selector in selectors)
        and len(set(items)) == len(items)
        and all(registry.passes().get(name) is PASSES.get(name, False) for name in items)
    )


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Stops the collection of cycles: most objects of a run live to its end."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def clone(module: ir.Module) -> ir.Module:
    """A copy of the module in the same context."""
    source = module.operation
    copy = ir.Module.create(source.location)
    for name in source.attributes:
        copy.operation.attributes[name] = source.attributes[name]
    for op in module.body.operations:
        op.operation.clone(ir.InsertionPoint(copy.body))
    return copy


@dataclasses.dataclass(slots=True)
class PipelineRun:
    """A run of a pipeline on a clone of a module.

    Attributes:
      module: the clone.
      state: state that the passes share.
      dump: files of the IR before and after passes.
      checked: whether the module is verified after each pass, and not after the last alone.
      functions: ops of the functions by name; None after a change of which functions there are.
    """

    module: ir.Module
    state: RunState
    dump: IrDump
    checked: bool
    functions: tuple[Function, ...] | None = None

    @classmethod
    def of(
        cls,
        module: ir.Module,
        target: Target,
        options: FusionOptions,
        dump: IrDump | None,
        observer: Observer | None,
        *,
        faults: Faults | None = None,
        checked: bool = False,
    ) -> PipelineRun:
        """A run before its first pass; arguments are those of `run` and the attributes."""
        words = options.float32_matmul_precision, options.float32_conv_precision
        precision = "highest" if words[0] == "auto" else words[0]
        target = dataclasses.replace(
            target,
            kernels=options.feature("kernels") and triton_compiler.available(target),
            vector_kernels=options.feature("kernels") and target.cpu is not None,
            contracts=options.feature("fma"),
            float32_matmul_precision=precision,
            float32_conv_precision=precision if words[1] == "auto" else words[1],
        )
        report = _report(target, options)
        with analysis_cache.run_scope():
            marked = marks.any_in(module)
        must_fuse = MustFuse.of(module, options, marked=marked)
        state = RunState(target, options, report, must_fuse, marked, observer, faults)
        return cls(clone(module), state, dump or IrDump(None), checked)

    def passes(
        self,
        listener: Listener | None,
        starting: Starting | None = None,
        *,
        checks_must_fuse: bool = True,
    ) -> tuple[ir.Module, Report]:
        """Runs all passes of the pipeline."""
        known, report = registry.passes(), self.state.report
        with analysis_cache.run_scope():
            for item in resolve(self.state.options.pipeline):
                began = time.perf_counter()
                if starting is not None:
                    starting(item.name)
                if item.name in known:
                    done = self._fusion_pass(known[item.name], item)
                else:
                    done = self._mlir_pass(item)
                done.seconds = time.perf_counter() - began
                report.passes.append(done)
                if listener is not None:
                    listener(done)
            if any(p.rewrites for p in report.passes):
                drop_equal_results(self.module)
                self._verify("")
            if not self.state.target.bf16_instructions:
                round_integers_to_bf16(self.module)
            if checks_must_fuse:
                self.state.must_fuse.check(self.module, report)
        return self.module, report

    def _mlir_pass(self, item: PipelineItem) -> PassRun:
        before = self.dump.before(item.pass_name, self.module)
        try:
            mlir_passes.run(item, self.module)
        finally:
            self.functions = None
            analysis_cache.invalidate_all()
        self.dump.after(item.pass_name, self.module, before)
        return PassRun(str(item), True, None, 0.0)

    def _fusion_pass(self, fusion: FusionPass, item: PipelineItem) -> PassRun:
        refusal = self._off(fusion)
        before = "" if refusal else self.dump.before(fusion.name, self.module)
        runner = PassRunner(self.state, fusion, pass_options(fusion, item), refusal)
        try:
            if self.functions is None:
                self.functions = op_index.functions(self.module)
            for function in self.functions:
                runner.function(function)
        except Exception as error:
            # A kernel that cannot be built for a rewrite is a fault of the pass.
            if isinstance(error, MlirfuseError) and not isinstance(error, CompileFailedError):
                raise
            raise PassFailedError(
                f"pass '{fusion.name}' failed at {runner.place()}: {type(error).__name__}: "
                f"{error_line(error)}",
                pass_name=fusion.name,
                function=runner.symbol,
            ) from error
        if runner.rewrites:
            if not runner.contained or any(len(f.blocks) > 1 for f in self.functions):
                self.functions = None
            # A pass that is not ours may leave users of an op that is gone, which no other pass
            # survives.
            if self.checked or PASSES.get(fusion.name) is not fusion:
                self._verify(fusion.name)
        if refusal is None:
            self.dump.after(fusion.name, self.module, before, changed=runner.rewrites > 0)
        return PassRun(fusion.name, refusal is None, runner.rewrites, 0.0)

    def _off(self, fusion: FusionPass) -> NoMatch | None:
        """The reason why the whole pass is off; None for a pass that is on."""
        options, target = self.state.options, self.state.target
        switch = options.pass_switch(fusion.name)
        if switch is False:
            return NoMatch(Reason.DISABLED, "--disable-pass")
        unsupported = target.unsupported.get(fusion.name)
        if unsupported is not None:
            return NoMatch(Reason.TARGET_UNSUPPORTED, unsupported)
        if switch is None and target.name not in fusion.targets:
            return NoMatch(Reason.TARGET_OFF, target.name)
        if fusion.feature and not options.feature(fusion.feature):
            return NoMatch(Reason.DISABLED, f"needs --enable-feature={fusion.feature}")
        if not fusion.numerics.within(options.numerics):
            return NoMatch(Reason.NUMERICS_LIMIT, str(fusion.numerics))
        return None

    def _verify(self, name: str) -> None:
        """Checks the IR after a pass, or after the last one where it has no name."""
        try:
            self.module.operation.verify()
        except ir.MLIRError as error:
            raise PassFailedError(
                f"pass '{name or 'the last pass'}' left invalid IR: {error_line(error)}",
                pass_name=name,
                function=self._invalid_function(),
            ) from error

    def _invalid_function(self) -> str:
        """The one function that does not verify; empty where there is another number of them."""
        invalid = [f for f in ops.functions(self.module) if not _is_valid(f)]
        return ops.symbol_name(invalid[0]) if len(invalid) == 1 else ""


def _is_valid(op: ir.Operation) -> bool:
    try:
        return bool(op.verify())
    except ir.MLIRError:
        return False


def _report(target: Target, options: FusionOptions) -> Report:
    iree = version("iree-base-compiler")
    described = rates.described(target)
    return Report(target=str(target), iree=iree, options=options.to_dict(), rates=described)


def untouched(
    module: ir.Module, target: Target, options: FusionOptions
) -> tuple[ir.Module, Report]:
    """A copy of the module that no pass has changed, and the report of that."""
    with module.context:
        copy = clone(module)
        if not target.bf16_instructions:
            round_integers_to_bf16(copy)
    return copy, _report(target, options)
