"""Replicates the result of a run on representatives: the grouped module and its report."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import Report
from mlirfuse.pipelines.repeated_layers.compare import Comparison, LayerRead
from mlirfuse.pipelines.repeated_layers.decisions import DecisionRecord, ReplicatedDecisions
from mlirfuse.pipelines.repeated_layers.op_parts import parts, relocate
from mlirfuse.pipelines.repeated_layers.packed_globals import PackedGlobals
from mlirfuse.pipelines.repeated_layers.short_result import ShortResult
from mlirfuse.pipelines.repeated_layers.shorten import NotReplicable, ShortModule
from mlirfuse.structured.ir import marks, ops


def replicate(
    short: ShortModule, grouped: ir.Module, report: Report, records: Sequence[DecisionRecord]
) -> bool:
    """Turns the result and the report of the short module into those of the whole one.

    Args:
      short: the short module; the whole one is unchanged.
      grouped: the short module after the passes.
      report: its decisions and passes, none of them MLIR's.
      records: the decisions with the locations of their ops.

    Returns:
      Whether the layers were treated the same; else module and report are of no use.
    """
    try:
        decisions = ReplicatedDecisions(short, records, len(report.passes))
        result = ShortResult(short, grouped)
        made = PackedGlobals(short, grouped)
        reads = Comparison(result, decisions, made).run()
        _Builder(result, decisions, made).build(reads)
        grouped.operation.verify()
    except (NotReplicable, ir.MLIRError):
        return False
    report.decisions[:] = decisions.decisions
    for done, rewrites in zip(report.passes, decisions.taken, strict=True):
        done.rewrites = rewrites
    return True


class _Builder:
    """The grouped short module on its way to the whole one.

    Layer 1 is cloned for each layer between it and the last; the rest becomes that of the last.
    """

    def __init__(
        self, result: ShortResult, decisions: ReplicatedDecisions, made: PackedGlobals
    ) -> None:
        self._result = result
        self._short = result.short
        self._decisions = decisions
        self._globals = made
        self._weights = result.weights

    def build(self, reads: list[list[LayerRead]]) -> None:
        """Builds the layers.

        Args:
          reads: reads of layers by each op of the block.
        """
        result, held, extra = self._result, self._result.held, self._short.extra
        counterparts = {
            old: new
            for position in range(result.first, result.second)
            for old, new in zip(
                held[position].results, held[position + result.width].results, strict=True
            )
        }
        rest, head = held[result.rest], held[len(self._weights)]
        known = dict(counterparts)
        for shift in range(1, extra + 1):
            now: dict[ir.Value, ir.Value] = {}
            for position in range(result.second, result.rest):
                old = held[position]
                new = old.clone(ir.InsertionPoint(rest)).operation
                self._settle(new, shift, reads[position], known, copied=True)
                made = dict(zip(old.results, new.results, strict=True))
                known.update(made)
                now.update(made)
            if shift < extra:
                known = {old: now[new] for old, new in counterparts.items()}
        # From the last op on: the locations of weights are read until then.
        for position, op in reversed(list(enumerate(held))):
            shift = 0 if position < result.rest else extra
            self._settle(op, shift, reads[position] if shift else [], known)
        for place, weight in sorted(self._weights.items()):
            if place in self._short.layers.weights and not ops.is_read(weight.results[0]):
                weight.erase()
            else:
                weight.move_before(head)
        self._globals.assign_names()

    def _settle(
        self,
        op: ir.Operation,
        shift: int,
        reads: list[LayerRead],
        known: dict[ir.Value, ir.Value],
        *,
        copied: bool = False,
    ) -> None:
        """Rewrites an op of the result to its counterpart that many layers later."""
        held = parts(op)
        for part_index, index, value in reads:
            owner = ops.defining_op(value)
            assert owner is not None
            new = known.get(value) or self._weight(owner, shift)
            held[part_index].operands[index] = new
        for part in held:
            location = part.location
            if isinstance(part, ir.Operation):
                if part.name in ops.CONSTANT_OPS:
                    self._set_data(part, shift)
                elif part.name == "util.global.load":
                    self._globals.load(part, shift, self._settle_global, copied=copied)
                if marks.MATCH_ATTRIBUTE in part.attributes:
                    self._set_match(part, shift)
            relocate(part, self._short.location(location, shift))

    def _settle_global(self, op: ir.Operation, shift: int) -> None:
        self._settle(op, shift, [], {})

    def _weight(self, weight: ir.Operation, shift: int) -> ir.Value:
        """The counterpart of a weight that many layers later."""
        place = self._short.place(weight)
        assert place is not None
        place = self._short.shifted(place, shift)
        if place not in self._weights:
            original = self._short.original(place)
            rest = ir.InsertionPoint(self._result.held[self._result.rest])
            self._weights[place] = original.clone(rest).operation
        return self._weights[place].results[0]

    def _set_data(self, constant: ir.Operation, shift: int) -> None:
        """Gives a copy of a weight, which passes have made, the data of its layer."""
        place = self._short.place(constant)
        if shift and place in self._short.layers.weights:
            original = self._short.original(self._short.shifted(place, shift))
            constant.attributes["value"] = original.attributes["value"]

    def _set_match(self, group: ir.Operation, shift: int) -> None:
        """Writes the index of the match on a group."""
        match = group.attributes[marks.MATCH_ATTRIBUTE]
        name = group.attributes[marks.PASS_ATTRIBUTE].value
        index = self._decisions.match_index(name, match.value, shift)
        group.attributes[marks.MATCH_ATTRIBUTE] = ir.IntegerAttr.get(match.type, index)
