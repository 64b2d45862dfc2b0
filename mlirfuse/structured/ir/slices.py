"""Slices of the use-def graph that can become one dispatch region, and whether they may."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import analysis_cache, ops


def in_order(group: Iterable[ir.Operation]) -> list[ir.Operation]:
    """The ops sorted by their position in the block."""
    return sorted(group, key=functools.cmp_to_key(_compare_positions))


def _compare_positions(a: ir.Operation, b: ir.Operation) -> int:
    return 0 if a == b else -1 if a.is_before_in_block(b) else 1


def is_clonable(op: ir.Operation) -> bool:
    """Whether IREE clones the op into a dispatch: an empty tensor, or a fill with a constant."""
    return op.name == "tensor.empty" or (
        op.name == "linalg.fill" and ops.constant(op.results[0]) is not None
    )


def backward_slice(root: ir.Operation, stops: frozenset[ir.Value]) -> list[ir.Operation]:
    """The pure ops of the root's block that compute it, up to `stops` and to clonable ops.

    The root is last. The walk ends at contractions and at ops that are neither generics nor
    reshapes.
    """
    group: dict[ir.Operation, None] = {root: None}
    work = [root]
    while work:
        for value in work.pop().operands:
            op = ops.defining_op(value)
            if value in stops or op is None or op in group or op.block != root.block:
                continue
            if is_clonable(op) or not (ops.is_generic(op) or op.name in ops.RESHAPES):
                continue
            if ops.is_contraction(op):
                continue
            group[op] = None
            work.append(op)
    return in_order(group)


def operands_of(group: list[ir.Operation]) -> list[ir.Value]:
    """The outside tensors that the group reads, each once; clonable ops do not count."""
    members = set(group)
    seen = dict.fromkeys(
        value for op in group for value, owner in _tensors_of(op) if owner not in members
    )
    return list(seen)


@analysis_cache.per_op
def _tensors_of(op: ir.Operation) -> tuple[tuple[ir.Value, ir.Operation | None], ...]:
    """The tensors that the op reads, each with the op that defines it, clonable ops left out."""
    return tuple(
        (value, owner)
        for value, owner in ops.operand_producers(op)
        if ops.ranked(value) is not None and (owner is None or not is_clonable(owner))
    )


def results_of(group: list[ir.Operation]) -> list[ir.Value]:
    """The values of the group that have outside users."""
    members, block = set(group), group[0].block
    return [r for op in group for r in op.results if _is_read_outside(r, members, block)]


def _is_read_outside(value: ir.Value, members: set[ir.Operation], block: ir.Block) -> bool:
    """Whether the value has a user that is no member and inside no member."""
    for use in value.uses:
        user = use.owner.operation
        if user not in members and ops.ancestor_in(block, user) not in members:
            return True
    return False


def check(
    group: list[ir.Operation],
    max_operands: int,
    *,
    any_result: bool = False,
    on_demand: bool = False,
) -> NoMatch | None:
    """Whether the ops may become one dispatch region: one block, no cycle, few operands.

    Args:
      group: the ops, in block order.
      max_operands: operands and results that a dispatch may have.
      any_result: whether results may have more dimensions than that of the last op.
      on_demand: whether they are for a kernel that computes a member again at the indices at which
        a gather of the group reads it.
    """
    block = group[0].block
    if any(op.block != block for op in group):
        return NoMatch(Reason.DIFFERENT_BLOCKS)
    for op in group:
        if ops.in_region(op):
            return NoMatch(Reason.ALREADY_GROUPED, ops.described(op))
        if not ops.is_pure(op):
            return NoMatch(Reason.SIDE_EFFECTS, ops.described(op))
    bound = len(operands_of(group)) + len(results_of(group))
    if bound > max_operands:
        return NoMatch(
            Reason.TOO_MANY_OPERANDS, f"{bound} operands and results, the limit is {max_operands}"
        )
    wide = None if any_result else wider_result(group)
    if wide is not None:
        name = ops.described(wide)
        return NoMatch(
            Reason.EXTRA_USERS, f"{name} is larger than the result of the group's last op"
        )
    gather = None if on_demand else gather_of_member(group)
    if gather is not None:
        name = ops.described(gather)
        return NoMatch(Reason.INDEXING_MAP, f"{name} reads the group at computed indices")
    blocker = cycle(group)
    if blocker is not None:
        name = ops.described(blocker)
        return NoMatch(Reason.WOULD_CYCLE, f"{name} reads the group and feeds it")
    moved = [op for op in late_producers(group) if not ops.is_pure(op)]
    if moved:
        return NoMatch(Reason.SIDE_EFFECTS, ops.described(moved[0]))
    return None


def wider_result(group: list[ir.Operation]) -> ir.Operation | None:
    """An op before the last with outside users and a result of higher rank than the last op's.

    IREE distributes a dispatch by its last op: a value with dimensions that this op lacks is
    computed more than once and cannot be written.
    """
    members, block = set(group), group[0].block
    rank = max(len(ops.shape(r)) for r in group[-1].results)
    for op in group[:-1]:
        for result in op.results:
            wider = len(ops.shape(result)) > rank
            if wider and _is_read_outside(result, members, block):
                return op
    return None


def gather_of_member(group: list[ir.Operation]) -> ir.Operation | None:
    """An op of the group whose body extracts elements of a tensor that the group computes.

    A dispatch computes its ops tile by tile: a GPU's workgroup has no elements of other tiles. IREE
    composes the indices with a member that only moves data.
    """
    members = set(group)
    for op in group:
        for value in extracted_tensors(op):
            source = ops.defining_op(ops.strip_views(value, ops.RESHAPES))
            if source in members and not ops.is_projection(source):
                return op
    return None


@analysis_cache.per_op
def extracted_tensors(op: ir.Operation) -> frozenset[ir.Value]:
    """The tensors that the op's body reads at computed indices."""
    inner = ops.nested_ops(op) if ops.is_generic(op) else ()
    return frozenset(o.operands[0] for o in inner if o.name == "tensor.extract")


def cycle(group: list[ir.Operation]) -> ir.Operation | None:
    """An op outside the group that depends on the group and that the group depends on, if any."""
    members, last = set(group), group[-1]
    block = last.block
    reached: set[ir.Operation] = set()
    work = [r for op in group for r in op.results]
    while work:
        for user in ops.users(work.pop()):
            outer = ops.ancestor_in(block, user)
            if outer is None or outer in members or outer in reached:
                continue
            if not outer.is_before_in_block(last):
                continue
            reached.add(outer)
            work += list(outer.results)
    for op in group if reached else ():
        for _, owner in ops.operand_producers(op):
            if owner in reached:
                return owner
    return None


def first_user(
    values: Iterable[ir.Value], members: Container[ir.Operation], block: ir.Block
) -> ir.Operation | None:
    """The first op of the block that uses one of the values, itself or in a body, and is no member.

    Args:
      values: results of ops in the block.
      members: ops whose uses do not count.
      block: the block.
    """
    first: ir.Operation | None = None
    for value in values:
        for user in ops.users(value):
            outer = ops.ancestor_in(block, user)
            if outer is None or outer in members:
                continue
            if first is None or outer.is_before_in_block(first):
                first = outer
    return first


def insertion_point(group: list[ir.Operation]) -> ir.Operation:
    """The op where the region has to be inserted: its first outside user, or its last op."""
    results = (result for op in group for result in op.results)
    user, last = first_user(results, set(group), group[-1].block), group[-1]
    return user if user is not None and user.is_before_in_block(last) else last


def late_producers(group: list[ir.Operation]) -> list[ir.Operation]:
    """Outside producers that come after the group's first outside user, in block order."""
    point, members = insertion_point(group), set(group)
    if point == group[-1]:
        return []
    late: dict[ir.Operation, None] = {}
    work = list(group)
    while work:
        for _, owner in ops.operand_producers(work.pop()):
            if owner is None or owner.block != point.block or owner in members or owner in late:
                continue
            if point == owner or point.is_before_in_block(owner):
                late[owner] = None
                work.append(owner)
    return in_order(late)


def exclusive_producers(
    users: Iterable[ir.Operation],
    accepts: Callable[[ir.Operation], bool],
    members: Container[ir.Operation] = (),
    block: ir.Block | None = None,
) -> list[ir.Operation]:
    """The producers of the ops' operands that have no users but them, each other and `members`.

    Args:
      users: ops of one block.
      accepts: whether a producer of the block, with one result, may be one of them.
      members: further ops that may use them.
      block: the block of the producers; None for that of the users.

    Returns:
      The producers in block order, without the users.
    """
    roots = list(users)
    own = set(roots)
    if block is None and roots:
        block = roots[0].block
    found: set[ir.Operation] = set()
    work = list(roots)
    while work:
        for value in work.pop().operands:
            op = ops.defining_op(value)
            if op is None or op in found or op in own or op in members:
                continue
            if op.block != block or len(op.results) != 1 or not accepts(op):
                continue
            if all(u in found or u in own or u in members for u in ops.users(value)):
                found.add(op)
                work.append(op)
    return in_order(found)


def changed_by(group: Iterable[ir.Operation]) -> list[ir.Operation]:
    """The ops that change when a rewrite replaces these: they and their users.

    For a user in a nested block these include each op around it, up to the block. Users of a
    reshape among the users count too, since a rewrite may fold a reshape with its inverse.
    """
    found: dict[ir.Operation, None] = {}
    work = list(group)
    for op in work:
        if op in found:
            continue
        found[op] = None
        if op.name == ops.REGION:
            found.update(dict.fromkeys(ops.nested_ops(op)))
    for op in work:
        for result in op.results:
            for user in ops.users(result):
                if user.name in ops.RESHAPES and user not in found:
                    work.append(user)
                outer: ir.Operation | None = user
                while outer is not None and outer not in found and outer.block != op.block:
                    found[outer] = None
                    outer = None if outer.parent is None else outer.parent.operation
                if outer is not None:
                    found[outer] = None
    return list(found)


def remove_dead(block: ir.Block) -> list[ir.Operation]:
    """Erases the pure ops of the block without users; returns the remaining ops, in order."""
    left = []
    for op in reversed([o.operation for o in block.operations]):
        results = op.results
        read = not results or any(next(iter(r.uses), None) is not None for r in results)
        if not read and ops.is_pure(op):
            analysis_cache.invalidate([op, *ops.nested_ops(op)] if op.name == ops.REGION else [op])
            op.erase()
        else:
            left.append(op)
    left.reverse()
    return left
