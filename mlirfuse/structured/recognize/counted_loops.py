"""Loops that count, whose number of iterations is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from iree.compiler import ir

from mlirfuse.structured.expr import predicates
from mlirfuse.structured.expr.expressions import define, number, start
from mlirfuse.structured.expr.nodes import Apply, Element, Expr
from mlirfuse.structured.ir import ops

LOOP = "scf.while"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class CountedLoop:
    """An `scf.while` that carries a counter in a tensor.

    Attributes:
      op: the loop, whose first region computes an iteration.
      counter: position of the counter among the carried values.
      first: its first value, zero or more.
      step: how much it grows in each iteration.
      iterations: their number, one or more.
    """

    op: ir.Operation
    counter: int
    first: int
    step: int
    iterations: int

    @property
    def block(self) -> ir.Block:
        """The block of an iteration."""
        return self.op.regions[0].blocks[0]

    @property
    def last(self) -> int:
        """The counter of the last iteration."""
        return self.first + self.step * (self.iterations - 1)


def counted_loop(op: ir.Operation) -> CountedLoop | None:
    """The counted loop that an `scf.while` is; None where it is none.

    Recognized are loops that compute an iteration before the condition, whose other region does
    nothing: the condition compares the next value of an integer with a constant.
    """
    before, after = (region.blocks[0] for region in op.regions)
    held = [view.operation for view in after.operations]
    if len(held) != 1 or list(held[0].operands) != list(after.arguments):
        return None
    end = before.operations[len(before.operations) - 1].operation
    extract = ops.defining_op(end.operands[0])
    if extract is None or extract.name != "tensor.extract" or len(extract.operands) != 1:
        return None
    found = define(start(extract.operands[0]))
    if not isinstance(found, Apply) or found.op != "arith.cmpi":
        return None
    left, right = found.args
    bound = number(right)
    counted = _increment(left, before)
    if found.predicate != predicates.SLT or not isinstance(bound, int) or counted is None:
        return None
    place, step = counted
    if _increment(define(start(end.operands[1 + place])), before) != counted:
        return None
    first = ops.constant(op.operands[place])
    if not isinstance(first, int) or first < 0 or step <= 0:
        return None
    return CountedLoop(op, place, first, step, max(1, -(-(bound - first) // step)))


def _increment(expr: Expr, block: ir.Block) -> tuple[int, int] | None:
    """The carried value that a constant is added to, and the constant."""
    expr = define(expr)
    if not isinstance(expr, Apply) or expr.op != "arith.addi":
        return None
    one, other = (define(arg) for arg in expr.args)
    if number(other) is None:
        one, other = other, one
    step = number(other)
    if not isinstance(one, Element) or not isinstance(step, int) or ops.shape(one.value):
        return None
    carried = [n for n, value in enumerate(block.arguments) if value == one.value]
    return (carried[0], step) if carried else None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HostLoop:
    """An `scf.for` over tensors, whose iterations the host starts.

    Attributes:
      op: the loop.
      first: the first value of the counter.
      step: distance of the counter in adjacent iterations.
      iterations: their number.
      ops: number of ops of an iteration.
    """

    op: ir.Operation
    first: int
    step: int
    iterations: int
    ops: int


def host_loop(op: ir.Operation, *, in_region: bool = False) -> HostLoop | None:
    """The innermost loop of a known number of iterations that an `scf.for` is; None for others.

    Args:
      op: the `scf.for`.
      in_region: whether it may be in a dispatch region.
    """
    bounds = [ops.constant(value) for value in list(op.operands)[:3]]
    if not all(isinstance(bound, int) for bound in bounds):
        return None
    if ops.in_region(op) and not in_region:
        return None
    first, end, step = (int(bound) for bound in bounds if bound is not None)
    held = [view.operation for view in op.regions[0].blocks[0].operations]
    if any(inner.name.startswith("scf.") for inner in held[:-1]) or not op.results:
        return None
    if not all(ops.ranked(value) is not None for value in op.results):
        return None
    return HostLoop(op, first, step, -(-(end - first) // step), len(held) - 1)


def reads_splats_alone(group: Iterable[ir.Operation]) -> bool:
    """Whether ops read nothing but constants of one number, and elementwise ops that do so.

    A value that a loop of one iteration carries is the value that the loop starts with.
    """
    pending = [value for op in group for value in ops.external_operands(op)]
    seen = set(pending)
    while pending:
        value = pending.pop()
        if ops.constant(value) is not None:
            continue
        op = ops.defining_op(value)
        if op is None:
            first = _start_of_one_iteration(value)
            more = () if first is None else (first,)
        elif op.name == "tensor.empty":
            continue
        else:
            more = tuple(ops.external_operands(op)) if ops.is_elementwise(op) else ()
        if not more:
            return False
        pending += [operand for operand in more if operand not in seen]
        seen.update(more)
    return True


def _start_of_one_iteration(value: ir.Value) -> ir.Value | None:
    """The value that a loop of one iteration starts with; None for a value that none carries."""
    loop = value.owner.owner
    place = list(value.owner.arguments).index(value)
    if loop.name != "scf.for" or not place:
        return None
    found = host_loop(loop)
    return loop.operands[2 + place] if found is not None and found.iterations == 1 else None
