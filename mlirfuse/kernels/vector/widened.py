"""Contractions of f16 and bf16 whose image is widened by vectors, and then broadcast.

    for each block of input channels:
      for each pixel of the tile: vectors of the image in f32, into a buffer on the stack
      for each channel: an element of the buffer times vectors of the packed filter

The conversion of one element in all lanes takes several instructions, and a vector's takes one:
1024x256x640 of f16 takes 2.8 ms with the buffer and 7.7 without (two threads of a Xeon with
AVX-512, other processes running).
"""

from __future__ import annotations

from mlirfuse.kernels.vector.dense import Add, Dense, DenseKernel, Place
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

MIN_ROWS = 4
"""Pixels of a tile from which the buffer pays: each of its vectors is stored and loaded again, and
serves only the columns of the tile. Calls of Mx1024x512 of f16 on one thread with AVX2 take 175 us
in place of 199 with M of 4, and 315 in place of 379 with 8; 3x4000x64 takes 83 and 78."""

L1_FRACTION = 4
"""Bytes of the first cache over those of the buffer; the rest is for the filter."""


def is_widened(problem: Dense, device: CpuDevice) -> bool:
    """Whether a contraction has elements that a vector of adjacent channels widens."""
    narrow = ops.element_type(problem.image) != "f32" and problem.channel_step == 1
    return narrow and problem.taps == 1 and problem.channels >= device.lanes


class WidenedKernel(DenseKernel):
    """Writes one kernel."""

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel."""
        row_bytes = 4 * self.tile.rows * self.lanes
        fit = max(1, self.device.l1_bytes // L1_FRACTION // row_bytes)
        self._block = min(fit, -(-self.dense.channels // self.lanes)) * self.lanes
        return super().write(entry)

    def _write_channels(self, rows: int, sums: list[str], place: Place, add: Add) -> list[str]:
        if rows < MIN_ROWS:
            return super()._write_channels(rows, sums, place, add)
        writer, kinds, block = self.writer, [self.kind] * len(sums), self._block
        kind = f"memref<{self.tile.rows * block}xf32>"
        stack = writer.stack(kind, use="widened")
        image = self.dense.image.type

        def vector(channel: Linear, begin: str, mask: str) -> None:
            for row in range(rows):
                loaded = self.body.load(self.image, image, place(row, 0) + channel, mask)
                wide = self.math.widened(loaded, ops.element_type(self.dense.image))
                held = writer.index(channel + linear(begin) * -1 + row * block)
                writer.line(f"vector.store {wide}, {stack}[{held}] : {kind}, {self.kind}")

        def widen(begin: str, end: str) -> None:
            # Without AVX-512, a load of 16-bit elements under a mask is one of each element.
            rest = writer.binary("remui", writer.binary("subi", end, begin), self.lanes)
            whole = writer.binary("subi", end, rest)

            def one(channel: str, _: list[str]) -> list[str]:
                vector(linear(channel), begin, "")
                return []

            writer.loop(begin, whole, self.lanes, [], [], one)
            has_rest = writer.value(f"arith.cmpi slt, {whole}, {end} : index")
            with writer.block(f"scf.if {has_rest} {{"):
                lanes = self.body.vector_type("i1")
                mask = writer.value(f"vector.create_mask {rest} : {lanes}")
                vector(linear(whole), begin, mask)

        def part(begin: str, held: list[str]) -> list[str]:
            end = writer.binary("minsi", linear(begin) + block, self.stop)
            widen(begin, end)

            def step(channel: str, inner: list[str]) -> list[str]:
                here = linear(channel) + linear(begin) * -1

                def element(row: int, _: int) -> str:
                    return self.math.broadcast_f32(stack, kind, here + row * block)

                return add(linear(channel), inner, element)

            return writer.loop(begin, end, 1, held, kinds, step)

        return writer.loop(self.start, self.stop, block, sums, kinds, part)
