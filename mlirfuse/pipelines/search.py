"""Search for groups: pairs of neighbours are joined, the most profitable first.

Each op of the block that a pass takes starts as a group of its own. Every edge from a producer to a
reader is a candidate, priced by the cost model: time of the two groups less time of the joined one.
The best candidate is taken, if the joined group may be made, and its neighbours are priced again.
A producer with several readers competes in three ways: joined with one reader and kept as a result
for the others; copied into all of its readers; left alone. What is modelled cheapest comes first.

Ties are broken by what the ops are and not by where they stand, so that the result does not depend
on the order of the ops in the file.
Source: the priority queue is that of XLA's PriorityFusion.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Iterable, Iterator

from iree.compiler import ir

from mlirfuse import cost
from mlirfuse.core import GroupRules, NoMatch, Reason
from mlirfuse.structured import ops, regions
from mlirfuse.targets.base import Target

OUTSIDE = -1
"""Index of a reader that is no op of the block."""


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


@dataclasses.dataclass(slots=True)
class _Op:
    """What the search knows of one op.

    Attributes:
      op: the op; of a copy the original.
      place: its index in the block.
      reads: tensors that it reads, with their bytes.
      writes: its results, with their bytes, rank and the indices of their readers.
      computes: its work without bytes.
      key: what it is, for ties.
    """

    op: ir.Operation
    place: int
    reads: dict[ir.Value, int]
    writes: dict[ir.Value, tuple[int, int, frozenset[int]]]
    computes: cost.Work
    key: str


@dataclasses.dataclass(slots=True)
class _Group:
    """Ops that are one dispatch, by index, and its modelled time."""

    members: frozenset[int]
    reads: frozenset[ir.Value]
    microseconds: float
    key: str


def search(
    block: ir.Block,
    rules: GroupRules,
    target: Target,
    kept_out: Callable[[ir.Operation], NoMatch | None],
) -> tuple[list[Found], list[Refused]]:
    """Finds the groups of one block.

    Args:
      block: its ops are not changed.
      rules: which ops may be in a group, and which may be neighbours in it.
      target: prices the groups, and limits them.
      kept_out: why the user keeps an op out of groups; None for one that may join.

    Returns:
      The groups, the most profitable first, and the pairs that stayed apart.
    """
    found = _Search(block, rules, target, kept_out)
    found.run()
    return found.groups_found(), found.pairs_refused()


class _Search:
    def __init__(
        self,
        block: ir.Block,
        rules: GroupRules,
        target: Target,
        kept_out: Callable[[ir.Operation], NoMatch | None],
    ) -> None:
        self.block = block
        self.rules = rules
        self.target = target
        self.kept_out = kept_out
        self.ops = [o.operation for o in block.operations]
        self.place = {op: index for index, op in enumerate(self.ops)}
        self.following: dict[int, frozenset[int]] = {}
        self.info: dict[int, _Op] = {}
        self.copies: dict[int, list[int]] = {}
        self.owner: dict[int, int] = {}
        self.groups: dict[int, _Group] = {}
        self.left: list[Refused] = []
        self.refused: dict[tuple[int, int], NoMatch] = {}
        self.queue: list[tuple[float, str, int, int]] = []
        self.last = 0
        for index, op in enumerate(self.ops):
            if op.name not in rules.roots or ops.in_region(op):
                continue
            taken = rules.takes(op)
            if isinstance(taken, NoMatch):
                self.left.append(Refused((op,), taken))
            elif taken:
                self.info[index] = self._facts(index, op)
                self._renew(frozenset({index}))

    # --- facts ---------------------------------------------------------------------------------

    def _facts(self, index: int, op: ir.Operation) -> _Op:
        reads = {
            value: cost.num_bytes([value])
            for value in ops.external_operands(op)
            if ops.ranked(value) is not None and not cost.is_cheap_value(value)
        }
        writes = {
            result: (cost.num_bytes([result]), len(ops.shape(result)), self._readers(result))
            for result in op.results
        }
        names = ",".join(o.operation.name for o in ops.body(op).operations)
        key = f"{ops.location_name(op.location)} {op.results[0].type} {names}"
        return _Op(op, index, reads, writes, cost.computation(op), key)

    def _readers(self, value: ir.Value) -> frozenset[int]:
        """The ops of the block that read the value, `OUTSIDE` for others."""
        found = set()
        for user in ops.users(value):
            outer = user if user in self.place else ops.ancestor_in(self.block, user)
            found.add(OUTSIDE if outer is None else self.place[outer])
        return frozenset(found)

    def _readers_of(self, index: int) -> frozenset[int]:
        """The ops of the block that read the op; of a copied one the copies."""
        if index not in self.following:
            if index in self.info:
                readers = [r for _, _, r in self.info[index].writes.values()]
            else:
                readers = [self._readers(result) for result in self.ops[index].results]
            self.following[index] = frozenset[int]().union(*readers) - {OUTSIDE}
        return frozenset(copy for r in self.following[index] for copy in self.copies.get(r, (r,)))

    # --- groups --------------------------------------------------------------------------------

    def _renew(self, members: frozenset[int]) -> int:
        """Makes the members a group of their own, in place of those that they were in."""
        for member in members:
            self.groups.pop(self.owner.get(member, OUTSIDE), None)
        self.last += 1
        self.groups[self.last] = self._priced(members)
        for member in members:
            self.owner[member] = self.last
        return self.last

    def _priced(self, members: frozenset[int]) -> _Group:
        infos = [self.info[m] for m in members]
        produced = {value for i in infos for value in i.writes}
        reads = {v: size for i in infos for v, size in i.reads.items() if v not in produced}
        traffic = sum(reads.values()) + sum(size for size, _, _ in self._written(members))
        work = cost.combined([i.computes for i in infos], traffic)
        key = min(i.key for i in infos)
        return _Group(members, frozenset(reads), work.microseconds(self.target), key)

    def _written(self, members: frozenset[int]) -> Iterator[tuple[int, int, int]]:
        """Bytes, rank and op of each value of the group that others read."""
        for member in members:
            for size, rank, readers in self.info[member].writes.values():
                if not readers <= members:
                    yield size, rank, member

    def _edges(self, producer: int, reader: int) -> Iterator[tuple[_Op, _Op, ir.Value]]:
        """Each way in which a group reads a value of the other."""
        readers = self.groups[reader].members
        for member in self.groups[producer].members:
            info = self.info[member]
            for value, (_, _, users) in info.writes.items():
                for user in users & readers:
                    yield info, self.info[user], value

    def _around(self, number: int) -> tuple[set[int], set[int]]:
        """The groups that the group reads, and those that read it."""
        members = self.groups[number].members
        after = {self.owner[r] for m in members for r in self._readers_of(m) if r in self.owner}
        before = set()
        for value in self.groups[number].reads:
            op = ops.defining_op(value)
            index = OUTSIDE if op is None else self.place.get(op, OUTSIDE)
            if index in self.owner:
                before.add(self.owner[index])
        return before - {number}, after - {number}

    # --- the search ----------------------------------------------------------------------------

    def run(self) -> None:
        """Takes candidates until none pays."""
        for number in list(self.groups):
            for reader in self._around(number)[1]:
                self._offer(number, reader)
            self._offer_copies(number)
        while self.queue:
            _, _, producer, reader = heapq.heappop(self.queue)
            if producer not in self.groups:
                continue
            if reader == OUTSIDE:
                self._copy(producer)
            elif reader in self.groups:
                self._join(producer, reader)

    def _offer(self, producer: int, reader: int) -> None:
        """Prices the join of two groups, and queues it when it would pay."""
        verdict = self._parts(producer, reader)
        if verdict is None:
            a, b = self.groups[producer], self.groups[reader]
            joined = self._priced(a.members | b.members)
            gain = a.microseconds + b.microseconds - joined.microseconds
            if gain > 0:
                heapq.heappush(self.queue, (-gain, f"{a.key} {b.key}", producer, reader))
                return
            verdict = NoMatch(Reason.NOT_PROFITABLE, f"{-gain:.2f} us slower in the model")
        self.refused[producer, reader] = verdict

    def _parts(self, producer: int, reader: int, *, copied: bool = False) -> NoMatch | None:
        """Why an edge between the groups keeps them apart; None when none does."""
        members = self.groups[producer].members | self.groups[reader].members
        for first, second, value in self._edges(producer, reader):
            verdict = self.kept_out(first.op) or self.kept_out(second.op)
            kept = not copied and not first.writes[value][2] <= members
            verdict = verdict or self.rules.joins(first.op, second.op, value, kept)
            if verdict is not None:
                return verdict
        return None

    def _join(self, producer: int, reader: int) -> None:
        members = self.groups[producer].members | self.groups[reader].members
        verdict = self._forbids(members)
        if verdict is not None:
            self.refused[producer, reader] = verdict
            return
        self._settle(self._renew(members))

    def _settle(self, number: int) -> None:
        """Offers a new group to its neighbours."""
        before, after = self._around(number)
        for other in sorted(after):
            self._offer(number, other)
        for other in sorted(before):
            self._offer(other, number)
            self._offer_copies(other)

    def _forbids(self, members: frozenset[int]) -> NoMatch | None:
        """Why the ops cannot be one dispatch; None when they can."""
        group = self._in_order(members)
        written = list(self._written(members))
        bound = len(self._priced(members).reads) + len(written)
        if bound > self.target.max_operands:
            return NoMatch(
                Reason.TOO_MANY_OPERANDS,
                f"{bound} operands and results, the limit is {self.target.max_operands}",
            )
        end = max(members, key=lambda m: self.info[m].place)
        rank = max(r for _, r, _ in self.info[end].writes.values())
        for _, wide, member in written:
            if wide > rank:
                name = self.info[member].op.name
                return NoMatch(Reason.EXTRA_USERS, f"{name} is larger than what the group ends in")
        blocker = self._cycle(members)
        if blocker is not None:
            return NoMatch(Reason.WOULD_CYCLE, f"{blocker.name} reads the group and feeds it")
        refusal = regions.stack_refusal(group, self.target.stack_limit)
        return refusal or self.rules.admits(group)

    def _cycle(self, members: frozenset[int]) -> ir.Operation | None:
        """An op outside that depends on the members and that they depend on, if there is one."""
        waiting = [r for m in members for r in self._readers_of(m) if r not in members]
        seen: set[int] = set()
        while waiting:
            index = waiting.pop()
            if index in seen:
                continue
            number = self.owner.get(index)
            together = {index} if number is None else self.groups[number].members
            seen |= together
            for member in together:
                readers = self._readers_of(member)
                if readers & members:
                    return self.ops[member] if member < len(self.ops) else self.info[member].op
                waiting += readers - seen
        return None

    # --- copies --------------------------------------------------------------------------------

    def _offer_copies(self, number: int) -> None:
        """Prices a copy of a lone producer in each of its readers, and queues it."""
        split = self._split(number)
        if split is None:
            return
        gain = self.groups[number].microseconds
        for reader, copy in split.items():
            index = self._next()
            self.info[index] = copy
            gain += self.groups[reader].microseconds
            gain -= self._priced(self.groups[reader].members | {index}).microseconds
            del self.info[index]
        if gain > 0:
            heapq.heappush(self.queue, (-gain, self.groups[number].key, number, OUTSIDE))

    def _next(self) -> int:
        return len(self.ops) + sum(map(len, self.copies.values()))

    def _split(self, number: int) -> dict[int, _Op] | None:
        """A copy of a lone op for each group that reads it; None when not all can take one."""
        if len(self.groups[number].members) > 1:
            return None
        (member,) = self.groups[number].members
        info = self.info[member]
        if len(info.writes) != 1 or member >= len(self.ops):
            return None
        ((value, (size, rank, users)),) = info.writes.items()
        if not users <= self.owner.keys():
            return None
        readers = {self.owner[user] for user in users}
        if len(readers) < 2 or any(
            self._parts(number, r, copied=True) is not None for r in readers
        ):
            return None
        return {
            reader: dataclasses.replace(
                info, writes={value: (size, rank, users & self.groups[reader].members)}
            )
            for reader in sorted(readers)
        }

    def _copy(self, number: int) -> None:
        split = self._split(number)
        if split is None:
            return
        (member,) = self.groups[number].members
        made: dict[int, int] = {}
        for reader, copy in split.items():
            index = self._next() + len(made)
            self.info[index] = copy
            made[reader] = index
        forbidden = [self._forbids(self.groups[r].members | {i}) for r, i in made.items()]
        if any(forbidden):
            for index in made.values():
                del self.info[index]
            return
        del self.groups[number], self.owner[member], self.info[member]
        self.following.setdefault(member, frozenset())
        self.copies[member] = list(made.values())
        for reader, index in made.items():
            self._settle(self._renew(self.groups[reader].members | {index}))

    # --- answers -------------------------------------------------------------------------------

    def _in_order(self, members: Iterable[int]) -> list[ir.Operation]:
        found = sorted({self.info[m].place for m in members})
        return [self.ops[place] for place in found]

    def groups_found(self) -> list[Found]:
        """The groups, the most profitable first; those that the pass is not for are left out."""
        found = []
        for group in self.groups.values():
            if not any(self.rules.needs(self.info[m].op) for m in group.members):
                continue
            originals = [m for m in group.members if m < len(self.ops)]
            copied = [m for m in group.members if m >= len(self.ops)]
            apart = sum(self._priced(frozenset({m})).microseconds for m in group.members)
            entry = Found(tuple(self._in_order(originals)), tuple(self._in_order(copied)))
            found.append((group.microseconds - apart, group.key, entry))
        found.sort(key=lambda item: item[:2])
        return [entry for _, _, entry in found]

    def pairs_refused(self) -> list[Refused]:
        """Ops that no group takes, and the neighbours that stayed apart to the end."""
        found = []
        for (producer, reader), verdict in self.refused.items():
            if producer in self.groups and reader in self.groups:
                members = self.groups[producer].members | self.groups[reader].members
                key = f"{self.groups[producer].key} {self.groups[reader].key}"
                found.append((key, Refused(tuple(self._in_order(members)), verdict)))
        found.sort(key=lambda item: item[0])
        return self.left + [entry for _, entry in found]
