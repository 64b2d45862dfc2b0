"""Search for groups: pairs of neighbours are joined, the most profitable first.

Each op of the block that a pass takes starts as a group of its own. Every edge from a producer to a
reader is a candidate, priced by the cost model: time of the two groups less time of the joined one.
The best candidate is taken, if the joined group may be made, and its neighbours are priced again.
A producer with several readers is joined with one of them and kept as a result for the others. One
that is still alone when no join pays is copied into all of its readers, or left, whichever is
modelled cheaper.

Ties are broken by what the ops are and not by where they stand, so that the result does not depend
on the order of the ops in the file.
Source: the priority queue is that of XLA's PriorityFusion.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Callable, Iterable

from iree.compiler import ir

from mlirfuse import cost
from mlirfuse.core import GroupRules, NoMatch, Reason
from mlirfuse.pipelines.incremental_toposort import Order
from mlirfuse.structured.ir import fusable_neighbors, legality, ops, slices
from mlirfuse.targets.base import Target

OUTSIDE = -1
"""Index of a reader that is no op of the block."""

MOST_COPIES = 8
"""Readers into which one producer is copied."""


@dataclasses.dataclass(frozen=True, slots=True)
class Wishes:
    """What the user says about ops.

    Attributes:
      kept_out: why an op joins no group; None for one that may.
      together: names of the groups that an op has to end in.
    """

    kept_out: Callable[[ir.Operation], NoMatch | None]
    together: Callable[[ir.Operation], frozenset[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """Two neighbours that were not joined."""

    ops: tuple[ir.Operation, ...]
    verdict: NoMatch


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A group of one or more ops, in block order.

    Attributes:
      ops: the group, copies left out.
      copied: producers of which the group takes a copy of its own.
    """

    ops: tuple[ir.Operation, ...]
    copied: tuple[ir.Operation, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _Written:
    """A value that a group writes.

    Attributes:
      bytes: its size.
      rank: number of its dimensions.
      writer: index of the op.
      readers: indices of the readers outside the group, never empty unless nobody reads it.
    """

    bytes: int
    rank: int
    writer: int
    readers: frozenset[int]


@dataclasses.dataclass(frozen=True, slots=True)
class _Op:
    """What the search knows of one op.

    Attributes:
      op: the op; of a copy the original.
      place: its index in the block.
      reads: tensors that it reads, with their bytes.
      writes: its results.
      computes: its work without bytes.
      key: what it is, for ties.
      kept_out: why it joins no group.
      together: groups of the user's that it has to end in.
    """

    op: ir.Operation
    place: int
    reads: dict[ir.Value, int]
    writes: dict[ir.Value, _Written]
    computes: cost.Work
    key: str
    kept_out: NoMatch | None
    together: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class _Group:
    """Ops that are one dispatch, by index, and its modelled time.

    Attributes:
      members: the ops.
      reads: tensors from outside, with their bytes.
      writes: values that others read.
      computes: its work without bytes.
      microseconds: its time.
      key: what it is, for ties.
      together: groups of the user's that ops of it have to end in.
    """

    members: frozenset[int]
    reads: dict[ir.Value, int]
    writes: dict[ir.Value, _Written]
    computes: cost.Work
    microseconds: float
    key: str
    together: frozenset[str]


def search(
    block: ir.Block, rules: GroupRules, target: Target, wishes: Wishes
) -> tuple[list[Found], list[Refused]]:
    """Finds the groups of one block.

    Args:
      block: its ops are not changed.
      rules: which ops may be in a group, and which may be neighbours in it.
      target: prices the groups, and limits them.
      wishes: what the user says about ops.

    Returns:
      The groups, the most profitable first, and the pairs that stayed apart.
    """
    found = _Search(block, rules, target, wishes)
    found.run()
    return found.groups_found(), found.pairs_refused()


class _Search:
    def __init__(self, block: ir.Block, rules: GroupRules, target: Target, wishes: Wishes) -> None:
        self.block = block
        self.rules = rules
        self.target = target
        self.wishes = wishes
        self.ops = [o.operation for o in block.operations]
        self.place = {op: index for index, op in enumerate(self.ops)}
        self.info: dict[int, _Op] = {}
        self.groups: dict[int, _Group] = {}
        self.order = Order()
        self.left: list[Refused] = []
        self.refused: dict[tuple[int, int], NoMatch] = {}
        self.edges: dict[tuple[int, int, ir.Value, bool], NoMatch | None] = {}
        self.queue: list[tuple[float, str, int, int]] = []
        self.indices = len(self.ops)
        self.units = len(self.ops)
        for index, op in enumerate(self.ops):
            self.order.add(index, self._read_by(op))
            if op.name not in rules.roots or ops.in_region(op):
                continue
            taken = rules.takes(op)
            if isinstance(taken, NoMatch):
                self.left.append(Refused((op,), taken))
            elif taken:
                self.info[index] = self._facts(index, op)
                self.groups[index] = self._alone(index)

    # --- facts ---------------------------------------------------------------------------------

    def _read_by(self, op: ir.Operation) -> set[int]:
        """Indices of the ops of the block that the op, or an op in its regions, reads."""
        return {self.place[owner] for _, owner in ops.operand_producers(op) if owner in self.place}

    def _facts(self, index: int, op: ir.Operation) -> _Op:
        reads = {value: cost.num_bytes([value]) for value in slices.operands_of([op])}
        writes = {
            result: _Written(
                cost.num_bytes([result]), len(ops.shape(result)), index, self._readers(result)
            )
            for result in op.results
        }
        names = ",".join(ops.scalar_names(op))
        return _Op(
            op=op,
            place=index,
            reads=reads,
            writes=writes,
            computes=cost.computation(op),
            key=f"{ops.location_name(op.location)} {op.results[0].type} {names}",
            kept_out=self.wishes.kept_out(op),
            together=self.wishes.together(op),
        )

    def _readers(self, value: ir.Value) -> frozenset[int]:
        """The ops of the block that read the value, `OUTSIDE` for others."""
        found = set()
        for user in ops.users(value):
            outer = user if user in self.place else ops.ancestor_in(self.block, user)
            found.add(OUTSIDE if outer is None else self.place[outer])
        return frozenset(found)

    # --- groups --------------------------------------------------------------------------------

    def _alone(self, index: int) -> _Group:
        info = self.info[index]
        return self._priced(
            frozenset({index}), info.reads, info.writes, info.computes, info.key, info.together
        )

    def _priced(
        self,
        members: frozenset[int],
        reads: dict[ir.Value, int],
        writes: dict[ir.Value, _Written],
        computes: cost.Work,
        key: str,
        together: frozenset[str],
    ) -> _Group:
        traffic = sum(reads.values()) + sum(w.bytes for w in writes.values())
        time = dataclasses.replace(computes, bytes=traffic).microseconds(self.target)
        return _Group(members, reads, writes, computes, time, key, together)

    def _joined(self, first: _Group, last: _Group) -> _Group:
        """The group of both; the last may read the first."""
        members = first.members | last.members
        reads = {v: size for v, size in last.reads.items() if v not in first.writes}
        writes = dict(last.writes)
        for value, written in first.writes.items():
            rest = written.readers - last.members
            if rest or not written.readers:
                writes[value] = dataclasses.replace(written, readers=rest)
        return self._priced(
            members,
            {**first.reads, **reads},
            writes,
            cost.combined([first.computes, last.computes], 0),
            min(first.key, last.key),
            first.together | last.together,
        )

    def _between(self, first: _Group, last: _Group) -> list[tuple[int, int, ir.Value]]:
        """Each way in which the last group reads a value of the first: writer, reader, value."""
        return [
            (written.writer, reader, value)
            for value, written in first.writes.items()
            for reader in written.readers & last.members
        ]

    # --- the search ----------------------------------------------------------------------------

    def run(self) -> None:
        """Takes candidates until none pays."""
        for number in list(self.groups):
            for reader in sorted(self.order.after[number]):
                self._offer(number, reader)
        self._drain()
        while self._copy_best():
            self._drain()

    def _drain(self) -> None:
        while self.queue:
            _, _, first, last = heapq.heappop(self.queue)
            if first in self.groups and last in self.groups:
                self._join(first, last)

    def _offer(self, first: int, last: int) -> None:
        """Prices the join of two groups, and queues it when it would pay."""
        if first not in self.groups or last not in self.groups:
            return
        a, b = self.groups[first], self.groups[last]
        joined = self._joined(a, b)
        verdict = self._apart(a, b, joined)
        if verdict is None:
            gain = a.microseconds + b.microseconds - joined.microseconds
            if a.together & b.together:
                gain = float("inf")
            if gain > 0:
                heapq.heappush(self.queue, (-gain, f"{a.key} {b.key}", first, last))
                return
            verdict = NoMatch(Reason.NOT_PROFITABLE, f"{-gain:.2f} us slower in the model")
        self.refused[first, last] = verdict

    def _apart(self, first: _Group, last: _Group, joined: _Group) -> NoMatch | None:
        """What is known without looking at the whole group of why two may not be joined."""
        for writer, reader, value in self._between(first, last):
            a, b = self.info[writer], self.info[reader]
            verdict = a.kept_out or b.kept_out
            verdict = verdict or self._edge(writer, reader, value, value in joined.writes)
            if verdict is not None:
                return verdict
        return self._too_large(joined)

    def _edge(self, writer: int, reader: int, value: ir.Value, kept: bool) -> NoMatch | None:
        key = (self.info[writer].place, self.info[reader].place, value, kept)
        if key not in self.edges:
            ends = self.info[writer].op, self.info[reader].op
            self.edges[key] = self.rules.joins(*ends, value, kept)
        return self.edges[key]

    def _too_large(self, group: _Group) -> NoMatch | None:
        bound = len(group.reads) + len(group.writes)
        limit = self.target.max_operands
        if bound > limit:
            text = f"{bound} operands and results, the limit is {limit}"
            return NoMatch(Reason.TOO_MANY_OPERANDS, text)
        if len(group.members) > fusable_neighbors.MAX_GROUP_OPS:
            return NoMatch(Reason.TOO_MANY_OPS, f"more than {fusable_neighbors.MAX_GROUP_OPS} ops")
        return None

    def _join(self, first: int, last: int) -> None:
        joined = self._joined(self.groups[first], self.groups[last])
        verdict = self._forbids(joined)
        between = self.order.path(first, last) if verdict is None else None
        if between is not None:
            name = ops.described(self._op_of(between))
            verdict = NoMatch(Reason.WOULD_CYCLE, f"{name} reads the group and feeds it")
        if verdict is not None:
            self.refused[first, last] = verdict
            return
        self.units += 1
        del self.groups[first], self.groups[last]
        self.order.merge(first, last, self.units)
        self._settle(self.units, joined)

    def _settle(self, number: int, group: _Group) -> None:
        """Makes a group known, and offers it to its neighbours."""
        self.groups[number] = group
        for other in sorted(self.order.after[number]):
            self._offer(number, other)
        for other in sorted(self.order.before[number]):
            self._offer(other, number)

    def _op_of(self, unit: int) -> ir.Operation:
        if unit not in self.groups:
            return self.ops[unit]
        return self.info[min(self.groups[unit].members)].op

    def _forbids(self, group: _Group) -> NoMatch | None:
        """Why the ops cannot be one dispatch, cycles left out; None when they can."""
        verdict = self._too_large(group)
        if verdict is not None:
            return verdict
        rank = min(w.rank for end in self._ends(group) for w in end.writes.values())
        for written in group.writes.values():
            if written.rank > rank:
                name = ops.described(self.info[written.writer].op)
                return NoMatch(Reason.EXTRA_USERS, f"{name} is larger than what the group ends in")
        found = self._in_order(group.members)
        refusal = legality.resource_refusal(found, self.target)
        return refusal or self.rules.admits(found)

    def _ends(self, group: _Group) -> list[_Op]:
        """The ops of which no other op of the group reads a result."""
        infos = [self.info[member] for member in group.members]
        read = {value for info in infos for value in info.reads}
        return [info for info in infos if read.isdisjoint(info.writes)]

    # --- copies --------------------------------------------------------------------------------

    def _copy_best(self) -> bool:
        """Copies the lone producer with which that saves most into its readers."""
        best: tuple[float, str, int] | None = None
        for number, group in self.groups.items():
            gain = self._gain_of_copies(number, group)
            if gain is not None and gain > 0 and (best is None or (-gain, group.key) < best[:2]):
                best = (-gain, group.key, number)
        if best is None:
            return False
        self._copy(best[2])
        return True

    def _gain_of_copies(self, number: int, group: _Group) -> float | None:
        """What copies of a lone op in all of its readers save; None when not all can take one."""
        if len(group.members) > 1 or len(group.writes) != 1:
            return None
        (member,) = group.members
        ((value, written),) = group.writes.items()
        readers = self.order.after[number]
        if OUTSIDE in written.readers or not 1 < len(readers) <= MOST_COPIES:
            return None
        if any(reader not in self.groups for reader in readers):
            return None
        gain = group.microseconds
        for reader in readers:
            taker = self.groups[reader]
            joined = self._with_copy(group, taker)
            info = self.info[member]
            for at in written.readers & taker.members:
                verdict = info.kept_out or self.info[at].kept_out
                if verdict or self._edge(member, at, value, False):
                    return None
            if self._forbids(joined):
                return None
            gain += taker.microseconds - joined.microseconds
        return gain

    def _with_copy(self, group: _Group, reader: _Group) -> _Group:
        """The reader with a copy of the lone op, of which nobody else reads a result."""
        own = {
            value: dataclasses.replace(written, readers=written.readers & reader.members)
            for value, written in group.writes.items()
        }
        return self._joined(dataclasses.replace(group, writes=own), reader)

    def _copy(self, number: int) -> None:
        group = self.groups.pop(number)
        (member,) = group.members
        made: dict[int, _Group] = {}
        copies = set()
        for reader in sorted(self.order.after[number]):
            index, self.indices = self.indices, self.indices + 1
            self.info[index] = self.info[member]
            copies.add(index)
            own = dataclasses.replace(group, members=frozenset({index}))
            made[reader] = self._with_copy(own, self.groups[reader])
        for producer in self.order.before[number] & self.groups.keys():
            self._read_by_copies(producer, member, frozenset(copies))
        self.order.dissolve(number)
        for reader, joined in made.items():
            self._settle(reader, joined)

    def _read_by_copies(self, producer: int, member: int, copies: frozenset[int]) -> None:
        group = self.groups[producer]
        writes = {
            value: dataclasses.replace(written, readers=written.readers - {member} | copies)
            if member in written.readers
            else written
            for value, written in group.writes.items()
        }
        self.groups[producer] = dataclasses.replace(group, writes=writes)

    # --- answers -------------------------------------------------------------------------------

    def _in_order(self, members: Iterable[int]) -> list[ir.Operation]:
        return [self.ops[place] for place in sorted({self.info[m].place for m in members})]

    def groups_found(self) -> list[Found]:
        """The groups, the most profitable first; those that the pass is not for are left out."""
        found = []
        for group in self.groups.values():
            if not any(self.rules.needs(self.info[m].op) for m in group.members):
                continue
            originals = self._in_order(m for m in group.members if m < len(self.ops))
            copied = self._in_order(m for m in group.members if m >= len(self.ops))
            # In any order of the members the same to the last digit: ties stay ties.
            apart = math.fsum(self._alone(m).microseconds for m in group.members)
            entry = Found(tuple(originals), tuple(copied))
            found.append((group.microseconds - apart, group.key, entry))
        found.sort(key=lambda item: item[:2])
        return [entry for _, _, entry in found]

    def pairs_refused(self) -> list[Refused]:
        """Ops that no group takes, and the neighbours that stayed apart to the end."""
        found = []
        for (first, last), verdict in self.refused.items():
            if first in self.groups and last in self.groups:
                a, b = self.groups[first], self.groups[last]
                pair = tuple(self._in_order(a.members | b.members))
                found.append((f"{a.key} {b.key}", Refused(pair, verdict)))
        found.sort(key=lambda item: item[0])
        return self.left + [entry for _, entry in found]
