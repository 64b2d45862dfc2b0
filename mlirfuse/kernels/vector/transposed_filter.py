"""Contractions whose computed filter has contiguous input channels, transposed on the stack.

    for each tile of columns, each block of input channels:
      squares of the filter, [columns][channels], transposed in registers: [channels][columns]
      for each tile of pixels: an element of the image times vectors of the transposed filter

The scores of attention, `q @ k^T`, are such contractions for each head: with few rows a packed copy
of the filter in memory takes as long as the product. Where an instruction multiplies pairs of bf16,
each pair is one word of a square.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.vector.dense import DenseKernel
from mlirfuse.kernels.vector.executable import VectorKernel, memref
from mlirfuse.kernels.vector.grouped import GroupedKernel
from mlirfuse.kernels.vector.register_tiles import MAX_TILE_VECTORS
from mlirfuse.kernels.vector.transposition import transposed
from mlirfuse.kernels.vector.widened import WidenedKernel
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops
from mlirfuse.structured.recognize.convolutions import constant_root
from mlirfuse.targets.base import CpuDevice

PANEL_BYTES = 16 << 10
"""Bytes of the transposed filter, half of the stack that IREE allows a dispatch."""

MIN_VECTORS = 2
"""Vectors of columns of a panel of all channels: with one, each element of the image is loaded for
one multiply-add."""

MIN_EVEN_ROWS = 8
"""Rows whose multiply-adds take as long as the exchanges, of which a square of n lanes has n times
log2(n), two of them in a cycle. With fewer rows IREE 3.13 is up to 12 % faster where columns and
channels are multiples of a vector: 64 times 4x64x64 takes 28.8 us, 32.3 here (Zen 5, one thread),
and 4x20x50 takes 20.3, 16.3 here."""


def holds(words: int, device: CpuDevice) -> bool:
    """Whether a panel holds all channels, as words; else many rows pay for a packed filter."""
    return words * device.vector_bytes * MIN_VECTORS <= PANEL_BYTES


def max_vectors(words: int, device: CpuDevice) -> int:
    """The most vectors of columns whose panel holds all channels; any where it holds none so."""
    if not holds(words, device):
        return MAX_TILE_VECTORS
    return PANEL_BYTES // (words * device.vector_bytes)


def is_left_to_iree(op: ir.Operation, loops: ConvolutionLoops, device: CpuDevice) -> bool:
    """Whether IREE's code for a contraction of few rows is as fast: that of whole vectors.

    Args:
      op: a convolution or a contraction.
      loops: its loops.
      device: the CPU.
    """
    sizes, filter_loops = ops.loop_sizes(op), ops.indexing_maps(op)[loops.filter]
    if not ops.is_contraction(op) or constant_root(op.operands[loops.filter]) is not None:
        return False
    column, channel = loops.n_loop, loops.channel_loop
    if column is None or channel is None or (filter_loops or (None,))[-1] != channel:
        return False
    rows = math.prod(sizes[loop] or 0 for loop in loops.m_loops)
    whole = all((sizes[loop] or 0) % device.lanes == 0 for loop in (column, channel))
    return rows < MIN_EVEN_ROWS and whole


class TransposedFilterKernel(DenseKernel):
    """Writes one kernel."""

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel.

        Raises:
          Unsupported: partial sums of several blocks of channels cannot be in the result.
        """
        depth = self._panel_channels()
        if depth < self.dense.channels and not self._holds_partial_sums():
            raise Unsupported("a long filter that is transposed, before another result than sums")
        size = -(-depth // self.step) * self.step * self._wide
        self._panel_type = f"memref<{size}x{self._panel_element}>"
        self._panel = self.writer.stack(self._panel_type, use="transposed filter")
        return super().write(entry)

    @property
    def _panel_element(self) -> str:
        """The element type of the panel: pairs of bf16 are multiplied as such, others are f32."""
        return "f32" if self.step == 1 else "bf16"

    @property
    def _wide(self) -> int:
        """Columns of a tile."""
        return self.tile.vectors * self.lanes

    def _panel_channels(self) -> int:
        """Input channels of a panel, in a few blocks of about the same size."""
        channels, unit = self.dense.channels, self.lanes * self.step
        fit = PANEL_BYTES // (4 * self._wide) * self.step
        if channels <= fit:
            return channels
        blocks = -(-channels // (fit // unit * unit))
        return -(-channels // (blocks * unit)) * unit

    def _channel_block(self, size: int) -> int:
        return self._panel_channels()

    def _write_rows(self, first: Linear, last: Linear) -> None:
        self._transpose_filter()
        super()._write_rows(first, last)

    def _transpose_filter(self) -> None:
        """Writes the transposition of the current tile of columns and block of channels."""
        writer, lanes, square = self.writer, self.lanes, self.lanes * self.step
        count = (self.stop + self.start * -1).constant
        whole = count // square * square

        def vector(number: str, _: list[str]) -> list[str]:
            first = self.column + linear(number) * lanes
            columns = [first + lane for lane in range(lanes)]
            if self.dense.columns % self._wide:
                last = self.dense.columns - 1
                columns = [linear(writer.binary("minui", column, last)) for column in columns]

            def part(channel: str, _: list[str]) -> list[str]:
                self._write_square(columns, linear(number), linear(channel), square)
                return []

            writer.loop(0, whole, square, [], [], part)
            if whole < count:
                self._write_square(columns, linear(number), linear(whole), count - whole)
            return []

        writer.loop(0, self.tile.vectors, 1, [], [], vector)

    def _write_square(
        self, columns: Sequence[Linear], vector: Linear, channel: Linear, count: int
    ) -> None:
        """Writes the transposition of some channels, counted from the block's first one."""
        in_place = self.dense.in_place
        assert in_place is not None
        at = self._moved(self.start + channel, in_place.group_steps)
        held = [self._words(at + column * in_place.column_step, count) for column in columns]
        element = "f32" if self.step == 1 else "i32"
        found = transposed(self.writer, held, element, self.lanes)
        for n, name in enumerate(found[: -(-count // self.step)]):
            place = (channel + n * self.step) * self._wide + vector * (self.lanes * self.step)
            kind = f"vector<{self.lanes * self.step}x{self._panel_element}>"
            if self.step > 1:
                words = self.body.vector_type("i32")
                name = self.writer.value(f"vector.bitcast {name} : {words} to {kind}")
            self.writer.line(
                f"vector.store {name}, {self._panel}[{self.writer.index(place)}] :"
                f" {self._panel_type}, {kind}"
            )

    def _words(self, at: Linear, count: int) -> str:
        """Adjacent channels of a column: as f32, or each pair as an i32; zeros after `count`."""
        if self.step == 1:
            element = ops.type_element(self.filter)
            mask = self.body.first_lanes(count, self.device)
            return self.math.widened(self.body.load(self.packed, self.filter, at, mask), element)
        writer, size = self.writer, self.lanes * self.step
        place, kind = f"{self.packed}[{writer.index(at)}]", f"vector<{size}x{self._panel_element}>"
        source = memref(self.filter)
        if count == size:
            pairs = writer.value(f"vector.load {place} : {source}, {kind}")
        else:
            lanes = f"vector<{size}xi1>"
            mask = writer.hoisted(f"vector.constant_mask [{count}] : {lanes}")
            zero = writer.constant("dense<0.0>", kind)
            pairs = writer.value(
                f"vector.maskedload {place}, {mask}, {zero} : {source}, {lanes}, {kind} into {kind}"
            )
        return writer.value(f"vector.bitcast {pairs} : {kind} to {self.body.vector_type('i32')}")

    def _weights_at(self, tap: Linear) -> tuple[Linear, int]:
        return self.start * -self._wide, self._wide

    def _weights(self, at: Linear, vector: int) -> str:
        return self._of_panel(at + vector * self.lanes)

    def _of_panel(self, at: Linear) -> str:
        """A vector of transposed channels."""
        kind = f"vector<{self.lanes * self.step}x{self._panel_element}>"
        place = self.writer.index(at)
        return self.writer.value(f"vector.load {self._panel}[{place}] : {self._panel_type}, {kind}")


class WidenedTransposedKernel(TransposedFilterKernel, WidenedKernel):
    """Writes one kernel whose image is widened by vectors, too."""


class TransposedGroupsKernel(TransposedFilterKernel, GroupedKernel):
    """Writes one kernel that multiplies pairs of bf16."""

    def _filter(self, at: Linear) -> str:
        return self._of_panel(at)
