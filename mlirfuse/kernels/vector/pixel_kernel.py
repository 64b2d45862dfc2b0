"""Results whose pixels are contiguous, as with channels first, from vectors of channels.

    for each pixel of a tile
      the epilogue on vectors of channels, into a buffer on the stack
    for each vector of channels: the buffer's vectors of all pixels, transposed in registers
      for each channel: a vector of its pixels is stored

Stores of single elements would touch one line of the cache for each channel. Where the epilogue
reads a tensor with contiguous pixels, the accumulators are transposed in place of the results, and
it is computed on vectors of pixels.
"""

from __future__ import annotations

from collections.abc import Callable

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.vector.channel_kernel import ChannelKernel
from mlirfuse.kernels.vector.executable import element_in_memory
from mlirfuse.kernels.vector.pointwise import Pointwise, Position
from mlirfuse.kernels.vector.register_tiles import RegisterTile
from mlirfuse.kernels.vector.tiled import Tiled
from mlirfuse.kernels.vector.transposition import transposed
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice


class PixelKernel(ChannelKernel):
    """Writes what kernels with tiles of pixels and channels have in common.

    Attributes:
      tile: the register tile.
      group: indices of the current groups of channels.
      index: indices of the axes before that of the pixels of a tile.
      transposes: whether vectors of results are pixels of a channel.
    """

    def __init__(
        self, problem: Tiled, tile: RegisterTile, device: CpuDevice, body: Pointwise
    ) -> None:
        super().__init__(problem, tile.vectors, device, body)
        self.tile = tile
        self.group: tuple[Linear, ...] = ()
        self.index: list[Linear] = []
        self.transposes = problem.has_contiguous_pixels
        self._start = Linear()
        self._pixel_lanes: bool | None = None

    @property
    def _stores_vectors(self) -> bool:
        """Whether the epilogue stores whole vectors, and no elements one by one."""
        return self.transposes or all(map(self._contiguous, self.problem.results))

    def _has_pixel_lanes(self, start: Linear, position: Position) -> bool:
        """Begins a tile; whether its epilogue is computed on vectors of pixels.

        Args:
          start: x of the tile's first pixel.
          position: any vector of channels in it.
        """
        self._start = start
        if self._pixel_lanes is None:
            self._pixel_lanes = self.transposes and not self._computes_channels(position)
        return self._pixel_lanes

    def _computes_channels(self, position: Position) -> bool:
        """Whether the epilogue reads nothing whose channels are not contiguous."""
        before = len(self.writer.lines)
        try:
            zero = "0.0" if self.accumulator == "f32" else "0"
            self._finish([self.body.splat(zero, self.accumulator)], [position])
        except Unsupported:
            return False
        finally:
            del self.writer.lines[before:]
            self.body.forget()
        return True

    def _from_stack(self, names: list[str], positions: list[Position]) -> list[str]:
        """The accumulators at some positions, from those in a buffer."""
        return names

    def _finish_pixels(self, start: Linear, rows: int, stack: str, kind: str) -> None:
        """Writes the epilogue on vectors of pixels.

        Args:
          start: x of the tile's first pixel.
          rows: its pixels.
          stack: the buffer with its accumulators, channels last.
          kind: the type of the buffer.
        """

        def finish(name: str, position: Position) -> None:
            self._finish(self._from_stack([name], [position]), [position])

        self._transpose(start, rows, (stack, kind), self.accumulator, finish)

    def _store(self, number: int, vector: str, position: Position) -> None:
        """Stores a vector of a result: one of channels, before its transposition, in a buffer."""
        if not self.transposes or position.lane_axis == self.problem.x:
            super()._store(number, vector, position)
            return
        row = position.index[self.problem.x] + self._start * -1
        column = position.index[-1] + self.column * -1
        at = self.writer.index(row * (self.vectors * self.lanes) + column)
        buffer, kind = self._result_buffer(number)
        element = self._stored_element(number)
        if element != ops.element_type(self.problem.results[number]):
            lanes = self.body.vector_type("i1")
            vector = self.writer.value(
                f"arith.extui {vector} : {lanes} to {self.body.vector_type(element)}"
            )
        held = self.body.vector_type(element)
        self.writer.line(f"vector.store {vector}, {buffer}[{at}] : {kind}, {held}")

    def _store_pixels(self, start: Linear, rows: int) -> None:
        """Writes the stores of a tile whose results are in buffers, if they are.

        Args:
          start: x of its first pixel.
          rows: its pixels.
        """
        if not self.transposes:
            return
        for number in range(len(self.problem.results)):
            element = self._stored_element(number)

            def store(
                name: str, position: Position, number: int = number, element: str = element
            ) -> None:
                self._store(number, self._boolean(number, name, element), position)

            self._transpose(start, rows, self._result_buffer(number), element, store)

    def _transpose(
        self,
        start: Linear,
        rows: int,
        source: tuple[str, str],
        element: str,
        use: Callable[[str, Position], None],
    ) -> None:
        """Writes loops over the channels of a tile that use vectors of its pixels.

        Args:
          start: x of the tile's first pixel.
          rows: its pixels.
          source: a buffer with vectors of its channels, pixel after pixel, and its type.
          element: their element type.
          use: writes what uses a vector, from its name and position.
        """
        writer, lanes, (buffer, buffer_type) = self.writer, self.lanes, source
        kind, square = self.body.vector_type(element), f"memref<{lanes * lanes}x{element}>"
        turned = writer.stack(square, use="transposed")

        def vector(number: str, first: int, count: int) -> None:
            column = linear(number) * lanes
            held = [
                writer.value(f"vector.load {buffer}[{writer.index(at)}] : {buffer_type}, {kind}")
                for row in range(first, first + count)
                for at in [column + row * (self.vectors * lanes)]
            ]
            for channel, name in enumerate(transposed(writer, held, element, lanes)):
                at = writer.index(channel * lanes)
                writer.line(f"vector.store {name}, {turned}[{at}] : {square}, {kind}")
            column = self.column + column

            def step(channel: str, _: list[str]) -> list[str]:
                at = writer.index(linear(channel) * lanes)
                name = writer.value(f"vector.load {turned}[{at}] : {square}, {kind}")
                index = (*self.index, start + first, *self.group, column + linear(channel))
                self.body.forget()
                use(
                    name,
                    Position(
                        (0, 0), index, self.body.first_lanes(count, self.device), self.problem.x
                    ),
                )
                return []

            left = linear(self.problem.columns) + column * -1
            writer.loop(0, writer.binary("minsi", left, lanes), 1, [], [], step)

        def vectors(number: str, _: list[str]) -> list[str]:
            for first in range(0, rows, lanes):
                vector(number, first, min(lanes, rows - first))
            return []

        writer.loop(0, self.vectors, 1, [], [], vectors)
        self.body.forget()

    def _stored_element(self, number: int) -> str:
        """The element type of a result in a buffer, where a boolean is a byte."""
        return element_in_memory(self.problem.results[number].type)

    def _boolean(self, number: int, name: str, element: str) -> str:
        """A vector of a result from its vector in memory."""
        kind = ops.element_type(self.problem.results[number])
        if kind == element:
            return name
        source, wanted = self.body.vector_type(element), self.body.vector_type(kind)
        return self.writer.value(f"arith.trunci {name} : {source} to {wanted}")

    def _result_buffer(self, number: int) -> tuple[str, str]:
        """The buffer of a result's vectors of channels, and its type."""
        size = self.tile.rows * self.vectors * self.lanes
        kind = f"memref<{size}x{self._stored_element(number)}>"
        return self.writer.stack(kind, use=f"result{number}"), kind
