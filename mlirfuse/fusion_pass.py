"""A named pass: its pattern, its guards, its rewrite, and the words that classify it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlirfuse.reasons import NoMatch

if TYPE_CHECKING:
    from iree.compiler import ir

    from mlirfuse.targets.base import Target


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


def forms_group(kind: Kind, given: bool | None) -> bool:
    """Whether rewrites of a kind leave a group; `given` decides where it is not None."""
    return kind is not Kind.REWRITE if given is None else given


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
      kind: the word of the decision schema for the way its candidates grow.
      forms_group: whether a rewrite leaves a group: the op that it returns is a dispatch region
        that the engine checks, marks and counts as a group. None: every `kind` but REWRITE does.
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
    forms_group: bool | None = None
    contained: bool = False
    takes_single_op: bool = False
    targets: frozenset[str] = frozenset({"cpu", "cuda", "rocm", "vulkan"})
    aliases: tuple[str, ...] = ()
    options: Any = NoOptions
    source: str = ""

    @property
    def groups(self) -> bool:
        """Whether a rewrite leaves a group: `forms_group`, or what follows from `kind`."""
        return forms_group(self.kind, self.forms_group)

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
