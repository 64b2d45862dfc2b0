"""Modelled memory traffic and time of groups of ops."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.structured import ops, slices
from mlirfuse.targets.base import Target

DYNAMIC_SIZE = 128
"""Elements that a dynamic dimension counts for in a model of time."""


@dataclasses.dataclass(frozen=True, slots=True)
class Gain:
    """What making one dispatch of a group saves against one dispatch per op.

    Attributes:
      bytes_saved: memory traffic, bytes a call; each operand counts once per op that reads it.
      launches_saved: dispatches.
    """

    bytes_saved: int
    launches_saved: int

    def microseconds(self, target: Target) -> float:
        """Modelled time saved a call: traffic at the target's bandwidth, plus launches."""
        return self.bytes_saved / target.bandwidth * 1e6 + self.launches_saved * target.launch_us


def gain(group: list[ir.Operation]) -> Gain:
    """Models what the group saves as one dispatch."""
    working = [op for op in group if not (slices.is_cheap(op) or op.name in ops.RESHAPES)]
    if len(working) < 2:
        return Gain(0, 0)
    alone = 0
    for op in working:
        read = [v for v in ops.external_operands(op) if not _is_cheap_value(v)]
        alone += sum(_bytes(v) for v in (*read, *op.results))
    together = sum(_bytes(v) for v in (*slices.operands_of(group), *slices.results_of(group)))
    return Gain(max(0, alone - together), len(working) - 1)


def _is_cheap_value(value: ir.Value) -> bool:
    op = ops.defining_op(value)
    return op is not None and slices.is_cheap(op)


def _bytes(value: ir.Value) -> int:
    return ops.num_bytes(value, DYNAMIC_SIZE) if ops.ranked(value) is not None else 0
