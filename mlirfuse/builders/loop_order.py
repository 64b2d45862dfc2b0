"""Keeps IREE from scheduling a dispatch after a loop that needs its result.

    %y = linalg.generic {exp}                    %y = flow.dispatch.region { exp }
    %r = scf.for iter_args(%v = %y)      ->      %r = scf.for iter_args(%v = %y)
    %o = linalg.generic {addf} %r, %y            %z = util.optimization_barrier %y
                                                 %o = linalg.generic {addf} %r, %z

IREE 3.13 gathers dispatches in partitions, and puts a dispatch into that of its users although a
loop that needs it is between them.
"""

from __future__ import annotations

from collections.abc import Iterator

from iree.compiler import ir

from mlirfuse.builders.regions import form_region
from mlirfuse.structured.ir import ops, slices

DIAGNOSTICS = (
    "circular dependency: input operation uses partition output",
    "failed to schedule execution partitions without cyclic dependencies",
)
"""The errors of IREE that `repair` cures."""

_BARRIER = "util.optimization_barrier"


def repair(module: ir.Module) -> bool:
    """Separates what loops need from its later users; returns whether there was any."""
    found = [
        (op, users)
        for function in ops.functions(module)
        for block in _blocks(function)
        for op, users in _used_later(block)
    ]
    for op, users in found:
        alone = form_region([op]) if ops.is_generic(op) else op
        for result in alone.results:
            _separate(result, alone, users)
    return bool(found)


def _blocks(op: ir.Operation) -> Iterator[ir.Block]:
    """The blocks of a function outside dispatches."""
    for region in op.regions:
        for block in region.blocks:
            yield block
            for view in block.operations:
                if _is_control_flow(view.operation):
                    yield from _blocks(view.operation)


def _used_later(block: ir.Block) -> list[tuple[ir.Operation, set[ir.Operation]]]:
    """Each op of the block that a loop needs, with its users for which that loop may be over."""
    loops_left: dict[ir.Operation, int] = {}
    found = []
    for view in reversed(list(block.operations)):
        op = view.operation
        users = {
            user
            for result in op.results
            for use in result.uses
            if (user := ops.ancestor_in(block, use.owner.operation)) is not None
        }
        left = max((loops_left[user] for user in users), default=0)
        loops_left[op] = left + 1 if _is_control_flow(op) else left
        later = {u for u in users if loops_left[u] < left and not _is_control_flow(u)}
        if later and _is_dispatched(op):
            found.append((op, later))
    return found


def _is_dispatched(op: ir.Operation) -> bool:
    """Whether the op computes on the device, in a dispatch with neighbors or of its own."""
    dispatched = op.name.startswith(("linalg.", "flow.dispatch", "iree_linalg_ext.", "tensor."))
    return dispatched and not slices.is_clonable(op)


def _separate(value: ir.Value, op: ir.Operation, users: set[ir.Operation]) -> None:
    """Gives some users of an op's result another name for it."""
    uses = [
        (user, index)
        for user in ops.users(value)
        if ops.ancestor_in(op.block, user) in users
        for index, operand in enumerate(user.operands)
        if operand == value
    ]
    if uses and ops.ranked(value) is not None:
        after = ir.InsertionPoint.after(op)
        barrier = ir.Operation.create(_BARRIER, [value.type], [value], loc=op.location, ip=after)
        for user, index in uses:
            user.operands[index] = barrier.result


def _is_control_flow(op: ir.Operation) -> bool:
    name: str = op.name
    return name.startswith("scf.")
