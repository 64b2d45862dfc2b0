"""Search for groups: neighbours are merged pair by pair, the most profitable pair first.

Each op of the block that a pass takes starts as a group of its own. Every edge from a producer to a
user is a candidate, priced by the cost model: time of the two groups less time of the merged one.
The best candidate is taken, if the merged group is legal, and its neighbours are priced again. A
producer with several users is merged with one of them and kept as a result for the others. A
producer that is still alone when no merge is profitable is copied into all of its users, or left,
whichever is modelled cheaper.

Pairs may be refused because of values between them, as booleans or too many results, that a larger
group does not write. When no pair is left, a group is merged at once with all groups that it alone
uses, through one another, where one kernel is planned for them.

Ties are broken by locations, types and scalar ops, not by positions in the block, so that the
result does not depend on the order of the ops in the file.
Source: the priority queue is that of XLA's PriorityFusion.
"""

from __future__ import annotations

import collections
import dataclasses
import heapq
import math
from collections.abc import Callable, Iterable, Mapping

from iree.compiler import ir

from mlirfuse import cost
from mlirfuse.core import GroupRules, NoMatch, Reason
from mlirfuse.pipelines.incremental_toposort import Order
from mlirfuse.pipelines.search_groups import (
    OUTSIDE,
    Group,
    OpInfo,
    Output,
    alone,
    edges,
    merged,
    with_copy,
)
from mlirfuse.structured.ir import fusable_neighbors, legality, ops, slices
from mlirfuse.targets.base import Target

MAX_COPIES = 8
"""Users into which one producer is copied."""


@dataclasses.dataclass(frozen=True, slots=True)
class Constraints:
    """The user's constraints on ops.

    Attributes:
      kept_out: reason why an op joins no group; None for an op that may.
      must_join: names of the groups that an op has to end in.
    """

    kept_out: Callable[[ir.Operation], NoMatch | None]
    must_join: Callable[[ir.Operation], frozenset[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """Ops of two neighbours that were not merged, in block order, and the reason."""

    ops: tuple[ir.Operation, ...]
    verdict: NoMatch


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A group of one or more ops, in block order.

    Attributes:
      ops: the group without copies.
      copied: producers of which the group takes a copy of its own.
    """

    ops: tuple[ir.Operation, ...]
    copied: tuple[ir.Operation, ...] = ()


def search(
    block: ir.Block, rules: GroupRules, target: Target, constraints: Constraints
) -> tuple[list[Found], list[Refused]]:
    """Finds the groups of one block.

    Args:
      block: its ops are not changed.
      rules: which ops may be in a group, and which may be neighbours in it.
      target: prices the groups, and limits them.
      constraints: the user's constraints on ops.

    Returns:
      The groups, the most profitable first, and the pairs that were not merged.
    """
    found = _Search(block, rules, target, constraints)
    found.run()
    return found.groups_found(), found.pairs_refused()


class _Search:
    """State of the search in one block.

    Attributes:
      info: the ops that may be in a group, and copies of them, by index.
      groups: the groups so far, by unit; the unit of an op alone is its index.
      order: units in an order in which users follow producers.
      queue: candidates: gain negated, key for ties, units of producer and user.
      refused: reasons by units of producer and user.
      cones_tried: units that are not merged with all that they alone use.
      not_taken: ops that the rules refuse.
    """

    def __init__(
        self, block: ir.Block, rules: GroupRules, target: Target, constraints: Constraints
    ) -> None:
        self.block = block
        self.rules = rules
        self.target = target
        self.constraints = constraints
        self.ops = [o.operation for o in block.operations]
        self.place = {op: index for index, op in enumerate(self.ops)}
        self.info: dict[int, OpInfo] = {}
        self.groups: dict[int, Group] = {}
        self.order = Order()
        self.not_taken: list[Refused] = []
        self.refused: dict[tuple[int, int], NoMatch] = {}
        self.verdicts: dict[tuple[int, int, ir.Value, bool], NoMatch | None] = {}
        self.cones_tried: set[int] = set()
        self.queue: list[tuple[float, str, int, int]] = []
        self.indices = len(self.ops)
        self.units = len(self.ops)
        for index, op in enumerate(self.ops):
            self.order.add(index, self._producers(op))
            if op.name not in rules.roots or not op.results or ops.in_region(op):
                continue
            taken = rules.takes(op)
            if isinstance(taken, NoMatch):
                self.not_taken.append(Refused((op,), taken))
            elif taken:
                self.info[index] = self._info(index, op)
                self.groups[index] = alone(index, self.info[index], target)

    # --- ops -----------------------------------------------------------------------------------

    def _producers(self, op: ir.Operation) -> set[int]:
        """Indices of the ops of the block that the op, or an op in its regions, reads."""
        return {self.place[owner] for _, owner in ops.operand_producers(op) if owner in self.place}

    def _info(self, index: int, op: ir.Operation) -> OpInfo:
        inputs = {value: cost.num_bytes([value]) for value in slices.operands_of([op])}
        outputs = {
            result: Output(
                cost.num_bytes([result]), len(ops.shape(result)), index, self._users(result)
            )
            for result in op.results
        }
        names = ",".join(ops.scalar_names(op))
        return OpInfo(
            op=op,
            place=index,
            inputs=inputs,
            outputs=outputs,
            computes=cost.computation(op),
            key=f"{ops.location_name(op.location)} {op.results[0].type} {names}",
            kept_out=self.constraints.kept_out(op),
            must_join=self.constraints.must_join(op),
        )

    def _users(self, value: ir.Value) -> frozenset[int]:
        """Indices of the users of the value in the block, `OUTSIDE` for others."""
        found = set()
        for user in ops.users(value):
            outer = user if user in self.place else ops.ancestor_in(self.block, user)
            found.add(OUTSIDE if outer is None else self.place[outer])
        return frozenset(found)

    # --- the search ----------------------------------------------------------------------------

    def run(self) -> None:
        """Takes candidates until none is profitable."""
        for unit in list(self.groups):
            for user in sorted(self.order.after[unit]):
                self._offer(unit, user)
        self._drain()
        while self._merge_cone():
            self._drain()
        while self._copy_best():
            self._drain()

    def _drain(self) -> None:
        while self.queue:
            _, _, first, last = heapq.heappop(self.queue)
            if first in self.groups and last in self.groups:
                self._merge(first, last)

    def _offer(self, first: int, last: int) -> None:
        """Prices the merge of two groups, and queues it when it is profitable."""
        if first not in self.groups or last not in self.groups:
            return
        a, b = self.groups[first], self.groups[last]
        both = merged(a, b, self.target)
        verdict = self._edges_refusal(a, b, both) or self._size_refusal(both)
        if verdict is None:
            gain = a.microseconds + b.microseconds - both.microseconds
            if a.must_join & b.must_join:
                gain = float("inf")
            if gain > 0:
                heapq.heappush(self.queue, (-gain, f"{a.key} {b.key}", first, last))
                return
            verdict = NoMatch(Reason.NOT_PROFITABLE, cost.no_gain(gain))
        self.refused[first, last] = verdict

    def _edges_refusal(self, first: Group, last: Group, both: Group) -> NoMatch | None:
        """Refuses two groups because of the ops at one of the edges between them."""
        for producer, user, value in edges(first, last):
            a, b = self.info[producer], self.info[user]
            verdict = a.kept_out or b.kept_out
            verdict = verdict or self._edge_refusal(producer, user, value, value in both.outputs)
            if verdict is not None:
                return verdict
        return None

    def _edge_refusal(
        self, producer: int, user: int, value: ir.Value, kept: bool
    ) -> NoMatch | None:
        a, b = self.info[producer], self.info[user]
        key = (a.place, b.place, value, kept)
        if key not in self.verdicts:
            self.verdicts[key] = self.rules.joins(a.op, b.op, value, kept)
        return self.verdicts[key]

    def _size_refusal(
        self, group: Group, most: int = fusable_neighbors.MAX_GROUP_OPS
    ) -> NoMatch | None:
        bound = len(group.inputs) + len(group.outputs)
        limit = self.target.max_operands
        if bound > limit:
            text = f"{bound} operands and results, the limit is {limit}"
            return NoMatch(Reason.TOO_MANY_OPERANDS, text)
        if len(group.members) > most:
            return NoMatch(Reason.TOO_MANY_OPS, f"more than {most} ops")
        return None

    def _merge(self, first: int, last: int) -> None:
        both = merged(self.groups[first], self.groups[last], self.target)
        verdict = self._group_refusal(both)
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
        self._add(self.units, both)

    def _add(self, unit: int, group: Group) -> None:
        """Adds a group, and prices its merges with its neighbours."""
        self.groups[unit] = group
        for other in sorted(self.order.after[unit]):
            self._offer(unit, other)
        for other in sorted(self.order.before[unit]):
            self._offer(other, unit)

    def _merge_cone(self) -> bool:
        """Merges the last group that can be merged with all that it alone uses; whether one was."""
        if self.rules.plans is None or not self.target.kernels:
            return False
        for unit in sorted(self.groups, key=self.order.place.__getitem__, reverse=True):
            if unit in self.cones_tried:
                continue
            self.cones_tried.add(unit)
            cone = self._cone(unit)
            both = self._with_cone(unit, cone) if cone else None
            if both is not None:
                self._replace_by(both, unit, cone)
                return True
        return False

    def _cone(self, unit: int) -> list[int]:
        """The groups that one group alone uses, through one another, users before producers.

        Empty for more ops than a kernel may have, and where no merge with a producer was refused.
        """
        if all((producer, unit) not in self.refused for producer in self.order.before[unit]):
            return []
        found, size = {unit: None}, len(self.groups[unit].members)
        work = [unit]
        while work:
            for producer in sorted(self.order.before[work.pop()]):
                if producer in found or producer not in self.groups:
                    continue
                group = self.groups[producer]
                inside = self.order.after[producer] <= found.keys()
                if inside and not any(OUTSIDE in w.users for w in group.outputs.values()):
                    found[producer] = None
                    work.append(producer)
                    size += len(group.members)
                    if size > fusable_neighbors.MAX_KERNEL_OPS:
                        return []
        return list(found)[1:]

    def _with_cone(self, unit: int, cone: list[int]) -> Group | None:
        """The group of a group and its cone; None where it is refused or does not pay."""
        both = self.groups[unit]
        apart = both.microseconds
        for producer in cone:
            first, last = self.groups[producer], both
            apart += first.microseconds
            both = merged(first, last, self.target)
            if self._edges_refusal(first, last, both) is not None:
                return None
        if apart <= both.microseconds:
            return None
        refusal = self._group_refusal(both, fusable_neighbors.MAX_KERNEL_OPS)
        assert self.rules.plans is not None
        planned = refusal or self.rules.plans(self._in_order(both.members), self.target)
        return both if planned is None else None

    def _replace_by(self, both: Group, unit: int, cone: list[int]) -> None:
        """Puts a group in place of one and its cone."""
        del self.groups[unit]
        for producer in cone:
            self.units += 1
            self.order.merge(producer, unit, self.units)
            del self.groups[producer]
            unit = self.units
        self._add(unit, both)

    def _op_of(self, unit: int) -> ir.Operation:
        if unit not in self.groups:
            return self.ops[unit]
        return self.info[min(self.groups[unit].members)].op

    def _group_refusal(
        self, group: Group, most: int = fusable_neighbors.MAX_GROUP_OPS
    ) -> NoMatch | None:
        """Refuses a group that cannot be one dispatch, whatever is around it."""
        verdict = self._size_refusal(group, most)
        if verdict is not None:
            return verdict
        rank = min(w.rank for end in self._ends(group) for w in end.outputs.values())
        for output in group.outputs.values():
            if output.rank > rank:
                name = ops.described(self.info[output.producer].op)
                text = f"{name} has more dimensions than the last result of the group"
                return NoMatch(Reason.EXTRA_USERS, text)
        members = self._in_order(group.members)
        refusal = self._broadcast_refusal(group) or legality.resource_refusal(members, self.target)
        return refusal or self._recomputation_refusal(members) or self.rules.admits(members)

    def _recomputation_refusal(self, members: list[ir.Operation]) -> NoMatch | None:
        """Refuses a group for a CPU that computes exponentials again for a broadcast.

        A CPU takes longer for them than for memory.
        """
        if self.target.cpu is None or not all(map(ops.is_elementwise, members)):
            return None
        again = cost.recomputed(members, self.target.cpu.lanes)
        seconds = again.special / self.target.special_rate
        saved = again.bytes / self.target.bandwidth + 1e-6 * self.target.launch_us
        if seconds <= saved:
            return None
        detail = f"operations of a broadcast value again: {cost.no_gain(saved - seconds)}"
        return NoMatch(Reason.NOT_PROFITABLE, detail)

    def _broadcast_refusal(self, group: Group) -> NoMatch | None:
        """Refuses results of the group that another member reads through a broadcast in between.

        The loops of that member are more than those of the result, so that each of their tiles
        would write it.
        """
        if len(group.outputs) < 2:
            return None
        computes = {value: m for m in group.members for value in self.info[m].outputs}
        results = {self._written(value, computes) for value in group.outputs}
        read = [
            (computes[value], user, value)
            for user in group.members
            for value in self.info[user].inputs
            if value in computes
        ]
        above = collections.defaultdict(list)
        for producer, user, _ in read:
            above[user].append(producer)
        work = [p for p, user, value in read if self._is_broadcast(p, user, value)]
        below = set(work)
        while work:
            for producer in above[work.pop()]:
                if producer not in below:
                    below.add(producer)
                    work.append(producer)
        written = min(below & results, default=None)
        if written is None:
            return None
        name = ops.described(self.info[written].op)
        return NoMatch(Reason.EXTRA_USERS, f"{name} is broadcast and has other users")

    def _written(self, value: ir.Value, computes: Mapping[ir.Value, int]) -> int:
        """The member whose result the group writes for users of the value outside.

        They get a copy of a broadcast or a transpose (`builders.regions`), which reads its operand.
        """
        member = computes[value]
        moved = ops.moved_input(self.info[member].op)
        source = None if moved is None else self.info[member].op.operands[moved]
        return member if source not in computes else self._written(source, computes)

    def _is_broadcast(self, producer: int, user: int, value: ir.Value) -> bool:
        """Whether the user may read the value of its producer only if it is no result."""
        verdict = self._edge_refusal(producer, user, value, True)
        return verdict is not None and verdict.reason is Reason.EXTRA_USERS

    def _ends(self, group: Group) -> list[OpInfo]:
        """The ops without a user in the group."""
        infos = [self.info[member] for member in group.members]
        read = {value for info in infos for value in info.inputs}
        return [info for info in infos if read.isdisjoint(info.outputs)]

    # --- copies --------------------------------------------------------------------------------

    def _copy_best(self) -> bool:
        """Copies the producer that is alone and saves most as copies in its users."""
        best: tuple[float, str, int] | None = None
        for unit, group in self.groups.items():
            gain = self._gain_of_copies(unit, group)
            if gain is not None and gain > 0 and (best is None or (-gain, group.key) < best[:2]):
                best = (-gain, group.key, unit)
        if best is None:
            return False
        self._copy(best[2])
        return True

    def _gain_of_copies(self, unit: int, group: Group) -> float | None:
        """Microseconds that copies of an op in all users save; None when not all can take one."""
        if len(group.members) > 1 or len(group.outputs) != 1:
            return None
        (member,) = group.members
        ((value, output),) = group.outputs.items()
        users = self.order.after[unit]
        if OUTSIDE in output.users or not 1 < len(users) <= MAX_COPIES:
            return None
        if any(user not in self.groups for user in users):
            return None
        gain = group.microseconds
        for user in users:
            taker = self.groups[user]
            info = self.info[member]
            for at in output.users & taker.members:
                verdict = info.kept_out or self.info[at].kept_out
                if verdict or self._edge_refusal(member, at, value, False):
                    return None
            both = with_copy(group, taker, self.target)
            if self._group_refusal(both):
                return None
            gain += taker.microseconds - both.microseconds
        return gain

    def _copy(self, unit: int) -> None:
        group = self.groups.pop(unit)
        (member,) = group.members
        made: dict[int, Group] = {}
        copies = set()
        for user in sorted(self.order.after[unit]):
            index, self.indices = self.indices, self.indices + 1
            self.info[index] = self.info[member]
            copies.add(index)
            own = dataclasses.replace(group, members=frozenset({index}))
            made[user] = with_copy(own, self.groups[user], self.target)
        for producer in self.order.before[unit] & self.groups.keys():
            self._replace_user(producer, member, frozenset(copies))
        self.order.dissolve(unit)
        for user, both in made.items():
            self._add(user, both)

    def _replace_user(self, producer: int, member: int, copies: frozenset[int]) -> None:
        """Puts the copies of an op in place of the op among the users of a producer."""
        group = self.groups[producer]
        outputs = {
            value: dataclasses.replace(output, users=output.users - {member} | copies)
            if member in output.users
            else output
            for value, output in group.outputs.items()
        }
        self.groups[producer] = dataclasses.replace(group, outputs=outputs)

    # --- results -------------------------------------------------------------------------------

    def _in_order(self, members: Iterable[int]) -> list[ir.Operation]:
        return [self.ops[place] for place in sorted({self.info[m].place for m in members})]

    def groups_found(self) -> list[Found]:
        """The groups, the most profitable first, without those that the pass does not need."""
        found = []
        for group in self.groups.values():
            if not any(self.rules.needs(self.info[m].op) for m in group.members):
                continue
            originals = self._in_order(m for m in group.members if m < len(self.ops))
            copied = self._in_order(m for m in group.members if m >= len(self.ops))
            # In any order of the members the same to the last digit: ties stay ties.
            apart = math.fsum(
                alone(m, self.info[m], self.target).microseconds for m in group.members
            )
            entry = Found(tuple(originals), tuple(copied))
            found.append((group.microseconds - apart, group.key, entry))
        found.sort(key=lambda item: item[:2])
        return [entry for _, _, entry in found]

    def pairs_refused(self) -> list[Refused]:
        """Ops that the rules refuse, and the neighbours that were not merged in the end."""
        found = []
        for (first, last), verdict in self.refused.items():
            if first in self.groups and last in self.groups:
                a, b = self.groups[first], self.groups[last]
                pair = tuple(self._in_order(a.members | b.members))
                found.append((f"{a.key} {b.key}", Refused(pair, verdict)))
        found.sort(key=lambda item: item[0])
        return self.not_taken + [entry for _, entry in found]
