"""Elementwise ops that scale or shift each channel of a tensor: parts of a batch norm."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import epilogues, gathers


@dataclasses.dataclass(frozen=True, slots=True)
class ChannelOp:
    """An op that scales or shifts each channel by an element of a vector.

    Attributes:
      op: the generic.
      name: name of its scalar op: `arith.addf`, `arith.subf`, `arith.mulf` or `arith.divf`.
      vector: scales or shifts, one element per channel.
    """

    op: ir.Operation
    name: str
    vector: ir.Value

    @property
    def scales(self) -> bool:
        """Whether the op multiplies or divides."""
        return self.name in ("arith.mulf", "arith.divf")


def channel_op(op: ir.Operation, value: ir.Value, axis: int | None) -> tuple[int, ChannelOp] | None:
    """The op as one on the channels of the value, with the channel axis; None for any other op.

    Args:
      op: any op.
      value: the tensor that it scales or shifts.
      axis: the channel dimension, or None if any dimension may be it.
    """
    if not ops.is_elementwise(op) or len(op.results) != 1 or ops.num_inputs(op) != 2:
        return None
    if None in ops.indexing_maps(op):
        return None
    name = _applied(op)
    left, right, out = ops.plain_maps(op)
    # With channels alone, an op of two vectors is any elementwise one.
    if name is None or len(out) < 2 or out != tuple(range(len(out))):
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
    return index[0], ChannelOp(op, name, vector)


def _vector(value: ir.Value, index: ops.IndexMap) -> tuple[ir.Value, ops.IndexMap]:
    """The source of a broadcast, and the loops at which it is read."""
    op = ops.defining_op(value)
    if op is not None and ops.is_projection(op) and None not in ops.indexing_maps(op):
        read, written = ops.plain_maps(op)
        loops = dict(zip(written, index, strict=True))
        value, index = op.operands[0], tuple(None if d is None else loops.get(d) for d in read)
    return value, index


_CHANNEL_OPS = frozenset({"arith.addf", "arith.subf", "arith.mulf", "arith.divf"})


def _applied(op: ir.Operation) -> str | None:
    """The one scalar op that the generic applies to its two inputs, in their order."""
    block = ops.body(op)
    inner = [o.operation for o in block.operations]
    if len(inner) != 2 or inner[0].name not in _CHANNEL_OPS:
        return None
    arguments = list(block.arguments)
    operands = list(inner[0].operands)
    commutes = inner[0].name in ("arith.addf", "arith.mulf")
    if operands != arguments[:2] and not (commutes and operands == arguments[1::-1]):
        return None
    return inner[0].name if inner[1].operands[0] == inner[0].results[0] else None


def batch_norm_group(first: ir.Operation, max_operands: int) -> list[ir.Operation] | NoMatch | None:
    """The group of a batch norm that starts at this op, in block order; None for any other op.

    A batch norm has at least two channel ops, of which one scales and one shifts; the group
    includes its epilogue.
    """
    channel_ops = _channel_ops(first)
    if len(channel_ops) < 2 or len({op.scales for op in channel_ops}) < 2:
        return None
    chain = epilogues.epilogue(first, max_operands)
    inside = {first, *chain}
    if any(op.op not in inside for op in channel_ops):
        return NoMatch(
            Reason.EXTRA_USERS, "an intermediate value of the batch norm has other users"
        )
    producers = gathers.feeding([first, *chain], inside, takes_epilogues=False)
    return slices.in_order([*producers, first, *chain])


def _channel_ops(first: ir.Operation) -> list[ChannelOp]:
    """The chain of channel ops that starts at the op; empty when it is none, or not the first."""
    if not ops.is_elementwise(first) or len(first.results) != 1:
        return []
    for value in ops.inputs(first):
        start = channel_op(first, value, None)
        if start is None:
            continue
        axis, producer = start[0], ops.defining_op(value)
        if producer is not None and any(
            channel_op(producer, v, axis) is not None for v in ops.inputs(producer)
        ):
            return []
        chain = [start[1]]
        while True:
            last = chain[-1].op.results[0]
            found = [f for u in ops.users(last) if (f := channel_op(u, last, axis)) is not None]
            if not found:
                return chain
            chain.append(found[0][1])
    return []
