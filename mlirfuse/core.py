"""The vocabulary of the engine: passes, matches, reasons, decisions, errors.

This module knows no pass, no target and no switch. Everything else imports it; it imports
nothing of mlirfuse.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iree.compiler import ir

    from mlirfuse.targets.base import Target

SCHEMA_VERSION = 1
"""Version of the dictionary that `Report.to_dict` returns and `--decisions` writes."""


class MlirfuseError(Exception):
    """Base of every error that mlirfuse raises on purpose.

    `exit_code` is what a command line returns for it: 1 when the work failed, 2 for wrong usage.
    The message is one line that says what failed, where, and what would be accepted.
    """

    exit_code = 1


class UsageError(MlirfuseError):
    """The request itself is wrong: an unknown name, contradicting switches, a missing file."""

    exit_code = 2


class ImportFailedError(MlirfuseError):
    """A model could not be turned into MLIR."""


class CompileFailedError(MlirfuseError):
    """`iree-compile` refused, died or ran out of time.

    Attributes:
      stage: `import`, `global-optimization` or `codegen`.
      returncode: exit status of the process; negative for a signal; None after a timeout.
      diagnostics: everything the process wrote on stderr.
    """

    def __init__(
        self, message: str, *, stage: str, returncode: int | None = None, diagnostics: str = ""
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.returncode = returncode
        self.diagnostics = diagnostics


class PassFailedError(MlirfuseError):
    """A pass raised, or left IR that does not verify; the caller's module is untouched."""


class MustFuseError(MlirfuseError):
    """Ops that the user wants in one dispatch are in several."""


class CallError(MlirfuseError):
    """A compiled program was called with arguments that it was not compiled for."""


class Numerics(enum.StrEnum):
    """How far a rewrite may change results, strictest first."""

    EXACT = "exact"
    REASSOCIATING = "reassociating"
    PRECISION_CHANGING = "precision_changing"

    def within(self, limit: str) -> bool:
        """Says whether this class is allowed under `--numerics=LIMIT`.

        Args:
          limit: `exact`, `reassociating` or `any`.
        """
        if limit == "any":
            return True
        order = list(Numerics)
        return order.index(self) <= order.index(Numerics(limit))


class Kind(enum.StrEnum):
    """Which way a candidate grows: the words of the decision schema."""

    PRODUCER_CONSUMER = "producer-consumer"
    EPILOGUE = "epilogue"
    PROLOGUE = "prologue"
    SIBLING = "sibling"
    REWRITE = "rewrite"


class Reason(enum.Enum):
    """Why a fusion was not made. Closed: every refusal uses one of these.

    Each member carries its code (stable, used in JSON), a text, and a hint that says what would
    make the fusion happen.
    """

    ALREADY_GROUPED = (
        "already_grouped",
        "an op of the match is in another group already",
        "disable the pass that formed that group, or put this pass before it in the pipeline",
    )
    DISABLED = (
        "disabled",
        "the pass, or this match of it, is switched off",
        "remove the name from --disable-pass or add it to --enable-pass",
    )
    TARGET_UNSUPPORTED = (
        "target_unsupported",
        "the target's code generator cannot lower this form",
        "choose another target, or a kernel provider for this one",
    )
    TARGET_OFF = (
        "target_off",
        "the pass is off by default on this target because it was measured not to pay there",
        "switch it on with --enable-pass",
    )
    NUMERICS_LIMIT = (
        "numerics_limit",
        "the pass changes results more than --numerics allows",
        "allow it with --numerics=reassociating or --numerics=any",
    )
    FUSION_LIMIT = (
        "fusion_limit",
        "the number of applied rewrites reached --fusion-limit",
        "raise or remove --fusion-limit",
    )
    SKIPPED_OP_KIND = (
        "skipped_op_kind",
        "an op of the match is of a kind that --skip-op-kind keeps out of groups",
        "remove that op kind from --skip-op-kind",
    )
    NEVER_FUSE = (
        "never_fuse",
        "an op of the match is marked never-fuse",
        "remove its location from --never-fuse or its region mark from the model",
    )
    MUST_FUSE = (
        "must_fuse",
        "the match would take some of the ops that have to end in one group from the others",
        "ask for fewer ops in --must-fuse or in the model's region mark",
    )
    SINGLE_OP = (
        "single_op",
        "the group would hold one op, which IREE dispatches alone anyway",
        "allow it with --single-op-groups",
    )
    EXTRA_USERS = (
        "extra_users",
        "an intermediate value is read by ops outside the match and cannot become a result here",
        "remove the other reader, or use a pass that returns the intermediate too",
    )
    WOULD_CYCLE = (
        "would_cycle",
        "an op outside the group both reads from it and feeds it",
        "include that op in the group, or cut the dependence",
    )
    SIDE_EFFECTS = (
        "side_effects",
        "an op that would have to move has side effects or an order that must be kept",
        "move the side effect out of the way in the model",
    )
    DIFFERENT_BLOCKS = (
        "different_blocks",
        "the ops are in different blocks of control flow",
        "hoist or sink them into one block",
    )
    TOO_MANY_OPERANDS = (
        "too_many_operands",
        "the dispatch would take more than the operands that IREE allows (16)",
        "fuse fewer ops: switch off a later fusion into the same group",
    )
    TOO_MANY_OPS = (
        "too_many_ops",
        "the group would hold more ops than code generation takes in one dispatch (64)",
        "nothing: the rest becomes a group of its own",
    )
    SHAPE_MISMATCH = (
        "shape_mismatch",
        "the iteration spaces of the ops do not agree",
        "make the shapes equal, or express the difference as a broadcast",
    )
    DYNAMIC_SHAPE = (
        "dynamic_shape",
        "a dimension that the pass needs to know is dynamic",
        "export the model with that dimension static",
    )
    ELEMENT_TYPE = (
        "element_type",
        "the pass does not take this element type",
        "cast the operands to f16, bf16 or f32",
    )
    INDEXING_MAP = (
        "indexing_map",
        "an operand is read through an indexing map that is not a projected permutation",
        "express the access as a transpose, broadcast or slice op of its own",
    )
    CONSTANT_UNVERIFIED = (
        "constant_unverified",
        "a value that the pattern relies on is not the constant it must be",
        "make it a compile-time constant with the value the detail names",
    )
    STRUCTURE = (
        "structure",
        "the graph starts like the pattern but differs from it at one place",
        "see the detail for the op that differs",
    )
    WRONG_AXIS = (
        "wrong_axis",
        "the reduced or broadcast axes are not the ones of the pattern",
        "normalize over the trailing axis",
    )
    NOT_PROFITABLE = (
        "not_profitable",
        "the modelled time of the fused form is not lower",
        "force it with --must-fuse",
    )
    LEFT_TO_PRODUCER = (
        "left_to_producer",
        "the op is the epilogue of a contraction, convolution or pooling, which takes it along",
        "use a pass that forms a group of both, or skip the producer's op kind",
    )
    STACK_LIMIT = (
        "stack_limit",
        "the group would keep more in a CPU thread's stack than the target allows",
        "make the innermost dimension smaller or the group shorter",
    )
    REGISTER_LIMIT = (
        "register_limit",
        "the group would keep and write longer rows than the target's code generation takes",
        "make the rows shorter, or let nobody else read the intermediate value",
    )
    FELL_BACK = (
        "fell_back",
        "IREE's code generation failed on the program with this rewrite, so it was undone",
        "see IREE's message in the detail; --disable-feature=fallback makes it an error",
    )

    def __init__(self, code: str, text: str, hint: str) -> None:
        self.code = code
        self.text = text
        self.hint = hint


@dataclasses.dataclass(frozen=True, slots=True)
class NoMatch:
    """A refusal. `detail` names the op, value or size that made the difference."""

    reason: Reason
    detail: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Match:
    """A place where a pass can rewrite.

    Attributes:
      root: the op whose results the rewrite replaces.
      ops: every op that the rewrite takes in, in block order, the root among them.
      data: what `match` found and `rewrite` needs; private to the pass.
    """

    root: ir.Operation
    ops: tuple[ir.Operation, ...]
    data: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class PassContext:
    """What a pass may ask: the target and its own options.

    Attributes:
      target: capabilities and rates of the machine compiled for.
      options: an instance of the pass's `Options`.
      single_op_groups: whether a group of one op is allowed.
    """

    target: Target
    options: Any
    single_op_groups: bool = False


def _no_pattern(root: ir.Operation, ctx: PassContext) -> None:
    return None


def _no_objection(match: Match, ctx: PassContext) -> NoMatch | None:
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of a pass that has none."""


def _any_op(op: ir.Operation) -> bool:
    return True


def _admit_all(group: list[ir.Operation]) -> NoMatch | None:
    return None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class GroupRules:
    """Which groups a pass allows when the engine searches for them by modelled time.

    Attributes:
      roots: names of the ops that are asked for.
      takes: whether an op may be in a group; the reason where somebody may ask for it.
      joins: why a producer and a reader of its value may not be in one group; None when they may.
        The last argument says that the value is read outside too, and becomes a result.
      admits: why these ops, in block order, may not be one group as a whole.
      needs: an op of which every group holds one; other groups are another pass's.
    """

    roots: tuple[str, ...]
    takes: Callable[[ir.Operation], bool | NoMatch]
    joins: Callable[[ir.Operation, ir.Operation, ir.Value, bool], NoMatch | None]
    admits: Callable[[list[ir.Operation]], NoMatch | None] = _admit_all
    needs: Callable[[ir.Operation], bool] = _any_op


@dataclasses.dataclass(frozen=True, kw_only=True)
class FusionPass:
    """One named pass: a pattern, its guards and its rewrite. The engine does the rest.

    Attributes:
      name: snake_case; also the name of its file, its lit test and its switch.
      summary: one line for `--list-passes`.
      roots: op names at which `match` is tried.
      where: at which of those; a cheap question about the op, asked once for all passes that have
        the same one. What it says no to is no match, and no near one.
      match: structure. `None` when the op has nothing to do with the pattern, `NoMatch` when it
        starts like it and differs, `Match` when it fits.
      rules: for a pass without a pattern: the engine searches for the groups that pay.
      rewrite: builds the new ops, erases exactly `match.ops`, and returns the op that takes their
        place.
      legal: would the rewrite be wrong? Returns the reason, or None.
      profitable: would it not pay? Returns the reason, or None.
      prepare: what takes time and can fail, asked last, of what no switch keeps from being made.
      feature: the code generation feature without which the pass is off; empty for none.
      numerics: how far it changes results.
      kind: the word of the decision schema for what it forms.
      contained: whether a rewrite changes no ops but those of its match and what reads them; that
        of a group never does.
      takes_single_op: whether the rewrite gives even a group of one op a better form.
      targets: names of the targets where it is on by default.
      aliases: other names it answers to (MindSpore's, old ones).
      options: a frozen dataclass with a default for each field.
      source: where the pattern's definition comes from.
    """

    name: str
    summary: str
    roots: tuple[str, ...]
    rewrite: Callable[[Match, PassContext], ir.Operation]
    where: Callable[[ir.Operation], bool] = _any_op
    match: Callable[[ir.Operation, PassContext], Match | NoMatch | None] = _no_pattern
    rules: GroupRules | None = None
    legal: Callable[[Match, PassContext], NoMatch | None] = _no_objection
    profitable: Callable[[Match, PassContext], NoMatch | None] = _no_objection
    prepare: Callable[[Match, PassContext], NoMatch | None] = _no_objection
    feature: str = ""
    numerics: Numerics = Numerics.EXACT
    kind: Kind = Kind.PRODUCER_CONSUMER
    contained: bool = False
    takes_single_op: bool = False
    targets: frozenset[str] = frozenset({"cpu", "cuda", "rocm", "vulkan"})
    aliases: tuple[str, ...] = ()
    options: Any = NoOptions
    source: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The entry of this pass in `--list-passes=json`."""
        return {
            "name": self.name,
            "aliases": list(self.aliases),
            "summary": self.summary,
            "numerics": str(self.numerics),
            "targets": sorted(self.targets),
            "default": bool(self.targets),
            "options": {f.name: f.default for f in dataclasses.fields(self.options)},
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """One candidate fusion and what became of it.

    Attributes:
      pass_name: the pass that considered it.
      match: number of the match among those of this pass in this run, from 0; None when refused
        before it was counted.
      kind: a word of `Kind`.
      function: symbol name of the function.
      ops: locations of the ops, as `file:line:col` or a name.
      op_names: the names of the same ops.
      taken: whether the rewrite was applied.
      reason: why not, when it was not.
      detail: the op, value or size that made the difference.
      bytes_saved: memory traffic that the fusion avoids, bytes a call.
      gain_us: modelled microseconds gained a call on the target.
    """

    pass_name: str
    match: int | None
    kind: Kind
    function: str
    ops: tuple[str, ...]
    op_names: tuple[str, ...]
    taken: bool
    reason: Reason | None = None
    detail: str = ""
    bytes_saved: int | None = None
    gain_us: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The decision in the shape of the decisions schema."""
        return {
            "pass": self.pass_name,
            "match": self.match,
            "kind": str(self.kind),
            "function": self.function,
            "ops": list(self.ops),
            "op_names": list(self.op_names),
            "taken": self.taken,
            "reason": self.reason.code if self.reason else None,
            "detail": self.detail,
            "bytes_saved": self.bytes_saved,
            "gain_us": self.gain_us,
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Decision:
        """Reads back what `to_dict` wrote."""
        codes = {r.code: r for r in Reason}
        return cls(
            pass_name=entry["pass"],
            match=entry["match"],
            kind=Kind(entry["kind"]),
            function=entry["function"],
            ops=tuple(entry["ops"]),
            op_names=tuple(entry["op_names"]),
            taken=entry["taken"],
            reason=codes[entry["reason"]] if entry["reason"] else None,
            detail=entry["detail"],
            bytes_saved=entry["bytes_saved"],
            gain_us=entry["gain_us"],
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """One decision among all of a report, by what it was worth.

    Attributes:
      decision: what was considered, and what became of it.
      rank: place by modelled gain, from 1.
      margin_us: gain less that of the candidate of the next rank; None where either has no model.
    """

    decision: Decision
    rank: int
    margin_us: float | None

    def to_dict(self) -> dict[str, Any]:
        """The decision in the shape of the decisions schema, with rank and margin."""
        return {"rank": self.rank, "margin_us": self.margin_us, **self.decision.to_dict()}


@dataclasses.dataclass(slots=True)
class PassRun:
    """What one pass of the pipeline did.

    Attributes:
      name: the pass, ours or MLIR's.
      enabled: False when a switch or the target turned it off.
      rewrites: applied rewrites; None for an MLIR pass, which does not count them.
      seconds: wall time.
    """

    name: str
    enabled: bool
    rewrites: int | None
    seconds: float


@dataclasses.dataclass(slots=True)
class Report:
    """What the engine did to a module, and why.

    Attributes:
      target: the target's spelling, e.g. `cuda:sm_90`.
      iree: version of IREE that compiles the module.
      options: the resolved options as a dictionary.
      passes: one entry per pass of the pipeline, in order.
      decisions: every candidate considered, in the order of consideration.
      dispatches: numbers of dispatches: `stock` without our passes, `fused` with them; a value is
        None until the program was compiled that way.
      graph: the groups, the ops in none and the tensors between them, as `explain.graph` writes
        them; None when no program was compiled.
    """

    target: str
    iree: str
    options: dict[str, Any]
    passes: list[PassRun] = dataclasses.field(default_factory=list)
    decisions: list[Decision] = dataclasses.field(default_factory=list)
    dispatches: dict[str, int | None] = dataclasses.field(
        default_factory=lambda: {"stock": None, "fused": None}
    )
    graph: dict[str, Any] | None = None

    def counts(self) -> dict[str, int]:
        """Applied rewrites per pass, for passes that fired."""
        return {p.name: p.rewrites for p in self.passes if p.rewrites}

    def to_dict(self) -> dict[str, Any]:
        """The versioned dictionary that `--decisions=FILE.json` writes."""
        return {
            "schema": SCHEMA_VERSION,
            "target": self.target,
            "iree": self.iree,
            "options": self.options,
            "dispatches": dict(self.dispatches),
            "passes": [dataclasses.asdict(p) for p in self.passes],
            "decisions": [d.to_dict() for d in self.decisions],
            "graph": self.graph,
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Report:
        """Reads back what `to_dict` wrote.

        Raises:
          MlirfuseError: the schema's version is not ours.
        """
        if entry.get("schema") != SCHEMA_VERSION:
            raise MlirfuseError(
                f"report has schema {entry.get('schema')!r}; this mlirfuse reads {SCHEMA_VERSION}"
            )
        return cls(
            target=entry["target"],
            iree=entry["iree"],
            options=dict(entry["options"]),
            passes=[PassRun(**p) for p in entry["passes"]],
            decisions=[Decision.from_dict(d) for d in entry["decisions"]],
            dispatches=dict(entry["dispatches"]),
            graph=entry.get("graph"),
        )


def normalized(name: str) -> str:
    """Returns the form in which names are compared: case, `-` and `_` do not count."""
    return name.strip().lower().replace("-", "").replace("_", "")


def nearest(name: str, choices: Iterable[str]) -> str:
    """The end of an error message for an unknown name: a suggestion and the list of choices."""
    import difflib

    known = sorted(choices)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    return f"{hint} (known: {', '.join(known)})" if known else hint
