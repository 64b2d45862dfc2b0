"""Groups of reductions over the same dimensions and their elementwise neighbors, for a kernel.

A group grows from one reduction: by ops that compute its operands, by ops that read its results,
and by reductions of the same operands. An op is a member when the kernel's analysis takes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.row_reductions import reduces
from mlirfuse.kernels.reduction.analysis import ReductionAnalysis, analyze_ops
from mlirfuse.structured.ir import analysis_cache, fusable_neighbors, ops, slices

MAX_SIBLING_STEPS = 4
"""Elementwise ops between an operand of a group and another reduction of it."""


def is_root(op: ir.Operation) -> bool:
    """Whether an op is a reduction that may be one of a kernel's: no contraction, no window."""
    if not ops.is_generic(op) or not reduces(op) or ops.is_contraction(op):
        return False
    return not fusable_neighbors.has_window(op) and fusable_neighbors.has_indexed_body(op)


def takes(op: ir.Operation | None, block: ir.Block) -> bool:
    """Whether an op may be a member of a group in a block."""
    return op is not None and op.block == block and _may_be_member(op)


@analysis_cache.until_change
def _may_be_member(op: ir.Operation) -> bool:
    if not ops.is_generic(op) or slices.is_clonable(op):
        return False
    if ops.is_elementwise(op):
        has_body = fusable_neighbors.has_gathering_body(op)
        return has_body and not fusable_neighbors.has_window(op)
    return is_root(op)


def is_read_by_reduction_alone(value: ir.Value) -> bool:
    """Whether a reduction that may be one of a kernel's is the only user of a value."""
    users = ops.users(value)
    return len(users) == 1 and users[0].block == value.owner.operation.block and is_root(users[0])


class Growth:
    """A group while it grows.

    Attributes:
      root: the reduction that it grows from.
      members: its ops.
    """

    def __init__(self, root: ir.Operation, max_operands: int) -> None:
        self.root = root
        self.members = [root]
        self._max_operands = max_operands
        self._refused: set[ir.Operation] = set()

    def add_producers(self) -> None:
        """Adds the ops that compute the members' operands and feed nothing else.

        All at once, if the kernel takes them: a part of them may have more operands than all.
        """
        if self._try(self._exclusive(), fusable_neighbors.MAX_KERNEL_OPS):
            return
        while any(self._try([p]) for p in list(self._producers()) if ops.is_elementwise(p)):
            pass

    def add_neighbors(self) -> None:
        """Adds users, with all that they read, sibling reductions, and shared producers."""
        changed = True
        while changed and len(self.members) < fusable_neighbors.MAX_GROUP_OPS:
            changed = False
            for user in list(self._users()):
                changed |= self._try([*self._feeding(user), user]) or self._try([user])
            for chain in list(self._siblings()):
                changed |= self._try(chain)
            for producer in list(self._producers(shared=True)):
                changed |= self._try([*self._feeding(producer), producer]) or self._try([producer])

    def analysis(self) -> ReductionAnalysis | NoMatch | None:
        """The kernel's analysis of the group."""
        return _analysis(self.members)

    def _try(
        self, added: Iterable[ir.Operation], most: int = fusable_neighbors.MAX_GROUP_OPS
    ) -> bool:
        """Adds ops, if the kernel takes the group with them; returns whether it does.

        Args:
          added: the ops.
          most: how many ops the group may have.
        """
        new = [op for op in dict.fromkeys(added) if op not in self.members]
        if not new or any(op in self._refused for op in new):
            return False
        group = slices.in_order([*self.members, *new])
        if slices.cycle(group) is not None:
            return False  # until the ops between them are members
        bound = len(slices.operands_of(group)) + len(slices.results_of(group))
        fits = (
            len(group) <= most
            and bound <= self._max_operands
            and slices.gather_of_member(group) is None
            and isinstance(_analysis(group), ReductionAnalysis)
        )
        if fits:
            self.members = group
        elif len(new) == 1:
            self._refused.update(new)
        return fits

    def _takes(self, op: ir.Operation | None) -> bool:
        if op is None or op in self._refused or op in self.members:
            return False
        return takes(op, self.root.block)

    def _producers(self, *, shared: bool = False) -> Iterator[ir.Operation]:
        """Ops that compute the operands of members.

        Args:
          shared: whether those are among them that have other users, too.
        """
        for value in slices.operands_of(self.members):
            op = ops.defining_op(value)
            if op is None or not self._takes(op) or _is_written_by_contraction(op):
                continue
            inside = all(user in self.members for r in op.results for user in ops.users(r))
            if inside or (shared and (reduces(op) or ops.moved_input(op) is None)):
                yield op

    def _exclusive(self) -> list[ir.Operation]:
        """The elementwise ops that compute operands of members, through one another, alone."""

        def accepts(op: ir.Operation) -> bool:
            return self._takes(op) and ops.is_elementwise(op) and not _is_written_by_contraction(op)

        return slices.exclusive_producers(self.members, accepts)

    def _users(self) -> Iterator[ir.Operation]:
        """Ops that read a reduction of the group, or a value that is computed from one."""
        dependent: set[ir.Operation] = set()
        for op in self.members:
            sources = (ops.defining_op(v) for v in op.operands)
            if reduces(op) or any(source in dependent for source in sources):
                dependent.add(op)
        for op in self.members:
            if op in dependent:
                for result in op.results:
                    yield from (u for u in ops.users(result) if self._joins(u))

    def _joins(self, op: ir.Operation) -> bool:
        """Whether an op may be added that reads the group: none that only transposes it."""
        if not self._takes(op):
            return False
        moved = ops.moved_input(op) if ops.is_elementwise(op) else None
        if moved is None:
            return True
        maps = ops.indexing_maps(op)
        read = maps[moved] or ()
        return [loop for loop in maps[-1] or () if loop in read] == list(read)

    def _feeding(self, user: ir.Operation) -> list[ir.Operation]:
        """The ops that a user reads and the group lacks, as far as they may be members."""
        found: dict[ir.Operation, None] = {}
        work = [user]
        while work and len(found) < fusable_neighbors.MAX_GROUP_OPS:
            for value in work.pop().operands:
                op = ops.defining_op(value)
                if (
                    op is None
                    or op in found
                    or not self._takes(op)
                    or _is_written_by_contraction(op)
                ):
                    continue
                found[op] = None
                work.append(op)
        return [*found]

    def _siblings(self) -> Iterator[list[ir.Operation]]:
        """Reductions of the group's operands, with the elementwise ops on the way to them."""
        for value in slices.operands_of(self.members):
            if len(ops.shape(value)) < len(ops.iterator_types(self.root)):
                continue
            for user in ops.users(value):
                chain: list[ir.Operation] = []
                op: ir.Operation | None = user
                while op is not None and self._takes(op) and len(chain) <= MAX_SIBLING_STEPS:
                    chain.append(op)
                    if reduces(op):
                        yield chain
                        break
                    following = [u for r in op.results for u in ops.users(r)]
                    op = following[0] if len(following) == 1 else None


@analysis_cache.until_change
def _is_written_by_contraction(op: ir.Operation) -> bool:
    """Whether an elementwise op is the epilogue of a contraction or the like.

    An op that waits for a reduction is none: it needs all of the contraction's result. Nor is one
    that widens elements for reductions.
    """
    if not ops.is_elementwise(op) or not fusable_neighbors.is_among_epilogues(op):
        return False
    if fusable_neighbors.is_widened_by_users(op):
        return False
    seen, work = {op}, [op]
    while work and len(seen) < fusable_neighbors.MAX_GROUP_OPS:
        for value in work.pop().operands:
            source = ops.defining_op(value)
            if source is None or source in seen or not takes(source, op.block):
                continue
            if reduces(source):
                return False
            seen.add(source)
            work.append(source)
    return True


def _analysis(group: list[ir.Operation]) -> ReductionAnalysis | NoMatch | None:
    return analyze_ops(group, slices.results_of(group))
