"""Values in the bodies of a region's ops, and those that all columns of a row share."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from iree.compiler import ir

from mlirfuse.kernels.reduction.analysis import ROW, ReductionAnalysis
from mlirfuse.structured.ir import ops


@dataclasses.dataclass(frozen=True, slots=True)
class BodyValue:
    """A value in the body of an op, and what it is computed from.

    Attributes:
      op: the op.
      value: an argument of its body, or the result of an op in it.
      scalars: the ops in the body that compute it.
      arguments: numbers of the body's arguments that it reads.
    """

    op: ir.Operation
    value: ir.Value
    scalars: frozenset[ir.Operation]
    arguments: frozenset[int]

    @property
    def operands(self) -> list[ir.Value]:
        """The operands of the op that it reads."""
        return [self.op.operands[number] for number in sorted(self.arguments)]

    @property
    def other_operands(self) -> set[ir.Value]:
        """The operands of the op that it does not read."""
        return {*self.op.operands}.difference(self.operands)

    @property
    def others(self) -> Collection[ir.Operation]:
        """The ops of the body that do not compute it."""
        return {o.operation for o in ops.body(self.op).operations} - self.scalars


def body_value(op: ir.Operation, value: ir.Value) -> BodyValue | None:
    """What a value in a body is computed from; None where that is not in the body alone."""
    body, scalars, arguments, work = ops.body(op), set(), set(), [value]
    if ops.constant(value) is not None:
        return None
    while work:
        current = work.pop()
        if isinstance(current.owner, ir.Block):
            if current.owner != body:
                return None
            arguments.add(ir.BlockArgument(current).arg_number)
            continue
        inner = current.owner.operation
        if ops.constant(current) is not None or inner in scalars:
            continue
        if inner.block != body:
            return None
        scalars.add(inner)
        work += inner.operands
    if any(number >= ops.num_inputs(op) for number in arguments):
        return None
    return BodyValue(op, value, frozenset(scalars), frozenset(arguments))


def value_of_rows(
    analysis: ReductionAnalysis, op: ir.Operation, value: ir.Value
) -> BodyValue | None:
    """A value in a body, before it is broadcast; None where the columns of a row differ in it."""
    found = body_value(op, value)
    while found is not None and not _is_of_rows(analysis, found):
        if not isinstance(found.value.owner, ir.Block):
            return None
        operand = found.operands[0]
        producer = ops.defining_op(operand)
        if producer is None or producer not in analysis.loops:
            return None
        yielded = list(ops.body(producer).operations)[-1].operation.operands
        found = body_value(producer, yielded[list(producer.results).index(operand)])
    return found


def _is_of_rows(analysis: ReductionAnalysis, found: BodyValue) -> bool:
    """Whether all columns of a row share a value."""
    maps, axes = ops.indexing_maps(found.op), analysis.loops[found.op]
    read = [loop for number in found.arguments for loop in maps[number] or ()]
    indexed = any(inner.name == "linalg.index" for inner in found.scalars)
    return not indexed and all(loop is not None and axes[loop][0] == ROW for loop in read)
