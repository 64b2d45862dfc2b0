"""The dispatches that stock IREE makes of some ops, modelled, and what a group saves against them.

Elementwise ops are fused first: into their one user, or into the first of several users where that
is elementwise in the same iteration space. Then each other op, from the last one up, is the root of
a dispatch: it takes the elementwise ops that read its result in its own iteration space, and those
that only its dispatch reads. Ops around the group are left out of account, except as users.

On a CPU the reductions of its dispatches along rows take the time of their additions one after the
other: IREE keeps their order, where kernels of ours have sums in parallel.

Source: IREE 3.13, `compiler/DispatchCreation`: ElementwiseOpFusion,
FuseMultiUseElementwiseProducer and FormDispatchRegions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from iree.compiler import ir

from mlirfuse import cost
from mlirfuse.cost import Gain, Work
from mlirfuse.structured.ir import analysis_cache, ops, slices
from mlirfuse.structured.ir import fusable_neighbors as neighbors
from mlirfuse.targets import cpu_rates
from mlirfuse.targets.base import Target

_CASTS = frozenset(
    {f"arith.{name}" for name in ("extf", "extsi", "extui", "sitofp", "uitofp")} | {"linalg.yield"}
)
"""Bodies of the ops that IREE computes again in each contraction that reads them."""


def gain(group: list[ir.Operation], target: Target) -> Gain:
    """The modelled gain of the group as one dispatch over stock IREE's dispatches of its ops."""
    members = list(_members(group))
    late = sum(map(ordered_additions, members)) * _addition_us(target)
    found = _Dispatches(members).works() if late or len(members) > 1 else []
    if len(found) < 2 and not late:
        return Gain(0, 0.0)
    together = cost.work(group)
    before = sum(made.microseconds(target) for made in found) + late
    saved = sum(made.bytes for made in found) - together.bytes
    return Gain(max(0, saved), before - together.microseconds(target))


def dispatches(group: Iterable[ir.Operation]) -> list[Work]:
    """The work of each dispatch that stock IREE makes of the ops."""
    return _Dispatches(list(_members(group))).works()


@analysis_cache.per_op
def ordered_additions(op: ir.Operation) -> int:
    """Number of additions, maxima and the like that IREE's code for CPUs makes in their order.

    Those of a reduction of floats over the innermost dimension of an operand: its iterations, each
    of which waits for the one before. Results of one op are independent of each other. A softmax
    has two such reductions.
    """
    if op.name == "linalg.softmax":
        last = len(ops.shape(op.results[0])) - 1
        along_rows = ir.IntegerAttr(op.attributes["dimension"]).value == last
        return 2 * ops.num_elements(op.results[0], ops.ASSUMED_DYNAMIC_SIZE) if along_rows else 0
    if not ops.is_generic(op) or ops.is_contraction(op) or neighbors.has_window(op):
        return 0
    kinds = ops.iterator_types(op)
    floats = all(ops.element_type(v) in _FLOATS for v in op.results)
    reads = ops.indexing_maps(op)[: -len(op.results)]
    along_rows = any(m and m[-1] is not None and kinds[m[-1]] == "reduction" for m in reads)
    if not floats or not along_rows:
        return 0
    return math.prod(size or ops.ASSUMED_DYNAMIC_SIZE for size in ops.loop_sizes(op))


_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})


def _addition_us(target: Target) -> float:
    """Microseconds of one of `ordered_additions`; 0 where kernels of ours are no faster."""
    if target.cpu is None or not target.vector_kernels:
        return 0.0
    lanes = min(target.cpu.lanes, cpu_rates.MAX_CHAIN_LANES)
    # The rate of elementwise chains counts two operations in each lane.
    return 1e6 * 2 * lanes / target.vector_rate


def _members(group: Iterable[ir.Operation]) -> Iterator[ir.Operation]:
    """The ops that compute, those of dispatch regions too, each once."""
    for op in dict.fromkeys(group):
        if op.name == ops.REGION:
            yield from _members(view.operation for view in op.regions[0].blocks[0].operations)
        elif op.name != ops.RETURN and cost.does_work(op):
            yield op


def _source(value: ir.Value) -> tuple[ir.Value, ir.Operation | None]:
    """The value before reshapes and dispatch regions, and the op that defines it."""
    op = ops.defining_op(value)
    while op is not None and (op.name in ops.RESHAPES or op.name == ops.REGION):
        value = op.operands[0] if op.name in ops.RESHAPES else ops.yielded_value(value)
        op = ops.defining_op(value)
    return value, op


def _readers(value: ir.Value) -> Iterator[ir.Operation]:
    """The ops that read a value, behind reshapes and dispatch regions, each once."""
    seen: dict[ir.Operation, None] = {}
    work = [value]
    while work:
        current = work.pop()
        for user in ops.users(current):
            if user.name in ops.RESHAPES:
                work.append(user.results[0])
            elif user.name == ops.RETURN and user.parent is not None:
                place = list(user.operands).index(current)
                work.append(user.parent.operation.results[place])
            else:
                seen[user] = None
    return iter(seen)


class _Dispatches:
    """Sets of ops, one for each dispatch.

    Attributes:
      members: the ops.
      parent: op -> another op of its dispatch; the representative is its own.
      edges: producer, user and the operand of the user, for each pair among the ops.
      rooted: representatives of the dispatches that have a root.
    """

    def __init__(self, members: list[ir.Operation]) -> None:
        self.members = members
        self.parent = {op: op for op in members}
        self.edges = list(self._edges())
        for producer, user, value in self.edges:
            if ops.is_elementwise(producer) and _fuses_elementwise(producer, user, value):
                self._join(producer, user)
        roots = [op for op in members if not ops.is_elementwise(op)]
        self.rooted = {self._of(op) for op in roots}
        for root in reversed(roots):
            self._form(root)

    def _form(self, root: ir.Operation) -> None:
        """Adds to the dispatch of a root the ops that read it, then those that only it reads."""
        for producer, user, value in self.edges:
            free = self._of(user) not in self.rooted
            if free and self._of(producer) is self._of(root) and _takes(producer, user, value):
                self._join(user, root)
        for producer, user, value in reversed(self.edges):
            free = self._of(producer) not in self.rooted
            inside = self._of(user) is self._of(root)
            if free and inside and self._only_read_in(producer, user, value):
                self._join(producer, root)

    def _only_read_in(self, producer: ir.Operation, user: ir.Operation, value: ir.Value) -> bool:
        """Whether an elementwise op is read by one dispatch alone, in its own iteration space."""
        if ops.is_contraction(user) or neighbors.has_window(user) or not ops.is_generic(user):
            return False
        dispatch = self._of(user)
        return _in_space(user, value) and all(
            reader in self.parent and self._of(reader) is dispatch
            for result in producer.results
            for reader in _readers(result)
        )

    def works(self) -> list[Work]:
        """The work of each dispatch."""
        parts: dict[ir.Operation, list[ir.Operation]] = {}
        for op in self.members:
            parts.setdefault(self._of(op), []).append(op)
        return [
            cost.combined(map(cost.computation, part), self._traffic(part))
            for part in parts.values()
        ]

    def _edges(self) -> Iterator[tuple[ir.Operation, ir.Operation, ir.Value]]:
        """Producer, user and the operand of the user, for each pair among the ops."""
        for user in self.members:
            for value in dict.fromkeys(user.operands):
                _, producer = _source(value)
                if producer is not None and producer in self.parent:
                    yield producer, user, value

    def _traffic(self, part: list[ir.Operation]) -> int:
        inside = set(part)
        read = {
            source
            for op in part
            for source, producer in map(_source, slices.operands_of([op]))
            if producer is None or not (producer in inside or slices.is_clonable(producer))
        }
        written = [
            value for op in part for value in op.results if not inside.issuperset(_readers(value))
        ]
        return cost.num_bytes([*read, *written])

    def _of(self, op: ir.Operation) -> ir.Operation:
        while self.parent[op] is not op:
            op = self.parent[op]
        return op

    def _join(self, op: ir.Operation, other: ir.Operation) -> None:
        first, second = self._of(op), self._of(other)
        if first is not second:
            self.parent[first] = second


def _fuses_elementwise(producer: ir.Operation, user: ir.Operation, value: ir.Value) -> bool:
    """Whether an elementwise op is computed where it is read."""
    if not ops.is_generic(user):
        return False
    if ops.is_contraction(user) or neighbors.has_window(user):
        return set(ops.scalar_names(producer)) <= _CASTS and _is_only_reader(producer, user)
    if not neighbors.nests(ops.shape(_source(value)[0]), ops.shape(value)):
        return False
    if _is_only_reader(producer, user):
        return True
    elementwise = ops.is_elementwise(user) and _in_space(user, value)
    return elementwise and _is_first_reader(producer, user)


def _in_space(user: ir.Operation, value: ir.Value) -> bool:
    """Whether the op reads the value at the indices of its own loops."""
    return neighbors.is_identity(neighbors.read_map(user, value), len(ops.iterator_types(user)))


def _takes(producer: ir.Operation, user: ir.Operation, value: ir.Value) -> bool:
    """Whether a root's dispatch computes an elementwise op that reads its result.

    The op has the root's parallel loops, or all loops of a reduction, whose result it broadcasts.
    """
    if not producer.name.startswith("linalg.") and not producer.name.endswith(".attention"):
        return False
    read = neighbors.read_map(user, value)
    loops = len(ops.iterator_types(user))
    if read is None or not neighbors.is_identity(read, len(read)):
        return False
    if len(read) < loops and ops.loop_sizes(producer) != ops.loop_sizes(user):
        return False
    same_space = neighbors.nests(ops.shape(_source(value)[0]), ops.shape(value))
    return same_space and _is_first_reader(producer, user)


def _is_only_reader(producer: ir.Operation, user: ir.Operation) -> bool:
    return {reader for value in producer.results for reader in _readers(value)} == {user}


def _is_first_reader(producer: ir.Operation, user: ir.Operation) -> bool:
    """Whether no other reader comes before the user, which would need the value first."""
    readers = {reader for value in producer.results for reader in _readers(value)}
    return all(
        reader == user or reader.block != user.block or user.is_before_in_block(reader)
        for reader in readers
    )
