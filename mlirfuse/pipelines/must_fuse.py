"""Groups required by `--must-fuse` and by marks of `mlirfuse.region`, and their check."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator

from iree.compiler import ir

from mlirfuse import cost
from mlirfuse.core import Decision, MustFuseError, NoMatch, Reason, Report, UsageError
from mlirfuse.final_kernels import Place
from mlirfuse.options import FusionOptions
from mlirfuse.structured.ir import marks, ops

_COMPUTING = (
    "linalg.",
    "iree_linalg_ext.",
    "flow.dispatch",
    "hal.dispatch.extern",
)


@dataclasses.dataclass(frozen=True, slots=True)
class MustFuse:
    """Groups of ops that have to end in one dispatch each.

    Attributes:
      given: locations of the ops of each group of `--must-fuse`.
      marked: whether the module has marks of blocks.
    """

    given: tuple[tuple[str, ...], ...]
    marked: bool

    @classmethod
    def of(cls, module: ir.Module, options: FusionOptions, *, marked: bool) -> MustFuse:
        """The required groups of a module.

        Raises:
          UsageError: a location names no op that computes something.
        """
        required = cls(options.must_fuse, marked)
        named = dict.fromkeys(name for names in required.given for name in names)
        dispatched = _dispatched(module) if named else []
        for name in named:
            if not any(marks.is_called(op, name) for _, op in dispatched):
                raise UsageError(f"--must-fuse names {name}, and no op that computes is there")
        return required

    def __bool__(self) -> bool:
        """Whether any group is required."""
        return bool(self.given) or self.marked

    def groups_of(self, op: ir.Operation) -> frozenset[str]:
        """Names, for messages, of the groups that the op has to end in."""
        found = {
            f"--must-fuse={','.join(names)}"
            for names in self.given
            if any(marks.is_called(op, name) for name in names)
        }
        if self.marked:
            found |= {
                f"mlirfuse.region '{mark.name}'" + (f" (entry {mark.entry})" if mark.entry else "")
                for mark in marks.of(op)
                if mark.fuse == "must"
            }
        return frozenset(found)

    def requires(self, group: list[ir.Operation]) -> bool:
        """Whether some of the ops, which may have others between them, have to end in one group."""
        if not self:
            return False
        computing = [op for op in group if cost.does_work(op)]
        found = collections.Counter(name for op in computing for name in self.groups_of(op))
        return any(count > 1 for count in found.values())

    def split_refusal(self, group: list[ir.Operation]) -> NoMatch | None:
        """Refuses a group that has some ops of a required group and leaves others of the block."""
        if not self:
            return None
        computing = [op for op in group if cost.does_work(op)]
        required = {name for op in computing for name in self._inside(op)}
        for view in group[-1].block.operations if required else ():
            op = view.operation
            if op in group or not _computes(op):
                continue
            left = required & self._inside(op)
            if left:
                return NoMatch(
                    Reason.MUST_FUSE, f"{min(left)} has {ops.location_name(op.location)}"
                )
        return None

    def _inside(self, op: ir.Operation) -> set[str]:
        """Names of the groups that an op, or the computing ops nested in it, have to end in.

        The arithmetic of an op that IREE made of several keeps the locations of those.
        """
        return {name for o in _with_arithmetic(_computing(op)) for name in self.groups_of(o)}

    def _held(self, name: str, op: ir.Operation) -> set[Place]:
        """The places of a group in an op."""
        inside = _with_arithmetic(_computing(op))
        return {_place(o) for o in inside if name in self.groups_of(o)}

    def _without_copies(self, name: str, parts: list[ir.Operation]) -> list[ir.Operation]:
        """The dispatches of a group, but for those that compute a merged op once more.

        IREE merges an op into each of its users: one dispatch that has the others too fulfills it.
        """
        held = [self._held(name, op) for op in parts]
        return [
            op
            for n, op in enumerate(parts)
            if any(name in self.groups_of(o) for o in _computing(op))
            or not any(held[n] <= other for other in (*held[:n], *held[n + 1 :]))
        ]

    def check(self, module: ir.Module, report: Report) -> None:
        """Checks that each required group is in one dispatch of each function.

        Args:
          module: the engine's result, or IREE's dispatches of it.
          report: report of the engine.

        Raises:
          MustFuseError: ops of a group are in several dispatches.
        """
        holders: dict[tuple[str, str], list[ir.Operation]] = {}
        for function, op in _dispatched(module) if self else ():
            for name in self._inside(op):
                holders.setdefault((function, name), []).append(op)
        for (function, name), found in sorted(holders.items(), key=lambda item: item[0]):
            parts = self._without_copies(name, found) if len(found) > 1 else found
            if len(parts) > 1:
                places = dict.fromkeys(min(self._held(name, op))[0] for op in parts)
                raise MustFuseError(
                    f"{name}: the ops are in {len(parts)} dispatches of @{function}, at"
                    f" {', '.join(places)}: {_why(function, parts, report)}"
                )


def _dispatched(module: ir.Module) -> list[tuple[str, ir.Operation]]:
    """The ops of the module that would be dispatches, with the names of their functions."""
    return [
        (ops.symbol_name(function), view.operation)
        for function in ops.functions(module)
        for block in ops.blocks(function)
        for view in block.operations
        if _computes(view.operation)
    ]


def _computes(op: ir.Operation) -> bool:
    return op.name.startswith(_COMPUTING) and len(op.results) > 0 and cost.does_work(op)


def _computing(op: ir.Operation) -> list[ir.Operation]:
    """The ops that compute in an op; the op itself where there are none."""
    return [o for o in ops.nested_ops(op) if _computes(o)] or [op]


def _place(op: ir.Operation) -> Place:
    return ops.location_name(op.location), marks.layer(op)


def _with_arithmetic(computing: list[ir.Operation]) -> Iterator[ir.Operation]:
    """The ops, and the scalar ops in the bodies of generics."""
    for op in computing:
        yield op
        if ops.is_generic(op):
            yield from ops.nested_ops(op)


def _names(op: ir.Operation) -> set[Place]:
    """Locations and layers of the ops that compute in an op."""
    found = set(map(_place, _with_arithmetic(_computing(op))))
    return {place for place in found if place[0] != "-"} or found


def _why(function: str, parts: list[ir.Operation], report: Report) -> str:
    """The reason of a tensor between two of the parts, else of a refusal about most of them."""
    names = [_names(op) for op in parts]
    return (
        _exchanged(names, report)
        or _refused(function, names, report)
        or "no pass takes them together (--explain shows what was considered)"
    )


def _exchanged(parts: list[set[Place]], report: Report) -> str:
    """The reason of a tensor that one part writes and another one reads; empty without one."""
    for boundary in report.boundaries:
        sides = (set(report.kernels[i].places) for i in (boundary.source, boundary.target))
        source, target = ({n for n, part in enumerate(parts) if part & side} for side in sides)
        if source and target and source != target and boundary.reason is not Reason.MUST_FUSE:
            detail = f" ({boundary.detail})" if boundary.detail else ""
            reason = f"{boundary.reason.code}, {boundary.reason.text}{detail}"
            return f"{reason}; hint: {boundary.reason.hint}"
    return ""


def _refused(function: str, parts: list[set[Place]], report: Report) -> str:
    """The refusal that was about most of the parts; of the request itself last."""
    best: Decision | None = None
    most = (False, 1)
    for decision in report.decisions:
        if decision.taken or decision.reason is None or decision.function != function:
            continue
        touched = sum(not part.isdisjoint(decision.places) for part in parts)
        rank = (decision.reason is not Reason.MUST_FUSE, touched)
        if touched > 1 and rank > most:
            best, most = decision, rank
    if best is None or best.reason is None:
        return ""
    detail = f" ({best.detail})" if best.detail else ""
    refusal = f"{best.reason.code}, {best.reason.text}{detail}"
    return f"{best.pass_name} refused: {refusal}; hint: {best.reason.hint}"
