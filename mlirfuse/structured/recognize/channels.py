"""Elementwise ops that change each channel of a tensor by a number of its own."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import epilogues, gathers


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One op that adds to each channel, or multiplies it with, a number of its own.

    Attributes:
      op: the generic.
      name: its scalar op: `arith.addf`, `arith.subf`, `arith.mulf` or `arith.divf`.
      vector: one number per channel.
    """

    op: ir.Operation
    name: str
    vector: ir.Value

    @property
    def scales(self) -> bool:
        """Whether it multiplies or divides."""
        return self.name in ("arith.mulf", "arith.divf")


def step(op: ir.Operation, value: ir.Value, axis: int | None) -> tuple[int, Step] | None:
    """The op as a step on the channels of the value, with their axis; None when it is none.

    Args:
      op: any op.
      value: what the step changes.
      axis: the channels' dimension where it is known.
    """
    if not ops.is_elementwise(op) or len(op.results) != 1 or ops.num_inputs(op) != 2:
        return None
    if None in ops.indexing_maps(op):
        return None
    name = _applied(op)
    left, right, out = ops.plain_maps(op)
    if name is None or out != tuple(range(len(out))):
        return None
    reads = [v == value for v in ops.inputs(op)]
    if reads == [False, True] and name in ("arith.addf", "arith.mulf"):
        left, right = right, left
    elif reads != [True, False]:
        return None
    other = ops.inputs(op)[reads.index(False)]
    vector, index = _vector(other, right)
    if left != out or len(index) != 1 or index[0] is None:
        return None
    if axis not in (None, index[0]) or ops.element_type(vector) != ops.element_type(value):
        return None
    return index[0], Step(op, name, vector)


def _vector(value: ir.Value, index: ops.IndexMap) -> tuple[ir.Value, ops.IndexMap]:
    """What a broadcast repeats, and where it is read."""
    op = ops.defining_op(value)
    if op is not None and ops.is_projection(op) and None not in ops.indexing_maps(op):
        read, written = ops.plain_maps(op)
        place = dict(zip(written, index, strict=True))
        value, index = op.operands[0], tuple(None if d is None else place.get(d) for d in read)
    return value, index


_STEPS = frozenset({"arith.addf", "arith.subf", "arith.mulf", "arith.divf"})


def _applied(op: ir.Operation) -> str | None:
    """The one scalar op that the generic applies to its two inputs, in their order."""
    block = ops.body(op)
    inner = [o.operation for o in block.operations]
    if len(inner) != 2 or inner[0].name not in _STEPS:
        return None
    arguments = list(block.arguments)
    operands = list(inner[0].operands)
    commutes = inner[0].name in ("arith.addf", "arith.mulf")
    if operands != arguments[:2] and not (commutes and operands == arguments[1::-1]):
        return None
    return inner[0].name if inner[1].operands[0] == inner[0].results[0] else None


def normalized(first: ir.Operation, max_operands: int) -> list[ir.Operation] | NoMatch | None:
    """The group of a batch norm whose first op this is, in block order; None for another op.

    Two steps or more, of which one scales and one shifts, and the elementwise ops behind them.
    """
    steps = _steps(first)
    if len(steps) < 2 or len({step.scales for step in steps}) < 2:
        return None
    chain = epilogues.epilogue(first, max_operands)
    inside = {first, *chain}
    if any(step.op not in inside for step in steps):
        return NoMatch(Reason.EXTRA_USERS, "the channels in between are read elsewhere too")
    beside = gathers.feeding([first, *chain], inside, takes_epilogues=False)
    return slices.in_order([*beside, first, *chain])


def _steps(first: ir.Operation) -> list[Step]:
    """The steps from the op on; none when it is no step, or not the first."""
    if not ops.is_elementwise(first) or len(first.results) != 1:
        return []
    for value in ops.inputs(first):
        begun = step(first, value, None)
        if begun is None:
            continue
        before = ops.defining_op(value)
        if before is not None and any(
            step(before, v, begun[0]) is not None for v in ops.inputs(before)
        ):
            return []
        steps = [begun[1]]
        while True:
            last = steps[-1].op.results[0]
            found = [f for r in ops.users(last) if (f := step(r, last, begun[0])) is not None]
            if not found:
                return steps
            steps.append(found[0][1])
    return []
