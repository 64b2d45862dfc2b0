"""One of our passes over the functions of a module: candidates, judgement, rewrites, decisions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from iree.compiler import ir

from mlirfuse import builders, stock_dispatches
from mlirfuse.core import (
    Decision,
    FusionPass,
    GroupRules,
    Match,
    NoMatch,
    PassContext,
    Reason,
    Report,
)
from mlirfuse.options import FusionOptions
from mlirfuse.patterns import PASSES
from mlirfuse.pipelines.faults import Faults
from mlirfuse.pipelines.must_fuse import MustFuse
from mlirfuse.pipelines.op_index import Block, Function
from mlirfuse.pipelines.repeated_layers.decisions import DecisionRecord
from mlirfuse.pipelines.search import Constraints, search
from mlirfuse.structured.ir import analysis_cache, legality, marks, ops, slices
from mlirfuse.targets.base import Target

Observer = Callable[[FusionPass, Match, int], Callable[[], None]]
"""Called with a match and its index before the rewrite; the returned function is called after."""


@dataclasses.dataclass(slots=True)
class RunState:
    """State that the passes of one run share.

    Attributes:
      target: the machine that the module will be compiled for.
      options: every switch.
      report: decisions and passes so far.
      must_fuse: groups of ops that have to end in one dispatch each.
      has_marks: whether ops of the module are marked by `mlirfuse.region`.
      observer: called around each rewrite.
      faults: passes that are left out of functions since they raised, and the log of kernels that
        raise; None where an exception is an error.
      records: the decisions with the locations of their ops.
      applied: number of rewrites of all passes.
    """

    target: Target
    options: FusionOptions
    report: Report
    must_fuse: MustFuse
    has_marks: bool
    observer: Observer | None = None
    faults: Faults | None = None
    records: list[DecisionRecord] = dataclasses.field(default_factory=list)
    applied: int = 0


class PassRunner:
    """One pass on its way through a module.

    Attributes:
      symbol: name of the function that it is in; empty before the first one.
      contained: whether a rewrite leaves analyses of ops outside its match valid.
      matches: number of matches so far; the index of the next one.
      rewrites: number of rewrites so far.
    """

    def __init__(
        self, run: RunState, fusion: FusionPass, settings: object, refusal: NoMatch | None
    ) -> None:
        """A pass before its first function.

        Args:
          run: state of the run; decisions are added to it.
          fusion: the pass.
          settings: its options.
          refusal: reason why the whole pass is off; None for a pass that is on.
        """
        self._run = run
        self._fusion = fusion
        self._settings = settings
        self._refusal = refusal
        # Nothing is assumed about the rewrites of a loaded pass.
        ours = PASSES.get(fusion.name) is fusion
        self.contained = ours and (fusion.contained or fusion.groups)
        self.matches = 0
        self.rewrites = 0
        self.symbol = ""
        self._root: ir.Operation | None = None

    def place(self) -> str:
        """Location of the op at which the pass is at work, for messages."""
        try:
            return "-" if self._root is None else ops.location_name(self._root.location)
        except RuntimeError:
            return f"an op that it erased in {self.symbol}"

    def function(self, function: Function) -> None:
        """Runs the pass on a function."""
        self.symbol = function.symbol
        faults = self._run.faults
        if faults is not None and (self._fusion.name, self.symbol) in faults.passes:
            self._record_left_out(function, faults.passes[self._fusion.name, self.symbol])
            return
        context = PassContext(
            target=self._run.target,
            options=self._settings,
            single_op_groups=self._run.options.single_op_groups,
            contains=faults is not None,
        )
        for known in reversed(function.blocks) if self._fusion.inner_first else function.blocks:
            # A wrapper of an op that a rewrite in another block has erased dangles.
            if self.rewrites:
                known.refresh()
            changed = self.rewrites
            if self._fusion.rules is not None:
                self._search(known.block, self._fusion.rules, context)
            else:
                self._match(known, context)
            if self.rewrites != changed:
                known.set(slices.remove_dead(known.block))

    def _match(self, known: Block, context: PassContext) -> None:
        """Tries the pass's pattern at its roots in the block."""
        roots = known.where(self._fusion.roots, self._fusion.where)
        settled: set[int] = set()
        changed = self.rewrites
        self._prefetch([root for _, _, root in roots], context)
        # Groups grow from their last op; a rewrite's result is the next one's operand.
        groups = self._fusion.groups
        for _, identity, root in reversed(roots) if groups else roots:
            if identity in settled or (self.rewrites != changed and ops.in_region(root)):
                continue
            self._root = root
            settled.update(self._candidate(root, context))

    def _prefetch(self, roots: list[ir.Operation], context: PassContext) -> None:
        """Begins the steps that take time for all matches that may be made."""
        prefetch, fusion = self._fusion.prefetch, self._fusion
        limited = self._run.options.fusion_limit is not None
        if prefetch is None or self._refusal is not None or limited or len(roots) < 2:
            return
        found = [fusion.match(root, context) for root in roots if root.results]
        matches = [match for match in found if isinstance(match, Match)]
        prefetch([m for m in matches if self._judge(m, list(m.ops), context) is None], context)

    def _search(self, block: ir.Block, rules: GroupRules, context: PassContext) -> None:
        """Forms the groups of the block that the search finds, the most profitable first."""
        constraints = Constraints(lambda op: self._kept_out([op]), self._run.must_fuse.groups_of)
        groups, refused = search(block, rules, self._run.target, constraints)
        for pair in refused:
            self._record(list(pair.ops), pair.verdict, None)
        for found in groups:
            self._root = found.ops[-1]
            copied = list(found.copied)
            match = Match(self._root, tuple(slices.in_order([*copied, *found.ops])))
            verdict = self._judge(match, list(match.ops), context, checked=bool(copied))
            index = None
            if verdict is None:
                index = self._next_index()
                verdict = self._permit(index)
            self._record(list(match.ops), verdict, index)
            if verdict is None and index is not None:
                with analysis_cache.rewriting(found.ops):  # they read the copies from now on
                    members = builders.own_copies(copied, list(found.ops))
                self._apply(Match(self._root, tuple(members)), index, context)

    def _candidate(self, root: ir.Operation, context: PassContext) -> set[int]:
        """Decides about one root; returns the identities of the ops that are settled.

        Those are the ops that a rewrite erased, and the ops of a refused pattern: a part of it that
        ends before its last op is no pattern of its own.
        """
        found = self._fusion.match(root, context)
        if found is None:
            return set()
        if isinstance(found, NoMatch):
            self._record([root], found, None)
            return set()
        group = list(found.ops)
        identities = {ops.identity(op) for op in group}
        verdict = self._judge(found, group, context)
        if verdict is not None:
            self._record(group, verdict, None)
            return identities
        index = self._next_index()
        verdict = self._permit(index) or self._fusion.prepare(found, context)
        self._record(group, verdict, index)
        if verdict is None:
            self._apply(found, index, context)
        return identities

    def _next_index(self) -> int:
        self.matches += 1
        return self.matches - 1

    def _judge(
        self,
        match: Match,
        group: list[ir.Operation],
        context: PassContext,
        *,
        checked: bool = False,
    ) -> NoMatch | None:
        """Refuses a match that may not be made, whatever its index.

        A group that is `checked` takes copies of ops of its own: the users of an op in the block
        are not those of its copy in the group.
        """
        kept_out = self._kept_out(group)
        if kept_out is not None:
            return kept_out
        refusal = self._fusion.legal(match, context)
        if refusal is not None:
            return refusal
        if self._fusion.groups:
            alone = context.single_op_groups or self._fusion.takes_single_op
            if not alone and _launches(group) < 2:
                return NoMatch(Reason.SINGLE_OP, group[-1].name)
            target = self._run.target
            fusion = self._fusion
            if not checked:
                refusal = slices.check(
                    group,
                    target.max_operands,
                    any_result=fusion.for_kernel,
                    on_demand=fusion.computes_on_demand,
                )
            if not fusion.for_kernel:
                refusal = refusal or legality.resource_refusal(group, target)
            if refusal is not None:
                return refusal
        if self._fusion.groups or self._fusion.generates_code:
            refusal = self._run.must_fuse.split_refusal(group)
            if refusal is not None:
                return refusal
        if self._run.must_fuse.requires(group):
            return None
        verdict = self._fusion.profitable(match, context)
        if verdict is None or self._refusal is None:
            return verdict
        # Forcing the fusion alone would not make it: what comes first is that the pass is off.
        details = filter(None, (self._refusal.detail, verdict.detail))
        return NoMatch(self._refusal.reason, "; ".join(details))

    def _kept_out(self, group: list[ir.Operation]) -> NoMatch | None:
        """Refuses ops that the user keeps out of every group."""
        skipped = self._run.options.skip_op_kind
        marked = self._run.options.never_fuse
        for op in group:
            kinds = {op.name, *(o.name for o in ops.nested_ops(op))} if skipped else set()
            for kind in skipped:
                if kind in kinds:
                    return NoMatch(Reason.SKIPPED_OP_KIND, kind)
            for name in marked:
                if marks.is_called(op, name):
                    return NoMatch(Reason.NEVER_FUSE, name)
            if self._run.has_marks and (blocks := marks.names(op, "never")):
                return NoMatch(Reason.NEVER_FUSE, f"mlirfuse.region '{blocks[0]}'")
        return None

    def _permit(self, index: int) -> NoMatch | None:
        """Refuses a match of the pass that is switched off or beyond the limit."""
        options = self._run.options
        if self._refusal is not None:
            return self._refusal
        if not options.allows(self._fusion.name, self.symbol, index):
            return NoMatch(Reason.DISABLED, f"match {index} in {self.symbol}")
        if options.fusion_limit is not None and self._run.applied >= options.fusion_limit:
            return NoMatch(Reason.FUSION_LIMIT, str(options.fusion_limit))
        return None

    def _apply(self, match: Match, index: int, context: PassContext) -> None:
        observer = self._run.observer
        done = observer(self._fusion, match, index) if observer is not None else None
        with analysis_cache.rewriting(slices.changed_by(match.ops) if self.contained else None):
            new = self._fusion.rewrite(match, context)
        if self._fusion.groups:
            mark(new, self._fusion.name, index)
        elif new.name in marks.KERNEL_CALLS:
            _mark_kernel(new, self._fusion.name, index)
        if done is not None:
            done()
        self.rewrites += 1
        self._run.applied += 1

    def _record_left_out(self, function: Function, message: str) -> None:
        """Records that the pass is left out of the function."""
        if not function.blocks:
            return
        owner = function.blocks[0].block.owner.operation
        while owner.parent is not None and owner.parent.operation.name != "builtin.module":
            owner = owner.parent.operation
        decision = Decision(
            pass_name=self._fusion.name,
            match=None,
            kind=self._fusion.kind,
            function=self.symbol,
            ops=(ops.location_name(owner.location),),
            op_names=(owner.name,),
            taken=False,
            reason=Reason.FELL_BACK,
            detail=message,
            forms_group=self._fusion.groups,
        )
        report = self._run.report
        report.decisions.append(decision)
        places = (owner.location,)
        self._run.records.append(
            DecisionRecord(len(report.passes), decision, places, owner.location, False)
        )

    def _record(
        self, group: list[ir.Operation], verdict: NoMatch | None, index: int | None
    ) -> None:
        faults = self._run.faults
        if faults is not None and verdict is not None and verdict.reason is Reason.FELL_BACK:
            faults.log(f"pass '{self._fusion.name}' left to IREE: {verdict.detail}")
        shown = [op for op in group if not slices.is_clonable(op)]
        gain = stock_dispatches.gain(group, self._run.target)
        places = tuple(op.location for op in shown)
        decision = Decision(
            pass_name=self._fusion.name,
            match=index,
            kind=self._fusion.kind,
            function=self.symbol,
            ops=tuple(map(ops.location_name, places)),
            op_names=tuple(op.name for op in shown),
            taken=verdict is None,
            reason=None if verdict is None else verdict.reason,
            detail="" if verdict is None else verdict.detail,
            bytes_saved=gain.bytes_saved,
            gain_us=round(gain.microseconds, 3),
            forms_group=self._fusion.groups,
            layers=tuple(map(marks.layer_of, places)),
        )
        report = self._run.report
        report.decisions.append(decision)
        ordered = self._fusion.rules is not None
        root = group[-1] if ordered or self._root is None else self._root
        self._run.records.append(
            DecisionRecord(len(report.passes), decision, places, root.location, ordered)
        )


def mark(group: ir.Operation, name: str, index: int) -> None:
    """Writes on a group the pass that formed it and the index of the match."""
    with group.context:
        group.attributes[marks.PASS_ATTRIBUTE] = ir.StringAttr.get(name)
        group.attributes[marks.MATCH_ATTRIBUTE] = ir.IntegerAttr.get(
            ir.IntegerType.get_signless(64), index
        )


def _mark_kernel(call: ir.Operation, name: str, index: int) -> None:
    """Writes on the call of a kernel, and on those before it that it needs, the pass it is from."""
    if marks.KERNEL_ATTRIBUTE in call.attributes:
        return
    with call.context:
        call.attributes[marks.KERNEL_ATTRIBUTE] = ir.StringAttr.get(name)
    if marks.PASS_ATTRIBUTE not in call.attributes:
        mark(call, name, index)
    for value in call.operands:
        producer = ops.defining_op(value)
        if producer is not None and producer.name in marks.KERNEL_CALLS:
            _mark_kernel(producer, name, index)


def _launches(group: list[ir.Operation]) -> int:
    return sum(1 for op in group if not slices.is_clonable(op) and op.name not in ops.RESHAPES)
