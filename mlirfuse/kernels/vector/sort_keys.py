"""Keys of sorted rows: integers whose unsigned order is that of the elements.

key = FloatKey("f32", descending=False)
key.write(ops, "%x")          i32, of which the lowest `key.bits` bits are used
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.vector.forms import SCALAR_TYPES, literal
from mlirfuse.kernels.vector.lane_ops import LaneOps

INFINITY = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}
"""Float type -> the bits of infinity; those of NaN, without the sign, are greater."""

INTEGERS = frozenset({"i8", "i16", "i32", "i64"})
"""Integer types of keys."""


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """The key of an element.

    Attributes:
      element: type of the element.
      descending: whether the largest element comes first.
      signed: whether integers are.
      function: ops of a comparator that compute an integer of its argument, with the argument and
        the integer; None for the element itself.
    """

    element: str
    descending: bool
    signed: bool = True
    function: tuple[tuple[ir.Operation, ...], ir.Value, ir.Value] | None = None

    @property
    def _compared(self) -> str:
        """The type of what is compared."""
        return self.element if self.function is None else str(self.function[2].type)

    @property
    def bits(self) -> int:
        """Bits of a key that are used."""
        return int(self._compared.lstrip("bfi"))

    @property
    def held(self) -> str:
        """The type of a key, whose other bits are zero."""
        return "i64" if self.bits > 32 else "i32"

    def write(self, lanes: LaneOps, element: str) -> str:
        """Writes the key of an element, or of a vector of them.

        Raises:
          Unsupported: a comparator with an op that kernels do not have.
        """
        kind = self._compared
        if self.function is not None:
            element = _applied(lanes, self.function, element)
        if kind in INFINITY:
            return self._of_float(lanes, element, kind)
        key = lanes.integer(element, kind, self.held, signed=self.signed)
        if self.signed:
            return self._unsigned(lanes, key, 2 ** (self.bits - 1))
        if not self.descending:
            return key
        return lanes.binary("arith.xori", key, self._number(lanes, 2**self.bits - 1), self.held)

    def _of_float(self, lanes: LaneOps, element: str, kind: str) -> str:
        """The bits without the sign, negative for negative numbers: both zeros are zero."""
        most = 2 ** (self.bits - 1) - 1
        raw = lanes.cast("arith.bitcast", element, kind, f"i{self.bits}")
        raw = lanes.integer(raw, f"i{self.bits}", self.held, signed=True)
        size = lanes.binary("arith.andi", raw, self._number(lanes, most), self.held)
        zero = self._number(lanes, 0)
        opposite = lanes.binary("arith.subi", zero, size, self.held)
        negative = lanes.compare("slt", raw, zero, self.held)
        key = lanes.select(negative, opposite, size, self.held)
        nan = lanes.compare("sgt", size, self._number(lanes, INFINITY[kind]), self.held)
        key = lanes.select(nan, self._number(lanes, most), key, self.held)
        return self._unsigned(lanes, key, most + 1)

    def _unsigned(self, lanes: LaneOps, key: str, offset: int) -> str:
        """A signed key in the order of unsigned integers."""
        if self.descending:
            return lanes.binary("arith.subi", self._number(lanes, offset - 1), key, self.held)
        return lanes.binary("arith.addi", key, self._number(lanes, offset), self.held)

    def _number(self, lanes: LaneOps, number: int) -> str:
        width = int(self.held[1:])
        return lanes.constant(number - (number >> (width - 1) << width), self.held)


def _applied(
    lanes: LaneOps, function: tuple[tuple[ir.Operation, ...], ir.Value, ir.Value], element: str
) -> str:
    """Writes the ops of a comparator's function."""
    body, argument, result = function
    known = {argument: element}

    def operand(value: ir.Value) -> str:
        if value in known:
            return known[value]
        held = literal(value)
        if held is None:
            raise Unsupported("a comparator that reads a value from outside")
        return lanes.constant(held, str(value.type))

    for op in body:
        if not op.name.startswith(("arith.", "math.")) or len(op.results) != 1:
            raise Unsupported(op.name)
        if any(str(v.type) not in SCALAR_TYPES for v in (*op.operands, *op.results)):
            raise Unsupported(f"{op.name} of {op.results[0].type}")
        attributes = ", ".join(f"{name} = {op.attributes[name]}" for name in op.attributes)
        kinds = ", ".join(lanes.type(str(v.type)) for v in op.operands)
        held = f" <{{{attributes}}}>" if attributes else ""
        known[op.results[0]] = lanes.writer.value(
            f'"{op.name}"({", ".join(map(operand, op.operands))}){held} : ({kinds})'
            f" -> {lanes.type(str(op.results[0].type))}"
        )
    return operand(result)
