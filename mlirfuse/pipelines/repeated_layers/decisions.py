"""The decisions of a run on representatives, replicated for all layers."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import Decision
from mlirfuse.pipelines.repeated_layers.shorten import (
    REPRESENTATIVES,
    NotReplicable,
    ShortModule,
)
from mlirfuse.structured.ir import marks


@dataclasses.dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision with its locations.

    Attributes:
      pass_run: index of the pass in the pipeline.
      decision: the decision.
      places: locations of the decision's ops.
      root: location of the op that the pass looked at.
      ordered: whether the pass sorts its decisions by the names of ops in messages.
    """

    pass_run: int
    decision: Decision
    places: tuple[ir.Location, ...]
    root: ir.Location
    ordered: bool


class ReplicatedDecisions:
    """The decisions about all layers.

    Attributes:
      decisions: in the order of a run on the whole module.
      taken: number of applied rewrites, by pass.
    """

    def __init__(self, short: ShortModule, records: Sequence[DecisionRecord], passes: int) -> None:
        """Replicates decisions.

        Args:
          short: the short module.
          records: the decisions about it, in order.
          passes: number of passes.

        Raises:
          NotReplicable: the decisions about layer 1 are not those about layer 0.
        """
        self._short = short
        self.decisions: list[Decision] = []
        self.taken = [0] * passes
        self._indices: dict[tuple[str, int, int], int] = {}
        """Pass, index on the short module and shift -> index of the match among all layers."""
        self._next: dict[tuple[str, int], int] = {}
        """Pass and index of a match in layer 0 -> index of its counterpart in layer 1."""
        self._matched: dict[tuple[str, int], DecisionRecord] = {}
        for pass_run, group in itertools.groupby(records, key=lambda record: record.pass_run):
            self._add_pass(pass_run, list(group))

    def match_index(self, name: str, match: int, shift: int) -> int:
        """Index among all layers of a match of the short module that many layers later.

        Raises:
          NotReplicable: there is no such match.
        """
        layer = self._layer(self._matched[name, match])
        if layer is None:
            shift = 0
        elif layer == 0 and shift:
            match, shift = self._next[name, match], shift - 1
        if (name, match, shift) not in self._indices:
            raise NotReplicable
        return self._indices[name, match, shift]

    def is_next_match(self, name: str, one: int, other: int) -> bool:
        """Whether the other match of a pass is the counterpart of one in the next layer."""
        a, b = self._matched.get((name, one)), self._matched.get((name, other))
        return a is not None and b is not None and self._is_next(a, b)

    def _is_next(self, a: DecisionRecord, b: DecisionRecord) -> bool:
        short = self._short
        detail = short.text(a.decision.detail, short.next_place)
        match = None if a.decision.match is None else b.decision.match
        same = dataclasses.replace(
            a.decision,
            ops=b.decision.ops,
            layers=b.decision.layers,
            match=match,
            detail=detail,
        )
        return (
            same == b.decision
            and len(a.places) == len(b.places)
            and short.is_next(a.root, b.root)
            and all(map(short.is_next, a.places, b.places))
        )

    def _layer(self, record: DecisionRecord) -> int | None:
        """The layer of the op that the pass looked at."""
        short = self._short
        short.last_layer(record.places)
        layer = short.layer(record.root)
        if record.ordered and layer is not None and layer < REPRESENTATIVES:
            names = [[short.name(place, shift) for place in record.places] for shift in (0, 1)]
            if names[0] != names[1]:
                raise NotReplicable
        return layer

    def _add_pass(self, pass_run: int, records: list[DecisionRecord]) -> None:
        matches = itertools.count()
        for record, shift in self._short.replicated(records, self._layer, self._compare):
            name, index = record.decision.pass_name, record.decision.match
            match = None
            if index is not None:
                match = next(matches)
                self._indices[name, index, shift] = match
                self._matched[name, index] = record
            decision = self._shifted(record, shift, match)
            self.taken[pass_run] += decision.taken
            self.decisions.append(decision)

    def _compare(self, first: list[DecisionRecord], second: list[DecisionRecord]) -> None:
        if len(first) != len(second) or not all(map(self._is_next, first, second)):
            raise NotReplicable
        for a, b in zip(first, second, strict=True):
            if a.decision.match is not None and b.decision.match is not None:
                self._next[a.decision.pass_name, a.decision.match] = b.decision.match

    def _shifted(self, record: DecisionRecord, shift: int, match: int | None) -> Decision:
        """The same decision that many layers later, with another index of the match."""
        short, detail = self._short, record.decision.detail
        names = tuple(short.name(place, shift) for place in record.places)
        layers = tuple(marks.layer_of(short.location(place, shift)) for place in record.places)
        if shift:
            detail = short.text(detail, lambda place: short.shifted(place, shift))
        return dataclasses.replace(
            record.decision, ops=names, layers=layers, match=match, detail=detail
        )
