"""Passes from files of PDL patterns, `--load-pass=FILE.pdl.mlir`: one pass for each pattern.

    pdl.pattern @exp_of_log_rewrite : benefit(1) {
      %type = pdl.type
      %x = pdl.operand : %type
      %log = pdl.operation "math.log"(%x : !pdl.value) -> (%type : !pdl.type)
      %y = pdl.result 0 of %log
      %root = pdl.operation "math.exp"(%y : !pdl.value) -> (%type : !pdl.type)
      pdl.rewrite %root {
        pdl.replace %root with (%x : !pdl.value)
      }
    }

The pass has the pattern's name. A rewrite in PDL replaces its root; matched ops without other
users are erased with it. `pdl.rewrite %root with "mlirfuse.group"(%a, %root : !pdl.operation,
!pdl.operation)` puts the ops into one group instead. The attributes `mlirfuse.summary` and
`mlirfuse.numerics` of a pattern describe its pass; a rewrite counts as reassociating without them.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import (
    FusionPass,
    Kind,
    Match,
    NoMatch,
    Numerics,
    PassContext,
    Reason,
    UsageError,
)
from mlirfuse.plugins import pdl_patterns
from mlirfuse.plugins.pdl_patterns import Bound, Pattern
from mlirfuse.structured.ir import ops, slices


def read_patterns(path: Path) -> list[FusionPass]:
    """The passes of a file of patterns.

    Raises:
      UsageError: the file cannot be read, or holds an op that is not supported.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    return list(_passes(data, str(path)))


@functools.lru_cache(maxsize=64)
def _passes(data: bytes, source: str) -> tuple[FusionPass, ...]:
    return tuple(_pass(pattern, data, source) for pattern in pdl_patterns.read(data, source))


def _pass(pattern: Pattern, data: bytes, source: str) -> FusionPass:
    default = Numerics.EXACT if pattern.group else Numerics.REASSOCIATING
    try:
        numerics = Numerics(pattern.numerics) if pattern.numerics else default
    except ValueError:
        known = ", ".join(Numerics)
        raise UsageError(
            f"{source}: pattern '{pattern.name}': mlirfuse.numerics is '{pattern.numerics}'"
            f" (known: {known})"
        ) from None
    return FusionPass(
        name=pattern.name,
        summary=pattern.summary or f"PDL pattern of {Path(source).name}",
        roots=(pattern.root_name,),
        match=functools.partial(_match, pattern),
        rewrite=functools.partial(_rewrite, pattern),
        numerics=numerics,
        kind=Kind.PRODUCER_CONSUMER if pattern.group else Kind.REWRITE,
        source=data.decode(errors="replace"),
    )


def _match(pattern: Pattern, root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    bound = pdl_patterns.match(pattern, root)
    if bound is None:
        return None
    matched = [op for op in bound.values() if isinstance(op, ir.Operation)]
    grouped = [op for op in matched if ops.in_region(op)]
    if grouped:
        return NoMatch(Reason.ALREADY_GROUPED, ops.described(grouped[0]))
    apart = [op for op in matched if op.block != root.block]
    if apart:
        return NoMatch(Reason.DIFFERENT_BLOCKS, f"{ops.described(apart[0])} and {root.name}")
    impure = [op for op in matched if not ops.is_pure(op)]
    if impure:
        return NoMatch(Reason.SIDE_EFFECTS, ops.described(impure[0]))
    if pattern.group:
        taken = [found for n in pattern.group if isinstance(found := bound[n], ir.Operation)]
        return Match(root, tuple(slices.in_order(taken)))
    return Match(root, tuple(slices.in_order(_dead(root, matched))), bound)


def _dead(root: ir.Operation, matched: list[ir.Operation]) -> set[ir.Operation]:
    """The root, and the matched ops that have no users without it."""
    dead = {root}
    for op in reversed(slices.in_order(set(matched))):
        if all(user in dead for result in op.results for user in ops.users(result)):
            dead.add(op)
    return dead


def _rewrite(pattern: Pattern, match: Match, ctx: PassContext) -> ir.Operation:
    if pattern.group:
        return builders.form_region(list(match.ops))
    location = ir.Location.fused([op.location for op in match.ops], context=match.root.context)
    with ir.InsertionPoint(match.root), location:
        return _Rewriter(pattern, match).run()


class _Rewriter:
    """Makes the ops of the rewrite of a pattern, at the current insertion point."""

    def __init__(self, pattern: Pattern, match: Match) -> None:
        self.pattern = pattern
        self.match = match
        self.bound: dict[int, Any] = dict(match.data)

    def run(self) -> ir.Operation:
        values: list[ir.Value] = []
        for index in self.pattern.body:
            handle = self.pattern.handles[index]
            if handle.kind == "replace":
                _, by_op, by_values = handle.operands
                values = self.flat(by_values)
                for new in by_op:
                    values = list(self.bound[new].results)
            elif handle.kind != "erase":
                self.bound[index] = self.made(index)
        root = self.match.root
        for old, new in zip(root.results, values, strict=True):
            old.replace_all_uses_with(new)
        for op in reversed(self.match.ops):
            op.erase()
        owner = values[0].owner
        # An argument takes the root's place: there is no new op but the one that holds its block.
        return owner.owner.operation if isinstance(owner, ir.Block) else owner.operation

    def made(self, index: int) -> Bound:
        handle = self.pattern.handles[index]
        if handle.kind == "type":
            assert handle.constant is not None, "PDL's verifier requires it"
            return ir.Type.parse(handle.constant[0])
        if handle.kind == "attribute":
            assert handle.constant is not None, "PDL's verifier requires it"
            return ir.Attribute.parse(handle.constant[0])
        if handle.kind == "operation":
            values, attributes, types = handle.operands
            return ir.Operation.create(
                handle.name,
                results=self.flat(types) or [result.type for result in self.match.root.results],
                operands=self.flat(values),
                attributes={
                    name: self.bound[n] for n, name in zip(attributes, handle.names, strict=True)
                },
            )
        op = self.bound[handle.operands[0][0]]
        return tuple(op.results) if handle.index is None else op.results[handle.index]

    def flat(self, indices: tuple[int, ...]) -> list[Any]:
        found: list[Any] = []
        for index in indices:
            one = self.bound[index]
            found.extend(one if isinstance(one, tuple) else [one])
        return found
