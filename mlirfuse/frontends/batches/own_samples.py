"""Samples that are read by their own number, as `x[i, index]` for each sample `i`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from iree.compiler import ir

from mlirfuse.frontends.batches.states import Access, Dependent, State
from mlirfuse.structured.expr.predicates import SLT
from mlirfuse.structured.ir import ops


def own_samples(
    op: ir.Operation,
    maps: Sequence[Access],
    states: Sequence[State],
    state_of: Callable[[ir.Value], State],
) -> dict[object, int]:
    """The loops whose index is the number of a sample that the body of an op reads.

    Args:
      op: a structured op.
      maps: the indices of its operands.
      states: its operands.
      state_of: the state of any tensor.

    Returns:
      Operand, or op of the body, that is that index -> the loop.

    Raises:
      Dependent: the body reads samples by other numbers.
    """
    chosen: dict[object, int] = {}
    if not len(op.regions):
        return chosen
    block = op.regions[0].blocks[0]
    arguments = {argument: n for n, argument in enumerate(block.arguments)}
    operands = list(op.operands)
    for value in ops.external_operands(op):
        state = state_of(value)
        if value in operands or state.axis is None:
            continue
        for user in ops.users(value):
            inside = ops.ancestor_in(block, user)
            if inside is None:
                continue
            if inside != user or user.name != "tensor.extract" or state.rows != 1:
                raise Dependent("elements of samples by computed indices")
            source = _index_source(user.operands[1 + state.axis])
            number = arguments.get(source)
            if number is not None:
                position = states[number].counted
                loop = None if position is None else maps[number][position][0]
                key: object = number
            else:
                inner = ops.defining_op(source)
                is_index = inner is not None and inner.name == "linalg.index"
                loop = int(inner.attributes["dim"].value) if is_index and inner else None
                key = inner
            if loop is None or not _only_chooses(source, state.axis, state_of):
                raise Dependent("elements of samples by computed indices")
            chosen[key] = loop
    return chosen


def read_indices(op: ir.Operation, chosen: Mapping[object, int]) -> set[int]:
    """The loops whose indices the body of an op reads, besides to choose a sample."""
    return {
        int(inner.attributes["dim"].value)
        for inner in ops.nested_ops(op)
        if inner.name == "linalg.index" and inner not in chosen
    }


_CHOOSING = frozenset({"arith.cmpi", "arith.addi", "arith.select", "arith.index_cast"})
"""Ops that turn an index, which may be negative, into that of an element."""


def _index_source(index: ir.Value) -> ir.Value:
    """The number that an index is, with the size added where it is negative."""
    op = ops.defining_op(index)
    if op is None or op.name not in ("arith.index_cast", "arith.select"):
        return index
    if op.name == "arith.index_cast":
        return _index_source(op.operands[0])
    condition, added = ops.defining_op(op.operands[0]), ops.defining_op(op.operands[1])
    number = op.operands[2]
    wraps = (
        condition is not None
        and added is not None
        and (condition.name, added.name) == ("arith.cmpi", "arith.addi")
        and condition.operands[0] == number
        and added.operands[0] == number
        and ops.predicate(condition) == SLT
        and ops.constant(condition.operands[1]) == 0
    )
    return _index_source(number) if wraps else index


def _only_chooses(number: ir.Value, axis: int, state: Callable[[ir.Value], State]) -> bool:
    """Whether a number is used as the index of samples alone."""
    for user in ops.users(number):
        if user.name == "tensor.extract":
            places = [n for n, v in enumerate(user.operands) if v == number]
            if places != [1 + axis] or state(user.operands[0]).axis != axis:
                return False
        elif user.name not in _CHOOSING or not _only_chooses(user.results[0], axis, state):
            return False
    return True


def counted_axis(op: ir.Operation, access: Access) -> int | None:
    """The dimension of a result whose indices are its elements."""
    if not len(op.regions):
        return None
    (value,) = list(op.regions[0].blocks[0].operations)[-1].operation.operands[:1] or (None,)
    source = None if value is None else ops.defining_op(value)
    if source is not None and source.name == "arith.index_cast":
        source = ops.defining_op(source.operands[0])
    if source is None or source.name != "linalg.index":
        return None
    loop = int(source.attributes["dim"].value)
    found = [position for position, (plain, _) in enumerate(access) if plain == loop]
    return found[0] if len(found) == 1 else None
