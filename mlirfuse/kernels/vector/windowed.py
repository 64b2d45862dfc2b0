"""Depthwise convolutions and poolings: each channel of the result reads one channel of the image.

for each block of rows, each tile of channels:
for each row of taps, each tap: a vector of the image, times one of the filter, into the sums
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.vector import register_tiles
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.pointwise import Position
from mlirfuse.kernels.vector.tiled import PACKED, Tiled
from mlirfuse.kernels.vector.tiles import TileKernel
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Windowed(Tiled):
    """A reduction over taps.

    Attributes:
      packed: type of the filter as [taps][channels]; None for a pooling.
      combine: name of the op that combines a pooling's elements.
    """

    packed: ir.Type | None = None
    combine: str = "arith.addf"


def kernel(problem: Windowed, entry: str, device: CpuDevice) -> VectorKernel:
    """Writes the kernel of a reduction over taps.

    Raises:
      Unsupported: the region has an op or an access that the kernel cannot compute.
    """
    return _WindowKernel(problem, device).write(entry)


class _WindowKernel(TileKernel):
    """Writes one kernel.

    Its accumulators are f32 or integers; a pooling to 16 bits rounds them at the end.
    """

    def __init__(self, problem: Windowed, device: CpuDevice) -> None:
        vectors = -(-problem.columns // device.lanes)
        tile = register_tiles.choose_windowed(problem.class_width, vectors, device)
        super().__init__(problem, tile, device, flat=False)
        self.windowed = problem
        self._narrow = ""
        if self.accumulator in ("f16", "bf16"):
            self._narrow, self.accumulator = self.accumulator, "f32"
            self.kind = self.body.vector_type("f32")
        kind = problem.packed
        self.packed = "" if kind is None else self.body.reserve(PACKED, kind)

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel."""
        problem, writer = self.windowed, self.writer
        blocks, size = self._blocks(1, problem.read_taps * problem.columns)
        block = writer.value("hal.interface.workgroup.id[0] : index")
        first, last = self._bounds(block, size)
        wide = self.tile.vectors * self.lanes

        def tile(number: str, _: list[str]) -> list[str]:
            self.column = linear(number) * wide
            self._write_masks()
            self._write_rows(first, last)
            return []

        writer.loop(0, self.tiles, 1, [], [], tile)
        return self._kernel(entry, (blocks, 1))

    def _initial_vectors(self, positions: Sequence[Position]) -> list[str]:
        held = super()._initial_vectors(positions)
        return [self.math.widened(each, self._narrow) for each in held] if self._narrow else held

    def _finish(self, sums: Sequence[str], positions: Sequence[Position]) -> None:
        if self._narrow:
            kind = self.body.vector_type(self._narrow)
            sums = [
                self.writer.value(f"arith.truncf {each} : {self.kind} to {kind}") for each in sums
            ]
        super()._finish(sums, positions)

    def _write_taps(
        self, start: Linear, rows: int, at: Linear, tap: Linear, sums: list[str]
    ) -> list[str]:
        sums = list(sums)
        for vector in range(self.tile.vectors):
            column = self.column + vector * self.lanes
            mask = self.masks[vector]
            loaded: dict[tuple[tuple[str, int], ...], str] = {}
            for number in self._class_taps():
                weights = self._weights((tap + number) * self.problem.columns + column, mask)
                for row in self._used(start, rows, number):
                    place = at + self._place(start, row, number) + column
                    key = (*sorted(place.terms.items()), ("", place.constant))
                    if key not in loaded:
                        loaded[key] = self._image(place, mask)
                    n = row * self.tile.vectors + vector
                    sums[n] = self._combined(loaded[key], weights, sums[n])
        return sums

    def _image(self, at: Linear, mask: str) -> str:
        """A vector of the image, in f32."""
        value = self.problem.image
        return self.math.widened(
            self.body.load(self.image, value.type, at, mask), ops.element_type(value)
        )

    def _weights(self, at: Linear, mask: str) -> str:
        """A vector of the filter, in f32; nothing for a pooling."""
        kind = self.windowed.packed
        if kind is None:
            return ""
        element = ops.type_element(kind)
        return self.math.widened(self.body.load(self.packed, kind, at, mask), element)

    def _combined(self, element: str, weights: str, total: str) -> str:
        if weights:
            return self.math.multiply_add(element, weights, total)
        return self.writer.value(f"{self.windowed.combine} {total}, {element} : {self.kind}")
