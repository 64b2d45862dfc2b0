"""The grouped short module, and the positions of its layers."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.pipelines.repeated_layers.op_parts import block_ops
from mlirfuse.pipelines.repeated_layers.shorten import (
    REPRESENTATIVES,
    NotReplicable,
    ShortModule,
)
from mlirfuse.structured.ir import ops


class ShortResult:
    """A short module after the passes: weights, ops before the layers, layer 0, layer 1, the rest.

    Attributes:
      short: the short module.
      module: the same module after the passes.
      held: ops of the block with the layers, in order.
      position: op of the block -> its position.
      weights: index of a constant in the whole block -> the constant, of those at the head.
      first: position of the first op of layer 0.
      second: position of the first op of layer 1.
      rest: position of the first op after layer 1.
      width: number of ops of layer 0, and of layer 1.
    """

    def __init__(self, short: ShortModule, module: ir.Module) -> None:
        """Finds the positions.

        Raises:
          NotReplicable: a layer has no op, or layers 0 and 1 have different numbers of ops.
        """
        self.short = short
        self.module = module
        self.held = block_ops(module, short.symbol)
        self.position = {op: position for position, op in enumerate(self.held)}
        self.weights: dict[int, ir.Operation] = {}
        for op in self.held:
            place = short.place(op) if op.name in ops.CONSTANT_OPS else None
            if place is None:
                break
            self.weights[place] = op
        self.first, self.second, self.rest = map(self._start, range(REPRESENTATIVES))
        self.width = self.second - self.first
        if self.rest - self.second != self.width:
            raise NotReplicable

    def _start(self, layer: int) -> int:
        """Position of the first op of a layer."""
        for position in range(len(self.weights), len(self.held)):
            if self.short.layer(self.held[position].location) == layer:
                return position
        raise NotReplicable
