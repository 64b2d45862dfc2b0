"""Integers in a loop as linear functions of the number of its iteration.

%k = arith.subi %c31, %i          -n + 31 in iteration n, where %i counts from 0
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable

from iree.compiler import ir

from mlirfuse.structured.expr import predicates
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.counted_loops import HostLoop

_COPIES = ops.RESHAPES | {
    "arith.extsi",
    "arith.extui",
    "arith.index_cast",
    "arith.index_castui",
    "arith.trunci",
}

_SUMS = ("arith.addi", "arith.subi", "arith.muli")

_BOUNDS = ("arith.minsi", "arith.maxsi", "arith.minui", "arith.maxui")

_INEQUALITIES = (predicates.SLT, predicates.SLE, predicates.SGT, predicates.SGE)
"""Predicates that hold in every iteration if they do in the first and the last one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Linear:
    """`n * step + start` in iteration `n`.

    Attributes:
      step: the factor; 0 for a constant.
      start: the value in the first iteration.
    """

    step: int
    start: int


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Counter:
    """The integers of a loop that its iteration alone decides.

    Attributes:
      loop: the loop.
    """

    loop: HostLoop

    def of(self, value: ir.Value) -> Linear | None:
        """The function that an integer, or a tensor of one integer, is; None for others."""
        block = self.loop.op.regions[0].blocks[0]
        if value == block.arguments[0]:
            return Linear(self.loop.step, self.loop.first)
        number = ops.constant(value)
        if isinstance(number, int):
            return Linear(0, number)
        if ops.ranked(value) is not None and ops.num_elements(value) != 1:
            return None
        op = ops.defining_op(value)
        if op is None:
            return self._argument(value)
        if op.name in _COPIES or op.name == "tensor.extract":
            return self.of(op.operands[0])
        if ops.is_generic(op) and ops.is_elementwise(op):
            yielded = list(ops.body(op).operations)[-1].operation.operands
            return self.of(yielded[list(op.results).index(value)])
        return self._computed(op)

    def _argument(self, value: ir.Value) -> Linear | None:
        """That of an argument of a scalar body."""
        argument = ir.BlockArgument(value)
        op = argument.owner.owner.operation
        if not ops.is_generic(op):
            return None
        return self.of(op.operands[argument.arg_number])

    def _computed(self, op: ir.Operation) -> Linear | None:
        if op.name == "arith.select":
            chosen = self._chosen(op)
            return None if chosen is None else self.of(chosen)
        if op.name not in (*_SUMS, *_BOUNDS):
            return None
        one, other = (self.of(operand) for operand in op.operands)
        if one is None or other is None:
            return None
        if op.name == "arith.addi":
            return Linear(one.step + other.step, one.start + other.start)
        if op.name == "arith.subi":
            return Linear(one.step - other.step, one.start - other.start)
        if op.name == "arith.muli":
            if other.step:
                one, other = other, one
            if other.step:
                return None
            return Linear(one.step * other.start, one.start * other.start)
        natural = all(self._always(operator.ge, part, Linear(0, 0)) for part in (one, other))
        less = self._always(operator.le, one, other)
        if less is None or (op.name.endswith("ui") and not natural):
            return None
        return one if less == op.name.startswith("arith.min") else other

    def _chosen(self, select: ir.Operation) -> ir.Value | None:
        """The operand that a select takes in each iteration; None where they differ."""
        condition = ops.defining_op(select.operands[0])
        if condition is None or condition.name != "arith.cmpi":
            return None
        one, other = (self.of(operand) for operand in condition.operands)
        predicate = ops.predicate(condition)
        if one is None or other is None or predicate not in _INEQUALITIES:
            return None
        taken = self._always(predicates.SIGNED[predicate], one, other)
        if taken is None:
            return None
        chosen: ir.Value = select.operands[1 if taken else 2]
        return chosen

    def _always(
        self, compare: Callable[[int, int], bool], one: Linear, other: Linear
    ) -> bool | None:
        """The result of a comparison, where it is the same in each iteration."""
        ends = {
            compare(one.step * n + one.start, other.step * n + other.start)
            for n in (0, self.loop.iterations - 1)
        }
        return ends.pop() if len(ends) == 1 else None
