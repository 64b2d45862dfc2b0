"""What a kernel's writer needs of ops, looked up once: it writes an op at many positions.

forms = Forms(lanes=16)
forms.literal(value)     "0.5" for a constant
forms.body(op)           the operands that a body reads, its ops and the values that it yields
forms.statement(op)      '"arith.addf"(', ') : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>'
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.vector.memory import ELEMENT_TYPES
from mlirfuse.structured.ir import ops

SCALAR_TYPES = ELEMENT_TYPES | {"index"}
"""Types of the scalars that bodies compute with."""


@dataclasses.dataclass(frozen=True, slots=True)
class Body:
    """The body of an elementwise op.

    Attributes:
      reads: each argument with users, its operand, and the operand's indexing map.
      computed: the ops before the last one, which yields.
      yielded: the values that it yields.
    """

    reads: tuple[tuple[ir.Value, ir.Value, ops.IndexMap], ...]
    computed: tuple[ir.Operation, ...]
    yielded: tuple[ir.Value, ...]


class Forms:
    """The forms of the ops of one kernel, which do not change while it is written."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._literals: dict[ir.Value, str | None] = {}
        self._bodies: dict[ir.Operation, Body] = {}
        self._statements: dict[ir.Operation, tuple[str, str]] = {}

    def literal(self, value: ir.Value) -> str | None:
        """As the function `literal`."""
        if value not in self._literals:
            self._literals[value] = literal(value)
        return self._literals[value]

    def body(self, op: ir.Operation) -> Body:
        """The body of an elementwise op."""
        found = self._bodies.get(op)
        if found is None:
            block = ops.body(op)
            operands = zip(block.arguments, op.operands, ops.plain_maps(op), strict=True)
            *computed, end = [view.operation for view in block.operations]
            found = self._bodies[op] = Body(
                tuple(read for read in operands if ops.is_read(read[0])),
                tuple(computed),
                tuple(end.operands),
            )
        return found

    def statement(self, op: ir.Operation) -> tuple[str, str]:
        """The text of a scalar op on vectors, before and after the names of its operands.

        Args:
          op: an op of `arith` or `math` with one result.

        Raises:
          Unsupported: another op.
        """
        found = self._statements.get(op)
        if found is None:
            found = self._statements[op] = self._statement(op)
        return found

    def _statement(self, op: ir.Operation) -> tuple[str, str]:
        if not op.name.startswith(("arith.", "math.")) or len(op.results) != 1:
            raise Unsupported(op.name)
        for value in (*op.operands, *op.results):
            if ops.element_type(value) not in SCALAR_TYPES:
                raise Unsupported(f"{op.name} of {value.type}")
        *kinds, result = [
            f"vector<{self._lanes}x{ops.element_type(value)}>"
            for value in (*op.operands, *op.results)
        ]
        attributes = ", ".join(f"{name} = {op.attributes[name]}" for name in op.attributes)
        held = f" <{{{attributes}}}>" if attributes else ""
        return f'"{op.name}"(', f"){held} : ({', '.join(kinds)}) -> {result}"


def literal(value: ir.Value) -> str | None:
    """The text of a constant number in all elements; None for other values."""
    op = ops.defining_op(value)
    if op is not None and op.name == "linalg.fill":
        return literal(op.operands[0])
    if op is None or op.name != "arith.constant":
        return None
    number = op.attributes["value"]
    if isinstance(number, ir.DenseElementsAttr):
        if not number.is_splat:
            return None
        number = number.get_splat_value()
    elif ops.ranked(value) is not None:
        return None
    return str(number).split(" : ")[0]
