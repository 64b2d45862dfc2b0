"""Dynamic sizes of a function's values in a call with given argument shapes.

sizes = Sizes("main", [(8, 16)], 1)
sizes.shape(value)                      # (8, 32), or None where a size depends on data
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence

from iree.compiler import ir

from mlirfuse.structured.ir import ops

_FIRST_SIZE_OPERAND = {
    "tensor.empty": 0,
    "hal.tensor.import": 1,
    "iree_tensor_ext.compute_barrier.start": 1,
    "iree_tensor_ext.compute_barrier.end": 1,
    "tensor.expand_shape": 1,
}
"""Index of the first operand that is a dynamic size of the result, for ops that list them."""

_KEEPS_SHAPE = frozenset({"tensor.cast", "tensor.insert_slice"})

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
    """Sizes of the values in one call."""

    def __init__(self, function: str, shapes: Sequence[tuple[int, ...]], other: int) -> None:
        """Stores the argument shapes of the called function.

        Args:
          function: name of the called function.
          shapes: shapes of its arguments.
          other: size assumed for dynamic dimensions of the arguments of other functions.
        """
        self._function = function
        self._shapes = shapes
        self._other = other

    def shape(self, value: ir.Value) -> tuple[int, ...] | None:
        """The shape of a tensor; None where it is unknown."""
        if ops.ranked(value) is None:
            return None
        found = [
            self._size(value, axis) if size is None else size
            for axis, size in enumerate(ops.shape(value))
        ]
        known = tuple(n for n in found if n is not None)
        return known if len(known) == len(found) else None

    def index(self, value: ir.Value) -> int | None:
        """The value of an index; None where it is unknown."""
        constant = ops.constant(value)
        if constant is not None:
            return int(constant)
        op = ops.defining_op(value)
        if op is None:
            return None
        if op.name in _CASTS:
            return self.index(op.operands[0])
        if op.name in _ARITHMETIC:
            left, right = map(self.index, op.operands)
            divides = "div" in op.name or "rem" in op.name
            if left is None or right is None or (divides and right <= 0):
                return None
            return _ARITHMETIC[op.name](left, right)
        if op.name == "tensor.dim":
            axis = self.index(op.operands[1])
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
        if op.name in _FIRST_SIZE_OPERAND:
            return self.index(op.operands[_FIRST_SIZE_OPERAND[op.name] + dynamic])
        if op.name == ops.REGION:
            before = [r for r in op.results if r != value]
            before = before[: list(op.results).index(value)]
            skipped = sum(ops.shape(r).count(None) for r in before)
            return self.index(op.operands[skipped + dynamic])
        if op.name == "tensor.collapse_shape":
            whole = [self._axis(op.operands[0], a) for a in ops.reassociation(op)[axis]]
            known = [n for n in whole if n is not None]
            return math.prod(known) if len(known) == len(whole) else None
        if op.name == "tensor.reshape":
            sizes = ops.defining_op(op.operands[1])
            listed = sizes is not None and sizes.name == "tensor.from_elements"
            return self.index(sizes.operands[axis]) if sizes is not None and listed else None
        if op.name == "tensor.extract_slice":
            return self.index(ops.slice_params(op).dynamic_sizes[dynamic])
        if op.name in _KEEPS_SHAPE:
            return self._axis(op.operands[-1] if op.name == "tensor.cast" else op.operands[1], axis)
        if op.name.startswith("linalg."):
            return self._axis(ops.inits(op)[list(op.results).index(value)], axis)
        return None

    def _axis(self, value: ir.Value, axis: int) -> int | None:
        size = ops.shape(value)[axis]
        return self._size(value, axis) if size is None else size
