"""A named pass: its pattern, its guards, its rewrite and its classification."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.reasons import NoMatch

if TYPE_CHECKING:
    from iree.compiler import ir

    from mlirfuse.targets.base import Target


TARGET_NAMES = ("cpu", "cuda", "rocm", "vulkan")
"""The targets, the only registration there is: `NAME` is made by `create` of the module
`mlirfuse.targets.NAME`. A pass that names no targets is on by default for all of them."""


KERNEL_SUFFIX = "_kernel"
"""End of the names of passes that generate the code of ops."""


class Numerics(enum.StrEnum):
    """How far a rewrite may change results, strictest first."""

    EXACT = "exact"
    REASSOCIATING = "reassociating"
    PRECISION_CHANGING = "precision_changing"

    def within(self, limit: str) -> bool:
        """Whether this class is allowed under `--numerics=LIMIT`.

        Args:
          limit: `exact`, `reassociating` or `any`.
        """
        if limit == "any":
            return True
        order = list(Numerics)
        return order.index(self) <= order.index(Numerics(limit))


class Kind(enum.StrEnum):
    """The direction in which a candidate grows, as in the decision schema."""

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
    """Ops that a pass can rewrite.

    Attributes:
      root: the op whose results the rewrite replaces.
      ops: all matched ops, the root among them, in block order.
      data: findings of `match` for `rewrite`; private to the pass.
    """

    root: ir.Operation
    ops: tuple[ir.Operation, ...]
    data: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class PassContext:
    """The input of a pass besides the ops: the target and its own options.

    Attributes:
      target: capabilities and rates of the target machine.
      options: an instance of the pass's `Options`.
      single_op_groups: whether a group of one op is allowed.
      contains: whether a kernel whose planning or building raises is a refusal, and no error.
    """

    target: Target
    options: Any
    single_op_groups: bool = False
    contains: bool = False


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
    """The groups that a pass allows when the engine searches for them by modelled time.

    Attributes:
      roots: names of the ops that are candidates.
      takes: whether an op may be in a group; a refusal instead of False is recorded.
      joins: refusal of a producer and a user of its value in one group; None when it is allowed.
        The last argument is True for a value with users outside, which becomes a result.
      admits: refusal of ops, in block order, as one group; None when they are allowed.
      needs: predicate that one op of every group fulfills; other groups belong to other passes.
      plans: refusal of one kernel for ops, in block order; None when it can be planned. With it a
        group takes at once all that it alone uses, where kernels are built.
    """

    roots: tuple[str, ...]
    takes: Callable[[ir.Operation], bool | NoMatch]
    joins: Callable[[ir.Operation, ir.Operation, ir.Value, bool], NoMatch | None]
    admits: Callable[[list[ir.Operation]], NoMatch | None] = _admit_all
    needs: Callable[[ir.Operation], bool] = _any_op
    plans: Callable[[list[ir.Operation], Target], NoMatch | None] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class FusionPass:
    """One named pass: a pattern, its guards and its rewrite. The engine does the rest.

    Attributes:
      name: snake_case; also the name of its file, its lit test and its switch.
      summary: one line for `--list-passes`.
      roots: op names at which `match` is tried.
      where: predicate on the root, cheap and evaluated once for all passes that share it; False is
        neither a match nor a refusal.
      match: structure. `None` for an op unrelated to the pattern, `NoMatch` for one that starts
        like it and differs, `Match` for one that fits.
      rules: rules of a pass without a pattern: the engine searches for profitable groups.
      rewrite: builds the new ops, erases exactly `match.ops`, and returns the op that replaces
        them.
      legal: refusal of a rewrite that would be wrong, or None.
      profitable: refusal of a rewrite that would not pay, or None.
      prepare: refusal by a step that takes time and can fail, such as building a kernel, or None;
        called last, for matches that all switches allow.
      prefetch: begins the steps of `prepare` for all matches of a block, several at a time; None
        for a pass without such steps.
      feature: the code generation feature without which the pass is off; empty for none.
      numerics: largest change of results.
      kind: direction in which its candidates grow, as in the decision schema.
      forms_group: whether a rewrite leaves a group: the op that it returns is a dispatch region
        that the engine checks, marks and counts as a group. None: every `kind` but REWRITE does.
      contained: whether a rewrite changes only the ops of its match and their users; forming a
        group always does.
      inner_first: whether nested blocks are visited before the ones around them: a rewrite that
        erases blocks must be the last to look into them.
      takes_single_op: whether groups of one op are allowed.
      for_kernel: whether its groups have been planned as kernels: limits of IREE's code generation
        do not count.
      computes_on_demand: whether its groups are for kernels that compute an op again where another
        one reads it at computed indices.
      targets: names of the targets where it is on by default.
      aliases: other names that switches and pipelines accept, the descriptive one first.
      options: a frozen dataclass with a default for each field.
      source: origin of the pattern's definition.
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
    prefetch: Callable[[Sequence[Match], PassContext], None] | None = None
    feature: str = ""
    numerics: Numerics = Numerics.EXACT
    kind: Kind = Kind.PRODUCER_CONSUMER
    forms_group: bool | None = None
    contained: bool = False
    inner_first: bool = False
    takes_single_op: bool = False
    for_kernel: bool = False
    computes_on_demand: bool = False
    targets: frozenset[str] = frozenset(TARGET_NAMES)
    aliases: tuple[str, ...] = ()
    options: Any = NoOptions
    source: str = ""

    @property
    def groups(self) -> bool:
        """Whether a rewrite leaves a group: `forms_group`, or the default of `kind`."""
        return forms_group(self.kind, self.forms_group)

    @property
    def generates_code(self) -> bool:
        """Whether a rewrite puts a kernel of ours in place of ops; IREE adds none to it."""
        return self.name.endswith(KERNEL_SUFFIX)

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
