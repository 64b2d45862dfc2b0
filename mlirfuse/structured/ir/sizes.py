"""What the dynamic sizes of a function's values are in a call with given arguments.

sizes = Sizes("main", [(8, 16)])
sizes.shape(value)                      # (8, 32), or None where data says it
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence

from iree.compiler import ir

from mlirfuse.structured.ir import ops

_LISTED = {
    "tensor.empty": 0,
    "hal.tensor.import": 1,
    "iree_tensor_ext.compute_barrier.start": 1,
    "iree_tensor_ext.compute_barrier.end": 1,
    "tensor.expand_shape": 1,
}
"""Ops whose operands from this one on are the dynamic sizes of the result."""

_SAME = frozenset({"tensor.cast", "tensor.insert_slice"})

_CASTS = frozenset(f"arith.{n}" for n in ("index_cast", "index_castui", "extsi", "extui", "trunci"))

_ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.divui": operator.floordiv,
    "arith.divsi": operator.floordiv,
    "arith.remui": operator.mod,
    "arith.remsi": operator.mod,
    "arith.ceildivui": lambda a, b: -(-a // b),
    "arith.ceildivsi": lambda a, b: -(-a // b),
    "arith.maxui": max,
    "arith.maxsi": max,
    "arith.minui": min,
    "arith.minsi": min,
}


class Sizes:
    """The sizes of one call."""

    def __init__(self, function: str, shapes: Sequence[tuple[int, ...]], other: int) -> None:
        """Takes the shapes of the arguments of the function that is called.

        Args:
          function: its name.
          shapes: of its arguments.
          other: every dynamic size of the arguments of other functions.
        """
        self._function = function
        self._shapes = shapes
        self._other = other

    def shape(self, value: ir.Value) -> tuple[int, ...] | None:
        """The shape of a tensor, or None where it cannot be told."""
        if ops.ranked(value) is None:
            return None
        found = [
            self._size(value, axis) if size is None else size
            for axis, size in enumerate(ops.shape(value))
        ]
        known = tuple(n for n in found if n is not None)
        return known if len(known) == len(found) else None

    def number(self, value: ir.Value) -> int | None:
        """The value of an index, or None where it cannot be told."""
        constant = ops.constant(value)
        if constant is not None:
            return int(constant)
        op = ops.defining_op(value)
        if op is None:
            return None
        if op.name in _CASTS:
            return self.number(op.operands[0])
        if op.name in _ARITHMETIC:
            left, right = map(self.number, op.operands)
            divides = "div" in op.name or "rem" in op.name
            if left is None or right is None or (divides and right <= 0):
                return None
            return _ARITHMETIC[op.name](left, right)
        if op.name == "tensor.dim":
            axis = self.number(op.operands[1])
            shape = self.shape(op.operands[0])
            return None if axis is None or shape is None else shape[axis]
        if op.name == "hal.buffer_view.dim" and isinstance(op.operands[0].owner, ir.Block):
            return self._of_argument(op)
        return None

    def _of_argument(self, op: ir.Operation) -> int:
        function = op
        while function.name not in ("util.func", "func.func"):
            function = function.parent.operation
        if ops.symbol_name(function) != self._function:
            return self._other
        index: int = ir.BlockArgument(op.operands[0]).arg_number
        axis: int = ir.IntegerAttr(op.attributes["index"]).value
        return self._shapes[index][axis]

    def _size(self, value: ir.Value, axis: int) -> int | None:
        op = ops.defining_op(value)
        if op is None:
            return None
        dynamic = ops.shape(value)[:axis].count(None)
        if op.name in _LISTED:
            return self.number(op.operands[_LISTED[op.name] + dynamic])
        if op.name == ops.REGION:
            before = [r for r in op.results if r != value]
            before = before[: list(op.results).index(value)]
            skipped = sum(ops.shape(r).count(None) for r in before)
            return self.number(op.operands[skipped + dynamic])
        if op.name == "tensor.collapse_shape":
            whole = [self._axis(op.operands[0], a) for a in ops.reassociation(op)[axis]]
            known = [n for n in whole if n is not None]
            return math.prod(known) if len(known) == len(whole) else None
        if op.name == "tensor.reshape":
            sizes = ops.defining_op(op.operands[1])
            listed = sizes is not None and sizes.name == "tensor.from_elements"
            return self.number(sizes.operands[axis]) if sizes is not None and listed else None
        if op.name == "tensor.extract_slice":
            return self.number(ops.slice_params(op).dynamic_sizes[dynamic])
        if op.name in _SAME:
            return self._axis(op.operands[-1] if op.name == "tensor.cast" else op.operands[1], axis)
        if op.name.startswith("linalg."):
            number = list(op.results).index(value)
            return self._axis(ops.inits(op)[number], axis)
        return None

    def _axis(self, value: ir.Value, axis: int) -> int | None:
        size = ops.shape(value)[axis]
        return self._size(value, axis) if size is None else size
