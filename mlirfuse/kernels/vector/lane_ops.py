"""Integer operations on scalars or on the lanes of vectors, by one spelling.

ops = LaneOps(writer, 16)
key = ops.binary("arith.xori", x, ops.constant(-1, "i32"), "i32")      vector<16xi32>
"""

from __future__ import annotations

from mlirfuse.kernels.vector.writer import Writer


class LaneOps:
    """Writes operations of `arith` on vectors of one length, or on scalars.

    Attributes:
      writer: the lines of the kernel.
      lanes: elements of a vector; 0 for scalars.
    """

    def __init__(self, writer: Writer, lanes: int = 0) -> None:
        self.writer, self.lanes = writer, lanes

    def type(self, element: str) -> str:
        """The type of a value with these elements."""
        return f"vector<{self.lanes}x{element}>" if self.lanes else element

    def constant(self, number: int | str, element: str) -> str:
        """A constant in all lanes."""
        literal = f"dense<{number}>" if self.lanes else str(number)
        return self.writer.constant(literal, self.type(element))

    def splat(self, scalar: str, element: str) -> str:
        """A scalar in all lanes."""
        if not self.lanes:
            return scalar
        kind = self.type(element)
        return self.writer.value(f"vector.broadcast {scalar} : {element} to {kind}")

    def binary(self, op: str, one: str, other: str, element: str) -> str:
        """An op of two operands of the result's type."""
        return self.writer.value(f"{op} {one}, {other} : {self.type(element)}")

    def compare(self, predicate: str, one: str, other: str, element: str) -> str:
        """A comparison of integers."""
        text = f"arith.cmpi {predicate}, {one}, {other} : {self.type(element)}"
        return self.writer.value(text)

    def select(self, condition: str, one: str, other: str, element: str) -> str:
        """The one where the condition holds, else the other."""
        kinds = f"{self.type('i1')}, {self.type(element)}" if self.lanes else self.type(element)
        return self.writer.value(f"arith.select {condition}, {one}, {other} : {kinds}")

    def cast(self, op: str, value: str, source: str, result: str) -> str:
        """A conversion: `arith.extsi`, `arith.bitcast`, ..."""
        text = f"{op} {value} : {self.type(source)} to {self.type(result)}"
        return self.writer.value(text)

    def integer(self, value: str, source: str, result: str, *, signed: bool = False) -> str:
        """An integer in another width."""
        given, wanted = int(source[1:]), int(result[1:])
        if given == wanted:
            return value
        widen = "arith.extsi" if signed else "arith.extui"
        return self.cast(widen if given < wanted else "arith.trunci", value, source, result)
