"""What `--must-fuse` and marks of `mlirfuse.region` ask for, and whether it came true."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse import cost
from mlirfuse.core import Decision, MustFuseError, NoMatch, Reason, Report, UsageError
from mlirfuse.options import FusionOptions
from mlirfuse.structured.ir import marks, ops

_COMPUTING = (
    "linalg.",
    "iree_linalg_ext.",
    ops.REGION,
    "flow.dispatch.workgroups",
    "hal.dispatch.extern",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Musts:
    """Groups of ops that have to end in one dispatch each.

    Attributes:
      given: the locations of each group of `--must-fuse`.
      marked: whether the module has marks of blocks.
    """

    given: tuple[tuple[str, ...], ...]
    marked: bool

    @classmethod
    def of(cls, module: ir.Module, options: FusionOptions, *, marked: bool) -> Musts:
        """What is asked of the module.

        Raises:
          UsageError: a location names no op that computes something.
        """
        musts = cls(options.must_fuse, marked)
        wanted = dict.fromkeys(name for names in musts.given for name in names)
        working = _working(module) if wanted else []
        for name in wanted:
            if not any(marks.is_called(op, name) for _, op in working):
                raise UsageError(f"--must-fuse names {name}, and no op that computes is there")
        return musts

    def __bool__(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.given) or self.marked

    def groups(self, op: ir.Operation) -> frozenset[str]:
        """What messages call the groups that the op has to end in."""
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

    def wants(self, group: list[ir.Operation]) -> bool:
        """Whether ops of the group have to end in one group."""
        working = [op for op in group if cost.does_work(op)]
        if not self or len(working) < 2:
            return False
        return bool(frozenset.intersection(*map(self.groups, working)))

    def torn(self, group: list[ir.Operation]) -> NoMatch | None:
        """Refuses a group that has some of the ops of the same block that must stay together."""
        if not self:
            return None
        working = [op for op in group if cost.does_work(op)]
        wanted = {name for op in working for name in self.groups(op)}
        for view in group[-1].block.operations if wanted else ():
            op = view.operation
            if op in group or not _computes(op):
                continue
            left = wanted & self._inside(op)
            if left:
                return NoMatch(
                    Reason.MUST_FUSE, f"{min(left)} has {ops.location_name(op.location)}"
                )
        return None

    def _inside(self, op: ir.Operation) -> set[str]:
        """The groups that an op or what computes inside it has to end in."""
        computing = [o for o in ops.nested_ops(op) if _computes(o)]
        return {name for o in computing or [op] for name in self.groups(o)}

    def check(self, module: ir.Module, report: Report) -> None:
        """Compares what was asked for with what became of it.

        Args:
          module: what the engine made, or IREE's dispatches of it.
          report: of the engine.

        Raises:
          MustFuseError: ops of a group are in several dispatches.
        """
        holders: dict[tuple[str, str], list[ir.Operation]] = {}
        for function, op in _working(module) if self else ():
            for name in self._inside(op):
                holders.setdefault((function, name), []).append(op)
        for (function, name), parts in sorted(holders.items(), key=lambda item: item[0]):
            if len(parts) > 1:
                raise MustFuseError(
                    f"{name}: the ops are in {len(parts)} dispatches of @{function}, at"
                    f" {', '.join(dict.fromkeys(_places(parts)))}: {_why(function, parts, report)}"
                )


def _working(module: ir.Module) -> list[tuple[str, ir.Operation]]:
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


def _names(op: ir.Operation) -> set[str]:
    inside = [o for o in ops.nested_ops(op) if _computes(o)]
    return {ops.location_name(o.location) for o in inside or [op]}


def _places(parts: list[ir.Operation]) -> list[str]:
    return [min(_names(op)) for op in parts]


def _why(function: str, parts: list[ir.Operation], report: Report) -> str:
    """The reason of the refusal that was about most of the parts; of the request itself last."""
    names = [_names(op) for op in parts]
    best: Decision | None = None
    most = (False, 1)
    for decision in report.decisions:
        if decision.taken or decision.reason is None or decision.function != function:
            continue
        touched = sum(not found.isdisjoint(decision.ops) for found in names)
        rank = (decision.reason is not Reason.MUST_FUSE, touched)
        if touched > 1 and rank > most:
            best, most = decision, rank
    if best is None or best.reason is None:
        return "no pass takes them together (--explain shows what was considered)"
    detail = f" ({best.detail})" if best.detail else ""
    return f"{best.pass_name} refused: {best.reason.code}, {best.reason.text}{detail}"
