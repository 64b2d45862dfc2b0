"""Products of i8 in pairs of i16, whose image is widened by vectors and broadcast from memory.

    for each block of input channels:
      for each pixel of the tile: vectors of the image as i16, into a buffer on the stack
      for each pair of channels: a pair of the buffer times vectors of pairs of the packed filter

Widened one by one, each pair has three instructions that are none of the product: 128x512x512 takes
498 us so, and 358 with the buffer (AVX2 code, one thread of a Zen 5).
"""

from __future__ import annotations

from mlirfuse.kernels.vector.dense import Dense
from mlirfuse.kernels.vector.executable import memref
from mlirfuse.kernels.vector.grouped import GroupedKernel
from mlirfuse.kernels.vector.products import Operands, Product
from mlirfuse.kernels.vector.widened import L1_FRACTION, MIN_ROWS
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.targets.base import CpuDevice

PAIR = 2
"""Elements of K that `vpmaddwd` multiplies for each lane."""


def is_widened(problem: Dense, product: Product, kinds: Operands, device: CpuDevice) -> bool:
    """Whether a contraction has bytes that a vector of adjacent channels widens to words."""
    words = product.operand == "i16" and product.group == PAIR and kinds.image == "i8"
    adjacent = problem.taps == 1 and problem.channel_step == 1
    return words and adjacent and problem.channels >= PAIR * device.lanes


class WidenedGroupsKernel(GroupedKernel):
    """Writes one kernel."""

    def _write_groups(
        self, start: Linear, rows: int, at: Linear, stop: Linear, sums: list[str]
    ) -> list[str]:
        if rows < MIN_ROWS:
            return super()._write_groups(start, rows, at, stop, sums)
        writer, kinds, wide = self.writer, [self.kind] * len(sums), PAIR * self.lanes
        fit = self.device.l1_bytes // L1_FRACTION // (PAIR * self.tile.rows * wide)
        block = min(max(1, fit), -(-self.dense.channels // wide)) * wide
        kind = f"memref<{self.tile.rows * block // PAIR}xi32>"
        stack = writer.stack(kind, use="widened")

        def widen(begin: str, end: str) -> None:
            rest = writer.binary("remui", writer.binary("subi", end, begin), wide)
            whole = writer.binary("subi", end, rest)
            for first, last, count in ((begin, whole, wide), (whole, end, PAIR)):

                def store(channel: str, _: list[str], count: int = count) -> list[str]:
                    here = writer.binary("divui", linear(channel) + linear(begin) * -1, PAIR)
                    for row in range(rows):
                        source = at + linear(channel) + self._place(start, row, 0)
                        words = self._words(source, count)
                        place = writer.index(linear(here) + row * block // PAIR)
                        writer.line(
                            f"vector.store {words}, {stack}[{place}] : {kind},"
                            f" vector<{count // PAIR}xi32>"
                        )
                    return []

                writer.loop(first, last, count, [], [], store)

        def part(begin: str, held: list[str]) -> list[str]:
            end = writer.index(writer.binary("minsi", linear(begin) + block, stop))
            widen(begin, end)

            def step(channel: str, inner: list[str]) -> list[str]:
                here = writer.binary("divui", linear(channel) + linear(begin) * -1, PAIR)

                def image(row: int, _: int) -> str:
                    place = writer.index(linear(here) + row * block // PAIR)
                    word = writer.value(f"memref.load {stack}[{place}] : {kind}")
                    lanes = writer.value(f"vector.broadcast {word} : i32 to {self.kind}")
                    return writer.value(f"vector.bitcast {lanes} : {self.kind} to {self.grouped}")

                return self._group(start, rows, linear(channel), inner, image)

            return writer.loop(begin, end, PAIR, held, kinds, step)

        return writer.loop(self.start, stop, block, sums, kinds, part)

    def _words(self, at: Linear, count: int) -> str:
        """Elements of the image as words, each two of them as an i32."""
        row = f"vector<{count}x{self.kinds.image}>"
        loaded = self.writer.value(
            f"vector.load {self.image}[{self.writer.index(at)}] :"
            f" {memref(self.dense.image.type)}, {row}"
        )
        wide = self._operand(loaded, row, self.kinds.image_is_unsigned)
        return self.writer.value(
            f"vector.bitcast {wide} : vector<{count}xi16> to vector<{count // PAIR}xi32>"
        )
