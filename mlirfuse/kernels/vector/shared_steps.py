"""Steps of a kernel whose parts several workgroups compute together, each at its own pace.

    steps = SharedSteps(writer, "%y3", flags_type, parts)
    first = steps.join(group, own)                    the first step that is not complete
    steps.each_part(step, write)                      every part of it is complete behind this

A workgroup claims a part of a step before it computes it: its own part first, and those of others
where their workgroups have not begun. It waits only for parts that a running workgroup has claimed.
So any order of workgroups ends, one after the other on one thread too, where the first computes all
parts. IREE promises no more: a barrier of workgroups would wait forever there.
"""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir

from mlirfuse.kernels.vector.executable import memref
from mlirfuse.kernels.vector.register_tiles import CACHE_LINE
from mlirfuse.kernels.vector.writer import Linear, Writer, linear

ELEMENT_BYTES = 4

JOINED, CLAIMED, COMPLETE = range(3)
"""Places in the line of a part: whether its workgroup has begun, and the steps of it that are
claimed and complete."""

POLLS = 1024
"""Polls of a part that its workgroup has not completed, until another workgroup tries to claim it:
the system may have stopped the thread in front of its claim. Some 30 microseconds."""


def flags_type(groups: int, parts: int) -> ir.Type:
    """The type of the flags, zeros at first, of groups of workgroups: a line for each part."""
    line = CACHE_LINE // ELEMENT_BYTES
    return ir.RankedTensorType.get([groups * parts * line], ir.IntegerType.get_signless(32))


class SharedSteps:
    """Writes steps of one kernel.

    Attributes:
      parts: parts of a step, each the own one of a workgroup.
    """

    def __init__(self, writer: Writer, buffer: str, kind: ir.Type, parts: int) -> None:
        """Steps of `parts` workgroups, whose flags, of `flags_type`, are in a buffer."""
        self.parts = parts
        self._writer, self._buffer, self._kind = writer, buffer, memref(kind)
        self._own = self._base = Linear()

    def join(self, group: Linear, own: Linear) -> Linear:
        """Writes the beginning of a workgroup.

        Args:
          group: the number of its group.
          own: its own part.

        Returns:
          The first step that is not complete, from 0.
        """
        self._own, self._base = own, group * self.parts
        self._update("assign", own, JOINED, self._number(linear(1)))
        first = ""
        for part in range(self.parts):
            complete = self._value(linear(part), COMPLETE)
            both = f"arith.minsi {first}, {complete} : i32"
            first = self._writer.value(both) if first else complete
        return linear(self._writer.value(f"arith.index_cast {first} : i32 to index"))

    def each_part(self, step: Linear, write: Callable[[Linear], None]) -> None:
        """Writes the parts of a step.

        Args:
          step: its number.
          write: writes the work of a part, from its number.
        """
        writer, following = self._writer, self._number(step + 1)

        def one(number: str, _: list[str]) -> list[str]:
            part = linear(writer.binary("remui", self._own + linear(number), self.parts))
            is_own = writer.value(f"arith.cmpi eq, {number}, {writer.index(0)} : index")

            def compute(_: list[str]) -> list[str]:
                write(part)
                self._update("assign", part, COMPLETE, following)
                return []

            writer.when(self._claim(part, following, is_own), [], [], compute)
            return []

        writer.loop(0, self.parts, 1, [], [], one)

    def _claim(self, part: Linear, following: str, is_own: str) -> str:
        """Waits until a part is complete, or claimed here; returns whether it is claimed."""
        writer = self._writer
        no, zero = writer.hoisted("arith.constant false"), writer.index(0)
        result, count, mine = writer.name(), writer.name(), writer.name()
        polls, unused = writer.name(), writer.name()
        header = f"{result}:2 = scf.while ({count} = {zero}, {mine} = {no})"
        with writer.block(f"{header} : (index, i1) -> (index, i1) {{", "} do {"):
            complete = self._value(part, COMPLETE)
            is_open = writer.value(f"arith.cmpi slt, {complete}, {following} : i32")
            asks = writer.value(f"arith.select {mine}, {no}, {is_open} : i1")
            writer.line(f"scf.condition({asks}) {count}, {mine} : index, i1")
        with writer.block("// do", "}"):
            writer.line(f"^bb0({polls}: index, {unused}: i1):")
            joined = self._value(part, JOINED)
            is_absent = writer.value(f"arith.cmpi eq, {joined}, {self._number(linear(0))} : i32")
            is_late = writer.binary("remui", polls, POLLS)
            is_late = writer.value(f"arith.cmpi eq, {is_late}, {writer.index(POLLS - 1)} : index")
            tries = writer.value(f"arith.ori {is_absent}, {is_late} : i1")
            tries = writer.value(f"arith.ori {tries}, {is_own} : i1")

            def claim(_: list[str]) -> list[str]:
                before = self._update("maxs", part, CLAIMED, following)
                return [writer.value(f"arith.cmpi slt, {before}, {following} : i32")]

            (claimed,) = writer.when(tries, ["i1"], [no], claim)
            writer.line(f"scf.yield {writer.binary('addi', polls, 1)}, {claimed} : index, i1")
        return f"{result}#1"

    def _number(self, number: Linear) -> str:
        if number.is_constant:
            return self._writer.constant(str(number.constant), "i32")
        return self._writer.value(f"arith.index_cast {self._writer.index(number)} : index to i32")

    def _value(self, part: Linear, place: int) -> str:
        """The value of a flag: an update that changes nothing, behind which no read moves up."""
        return self._update("ori", part, place, self._number(linear(0)))

    def _update(self, kind: str, part: Linear, place: int, value: str) -> str:
        """Updates a flag; returns the value before."""
        line = CACHE_LINE // ELEMENT_BYTES
        at = self._writer.index((self._base + part) * line + place)
        held = f"memref.atomic_rmw {kind} {value}, {self._buffer}[{at}]"
        return self._writer.value(f"{held} : (i32, {self._kind}) -> i32")
