"""Runs a pipeline of named passes on a clone: switches, judgement, counting, verification.

What a pass need not know is here, once for all of them: which passes and matches are on, which ops
may join a group, whether a group can be one dispatch, how many rewrites were applied, and the
record of every decision.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import re
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from iree.compiler import ir, passmanager

from mlirfuse import builders, cost
from mlirfuse.builders.bf16_casts import round_integers_to_bf16
from mlirfuse.builders.equal_results import drop_equal_results
from mlirfuse.core import (
    Decision,
    FusionPass,
    GroupRules,
    Match,
    MlirfuseError,
    NoMatch,
    PassContext,
    PassFailedError,
    PassRun,
    Reason,
    Report,
    UsageError,
    nearest,
)
from mlirfuse.options import FusionOptions
from mlirfuse.patterns import PASSES
from mlirfuse.pipelines import op_index
from mlirfuse.pipelines.must_fuse import Musts
from mlirfuse.pipelines.op_index import Block, Function
from mlirfuse.pipelines.repeated_layers import shorten
from mlirfuse.pipelines.repeated_layers.replicate import unfold
from mlirfuse.pipelines.resolve import resolve
from mlirfuse.pipelines.search import Wishes, search
from mlirfuse.pipelines.spec import PipelineItem
from mlirfuse.plugins import registry
from mlirfuse.structured.ir import analysis_cache, legality, marks, ops, slices
from mlirfuse.targets.base import Target

_UNKNOWN_PASS = re.compile(r"'([^']+)' does not refer to a registered pass")

Listener = Callable[[PassRun], None]

Observer = Callable[[FusionPass, Match, int], Callable[[], None]]
"""Called with a match before it is rewritten; what it returns is called after."""


def run(
    module: ir.Module,
    *,
    target: Target,
    options: FusionOptions,
    dump_dir: Path | None = None,
    listener: Listener | None = None,
    observer: Observer | None = None,
) -> tuple[ir.Module, Report]:
    """Runs the pipeline that the options name.

    Args:
      module: linalg on tensors, at IREE's global-optimization level or plain; not changed.
      target: the machine that the module will be compiled for.
      options: every switch.
      dump_dir: existing directory for the IR before and after each pass that changed something.
      listener: called after each pass.
      observer: called around each rewrite.

    Returns:
      The rewritten module, in the same context, and the report.

    Raises:
      UsageError: an unknown pass, pass option or preset.
      PassFailedError: a pass raised or left invalid IR.
      MustFuseError: ops that have to end in one group did not.
    """
    try:
        with _uncollected(), registry.scope(options.load_pass):
            try:
                done = None
                if dump_dir is None and observer is None:
                    done = _folded(module, target, options, listener)
                if done is not None:
                    return done
                state = _Run.of(module, target, options, dump_dir, observer)
                return state.passes(listener)
            except PassFailedError:
                # To check after each pass takes a tenth of all time, and says which one it was.
                _Run.of(module, target, options, None, None, checked=True).passes(None)
                raise
    finally:
        ops.clear_caches()


def _folded(
    module: ir.Module, target: Target, options: FusionOptions, listener: Listener | None
) -> tuple[ir.Module, Report] | None:
    """A run on a few of many like layers; None when that is not the same as a run on all."""
    if not _treats_layers_alike(options):
        return None
    with analysis_cache.run_scope():
        marked = marks.any_in(module)
    short = None if marked else shorten.fold(module, clone)
    if short is None:
        return None
    state = _Run.of(short.module, target, options, None, None)
    grouped, report = state.passes(None)
    if not unfold(short, grouped, report, state.made):
        return None
    if listener is not None:
        for done in report.passes:
            listener(done)
    return grouped, report


def _treats_layers_alike(options: FusionOptions) -> bool:
    """Whether no switch tells one layer from another, and all passes are ours."""
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
def _uncollected() -> Iterator[None]:
    """Stops the collection of cycles: a run makes many objects that stay to its end."""
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
class _Run:
    module: ir.Module
    target: Target
    options: FusionOptions
    report: Report
    dump_dir: Path | None
    has_marks: bool
    musts: Musts
    observer: Observer | None
    checked: bool
    functions: tuple[Function, ...] | None = None
    made: list[shorten.Made] = dataclasses.field(default_factory=list)
    applied: int = 0
    dumps: int = 0

    @classmethod
    def of(
        cls,
        module: ir.Module,
        target: Target,
        options: FusionOptions,
        dump_dir: Path | None,
        observer: Observer | None,
        *,
        checked: bool = False,
    ) -> _Run:
        """A run on a clone of the module; `checked` verifies it after each pass and not at last."""
        iree = version("iree-base-compiler")
        target = dataclasses.replace(target, kernels=options.feature("kernels"))
        report = Report(target=str(target), iree=iree, options=options.to_dict())
        with analysis_cache.run_scope():
            marked = marks.any_in(module)
        musts = Musts.of(module, options, marked=marked)
        return cls(
            clone(module), target, options, report, dump_dir, marked, musts, observer, checked
        )

    def passes(self, listener: Listener | None) -> tuple[ir.Module, Report]:
        """Runs all passes of the pipeline."""
        passes = registry.passes()
        with analysis_cache.run_scope():
            for item in resolve(self.options.pipeline):
                began = time.perf_counter()
                if item.name in passes:
                    done = self.fusion_pass(passes[item.name], item)
                else:
                    done = self.mlir_pass(item)
                done.seconds = time.perf_counter() - began
                self.report.passes.append(done)
                if listener is not None:
                    listener(done)
            if any(p.rewrites for p in self.report.passes):
                drop_equal_results(self.module)
                self._verify("the last pass")
            if not self.target.bf16_instructions:
                round_integers_to_bf16(self.module)
            self.musts.check(self.module, self.report)
        return self.module, self.report

    # --- passes of MLIR and IREE ---------------------------------------------------------------

    def mlir_pass(self, item: PipelineItem) -> PassRun:
        manager = self._manager(item)
        before = self._text() if self.dump_dir is not None else ""
        try:
            manager.run(self.module.operation)
        except ir.MLIRError as error:
            raise PassFailedError(f"pass '{item}' failed: {_first_line(error)}") from error
        finally:
            self.functions = None
            analysis_cache.invalidate_all()
        after = self._text() if self.dump_dir is not None else ""
        if before != after:
            self._dump(item.name, before, after)
        return PassRun(str(item), True, None, 0.0)

    def _manager(self, item: PipelineItem) -> passmanager.PassManager:
        context = self.module.context
        kinds = {f.name for f in ops.functions(self.module)} or {"util.func"}
        nested = ",".join(f"{kind}({item})" for kind in sorted(kinds))
        spellings = [f"builtin.module({item})", f"builtin.module({nested})"]
        if item.anchor and item.name == "builtin.module":
            spellings = [str(item)]
        for spelling in spellings:
            try:
                return passmanager.PassManager.parse(spelling, context)
            except ValueError as error:
                last = error
        unknown = _UNKNOWN_PASS.search(str(last))
        if unknown is not None:
            raise UsageError(
                f"unknown pass '{unknown[1]}'{nearest(unknown[1], registry.passes())}"
            ) from last
        raise UsageError(f"pipeline item '{item}': {_first_line(last)}") from last

    # --- our passes ------------------------------------------------------------------------------

    def fusion_pass(self, fusion: FusionPass, item: PipelineItem) -> PassRun:
        refusal = self._off(fusion)
        before = self._text() if self.dump_dir is not None else ""
        work = _PassRun(self, fusion, pass_options(fusion, item), refusal)
        try:
            if self.functions is None:
                self.functions = op_index.functions(self.module)
            for function in self.functions:
                work.function(function)
        except MlirfuseError:
            raise
        except Exception as error:
            raise PassFailedError(
                f"pass '{fusion.name}' failed at {work.place()}: {type(error).__name__}: "
                f"{_first_line(error)}"
            ) from error
        if work.rewrites:
            if not work.contained or any(len(f.blocks) > 1 for f in self.functions):
                self.functions = None
            if self.checked:
                self._verify(fusion.name)
            if self.dump_dir is not None:
                self._dump(fusion.name, before, self._text())
        return PassRun(fusion.name, refusal is None, work.rewrites, 0.0)

    def _off(self, fusion: FusionPass) -> NoMatch | None:
        """Why the whole pass is off, or None when it is on."""
        switch = self.options.pass_switch(fusion.name)
        if switch is False:
            return NoMatch(Reason.DISABLED, "--disable-pass")
        unsupported = self.target.unsupported.get(fusion.name)
        if unsupported is not None:
            return NoMatch(Reason.TARGET_UNSUPPORTED, unsupported)
        if switch is None and self.target.name not in fusion.targets:
            return NoMatch(Reason.TARGET_OFF, self.target.name)
        if fusion.feature and not self.options.feature(fusion.feature):
            return NoMatch(Reason.DISABLED, f"needs --enable-feature={fusion.feature}")
        if not fusion.numerics.within(self.options.numerics):
            return NoMatch(Reason.NUMERICS_LIMIT, str(fusion.numerics))
        return None

    def _verify(self, name: str) -> None:
        try:
            self.module.operation.verify()
        except ir.MLIRError as error:
            raise PassFailedError(f"pass '{name}' left invalid IR: {_first_line(error)}") from error

    # --- dumps -----------------------------------------------------------------------------------

    def _text(self) -> str:
        return str(self.module.operation.get_asm(large_elements_limit=16, large_resource_limit=64))

    def _dump(self, name: str, before: str, after: str) -> None:
        assert self.dump_dir is not None
        for moment, text in (("before", before), ("after", after)):
            path = self.dump_dir / f"{self.dumps:03d}_{name}_{moment}.mlir"
            path.write_text(text, encoding="utf-8")
        self.dumps += 1


class _PassRun:
    """One of our passes over the functions of a module."""

    def __init__(
        self, run: _Run, fusion: FusionPass, settings: object, refusal: NoMatch | None
    ) -> None:
        self.run = run
        self.fusion = fusion
        self.settings = settings
        self.refusal = refusal
        # What a loaded pass changes is its author's business.
        ours = PASSES.get(fusion.name) is fusion
        self.contained = ours and (fusion.contained or fusion.groups)
        self.matches = 0
        self.rewrites = 0
        self.root: ir.Operation | None = None
        self.symbol = ""

    def place(self) -> str:
        """Where the pass is at work, for messages."""
        try:
            return "-" if self.root is None else ops.location_name(self.root.location)
        except RuntimeError:
            return f"an op that it erased in {self.symbol}"

    def function(self, function: Function) -> None:
        self.symbol = function.symbol
        context = PassContext(
            target=self.run.target,
            options=self.settings,
            single_op_groups=self.run.options.single_op_groups,
        )
        for known in function.blocks:
            # What another block's rewrites have erased must not be looked at.
            if self.rewrites:
                known.look()
            changed = self.rewrites
            if self.fusion.rules is not None:
                self.searched(known.block, self.fusion.rules, context)
            else:
                self.matched(known, context)
            if self.rewrites != changed:
                known.take(slices.remove_dead(known.block))

    def matched(self, known: Block, context: PassContext) -> None:
        """Tries the pass's pattern at its roots in the block."""
        roots = known.where(self.fusion.roots, self.fusion.where)
        settled: set[int] = set()
        changed = self.rewrites
        # Groups grow from their last op; a rewrite's result is the next one's operand.
        groups = self.fusion.groups
        for _, identity, root in reversed(roots) if groups else roots:
            if identity in settled or (self.rewrites != changed and ops.in_region(root)):
                continue
            self.root = root
            settled.update(self.candidate(root, context))

    def searched(self, block: ir.Block, rules: GroupRules, context: PassContext) -> None:
        """Forms the groups of the block that the search finds, the most profitable first."""
        target = self.run.target
        wishes = Wishes(lambda op: self.kept_out([op]), self.run.musts.groups)
        groups, refused = search(block, rules, target, wishes)
        for pair in refused:
            self.record(list(pair.ops), pair.verdict, None)
        for found in groups:
            self.root = found.ops[-1]
            copied = list(found.copied)
            match = Match(self.root, tuple(slices.in_order([*copied, *found.ops])))
            verdict = self.judge(match, list(match.ops), context, checked=bool(copied))
            number = None
            if verdict is None:
                number, self.matches = self.matches, self.matches + 1
                verdict = self.permit(number)
            self.record(list(match.ops), verdict, number)
            if verdict is None and number is not None:
                members = builders.own_copies(copied, list(found.ops))
                self.apply(Match(self.root, tuple(members)), number, context)

    def candidate(self, root: ir.Operation, context: PassContext) -> set[int]:
        """Decides about one root; returns the identities of the ops that need no look any more.

        Those are the ops that a rewrite erased, and the ops of a refused pattern: what is left of
        it after its last op is no pattern of its own.
        """
        found = self.fusion.match(root, context)
        if found is None:
            return set()
        if isinstance(found, NoMatch):
            self.record([root], found, None)
            return set()
        group = list(found.ops)
        identities = {ops.identity(op) for op in group}
        verdict = self.judge(found, group, context)
        if verdict is not None:
            self.record(group, verdict, None)
            return identities
        number, self.matches = self.matches, self.matches + 1
        verdict = self.permit(number) or self.fusion.prepare(found, context)
        self.record(group, verdict, number)
        if verdict is None:
            self.apply(found, number, context)
        return identities

    def judge(
        self,
        match: Match,
        group: list[ir.Operation],
        context: PassContext,
        *,
        checked: bool = False,
    ) -> NoMatch | None:
        """Whether the match may be made at all, whatever the number of the match.

        A group that is `checked` takes copies of ops of its own: what the block says of the ops is
        not what will be true of the group.
        """
        kept_out = self.kept_out(group)
        if kept_out is not None:
            return kept_out
        refusal = self.fusion.legal(match, context)
        if refusal is not None:
            return refusal
        if self.fusion.groups:
            alone = context.single_op_groups or self.fusion.takes_single_op
            if not alone and _launches(group) < 2:
                return NoMatch(Reason.SINGLE_OP, group[-1].name)
            target = self.run.target
            refusal = None if checked else slices.check(group, target.max_operands)
            refusal = refusal or legality.resource_refusal(group, target)
            refusal = refusal or self.run.musts.torn(group)
            if refusal is not None:
                return refusal
        if self.run.musts.wants(group):
            return None
        return self.fusion.profitable(match, context)

    def kept_out(self, group: list[ir.Operation]) -> NoMatch | None:
        skipped = self.run.options.skip_op_kind
        marked = self.run.options.never_fuse
        for op in group:
            kinds = {op.name, *(o.name for o in ops.nested_ops(op))} if skipped else set()
            for kind in skipped:
                if kind in kinds:
                    return NoMatch(Reason.SKIPPED_OP_KIND, kind)
            for name in marked:
                if marks.is_called(op, name):
                    return NoMatch(Reason.NEVER_FUSE, name)
            if self.run.has_marks and (blocks := marks.names(op, "never")):
                return NoMatch(Reason.NEVER_FUSE, f"mlirfuse.region '{blocks[0]}'")
        return None

    def permit(self, number: int) -> NoMatch | None:
        """Whether this match of the pass is switched on and within the limit."""
        options = self.run.options
        if self.refusal is not None:
            return self.refusal
        if not options.allows(self.fusion.name, self.symbol, number):
            return NoMatch(Reason.DISABLED, f"match {number} in {self.symbol}")
        if options.fusion_limit is not None and self.run.applied >= options.fusion_limit:
            return NoMatch(Reason.FUSION_LIMIT, str(options.fusion_limit))
        return None

    def apply(self, match: Match, number: int, context: PassContext) -> None:
        observer = self.run.observer
        done = observer(self.fusion, match, number) if observer is not None else None
        with analysis_cache.rewriting(slices.changed_by(match.ops) if self.contained else None):
            new = self.fusion.rewrite(match, context)
        if self.fusion.groups:
            mark(new, self.fusion.name, number)
        if done is not None:
            done()
        self.rewrites += 1
        self.run.applied += 1

    def record(
        self, group: list[ir.Operation], verdict: NoMatch | None, number: int | None
    ) -> None:
        shown = [op for op in group if not slices.is_clonable(op)]
        gain = cost.gain(group, self.run.target)
        places = tuple(op.location for op in shown)
        decision = Decision(
            pass_name=self.fusion.name,
            match=number,
            kind=self.fusion.kind,
            function=self.symbol,
            ops=tuple(map(ops.location_name, places)),
            op_names=tuple(op.name for op in shown),
            taken=verdict is None,
            reason=None if verdict is None else verdict.reason,
            detail="" if verdict is None else verdict.detail,
            bytes_saved=gain.bytes_saved,
            gain_us=round(gain.microseconds, 3),
            forms_group=self.fusion.groups,
        )
        self.run.report.decisions.append(decision)
        ordered = self.fusion.rules is not None
        root = group[-1] if ordered or self.root is None else self.root
        self.run.made.append(
            shorten.Made(len(self.run.report.passes), decision, places, root.location, ordered)
        )


def mark(group: ir.Operation, name: str, number: int) -> None:
    """Writes on a group which match of which pass formed it."""
    with group.context:
        group.attributes[marks.PASS_ATTRIBUTE] = ir.StringAttr.get(name)
        group.attributes[marks.MATCH_ATTRIBUTE] = ir.IntegerAttr.get(
            ir.IntegerType.get_signless(64), number
        )


def pass_options(fusion: FusionPass, item: PipelineItem) -> object:
    """The pass's options with what the pipeline string sets.

    Raises:
      UsageError: an unknown option, or a value that is not of the option's type.
    """
    fields = {f.name: f for f in dataclasses.fields(fusion.options)}
    values: dict[str, object] = {}
    for key, text in item.options.items():
        name = key.replace("-", "_")
        if name not in fields:
            raise UsageError(f"pass '{fusion.name}' has no option '{key}'{nearest(name, fields)}")
        values[name] = _convert(text, fields[name].default, f"{fusion.name}{{{key}}}")
    settings: object = fusion.options(**values)
    return settings


def _convert(text: str, default: Any, where: str) -> object:
    if isinstance(default, bool):
        if text.lower() in ("true", "1", "on"):
            return True
        if text.lower() in ("false", "0", "off"):
            return False
        raise UsageError(f"{where}: '{text}' is not a truth value (true or false)")
    try:
        return type(default)(text)
    except (TypeError, ValueError):
        raise UsageError(
            f"{where}: '{text}' is not a value of type {type(default).__name__}"
        ) from None


def _launches(group: list[ir.Operation]) -> int:
    return sum(1 for op in group if not slices.is_clonable(op) and op.name not in ops.RESHAPES)


def _first_line(error: Exception) -> str:
    """What went wrong: MLIR's own errors start with a line that says only that something did."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (said or lines or [type(error).__name__])[0][:300]
