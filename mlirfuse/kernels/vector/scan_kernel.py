"""The parts of scan kernels that do not depend on the place of the scanned axis in memory.

for each block of units, which depend on no other ones
  for each vector: elements from the operands, scan, results from it
"""

from __future__ import annotations

import abc
from collections.abc import Sequence

from mlirfuse.kernels.codegen.indices import Index, axis_of, parts
from mlirfuse.kernels.codegen.indices import linear as shifted
from mlirfuse.kernels.scan.analysis import ScanAnalysis
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.indexed import Indexed
from mlirfuse.kernels.vector.pointwise import Axes, Position
from mlirfuse.kernels.vector.scan_combiner import ScanCombiner
from mlirfuse.kernels.vector.workgroups import block_size
from mlirfuse.kernels.vector.writer import Linear, Writer, linear, operations
from mlirfuse.structured.ir import ops, slices
from mlirfuse.targets.base import CpuDevice


class ScanKernel(abc.ABC):
    """Writes one kernel. Its axes are those of the results that have several elements.

    Attributes:
      analysis: the scan.
      device: the CPU.
      sizes: of the axes.
      axis: the scanned axis.
      mask: the lanes that exist; empty where all do.
    """

    def __init__(self, analysis: ScanAnalysis, device: CpuDevice) -> None:
        self.analysis, self.device, self.lanes = analysis, device, device.lanes
        kept = [n for n, size in enumerate(analysis.sizes) if size != 1]
        self._numbers = {n: kept.index(n) for n in kept}
        self.sizes = [analysis.sizes[n] for n in kept]
        self.axis = self._numbers[analysis.axis]
        self.writer = Writer()
        self.body = Indexed(self.writer, self.lanes, analysis.group, self.sizes, self._merged())
        self.combiner = ScanCombiner(analysis, self.body)
        self._scanned = self._axes(analysis.index)
        self._whole = self._axes([(0, n) for n in range(len(analysis.sizes))])

    @abc.abstractmethod
    def _merged(self) -> int:
        """How many of the last axes are one."""

    @abc.abstractmethod
    def _units(self) -> int:
        """Parts of the work that depend on no other ones."""

    @abc.abstractmethod
    def _write_unit(self, number: str) -> None:
        """Writes one of them."""

    @abc.abstractmethod
    def _unit_work(self) -> tuple[int, list[Linear]]:
        """Elements of one of them, and the index of a vector."""

    def _axes(self, index: Sequence[Index]) -> Axes:
        """Indices in axes of the results as those in axes of the kernel."""
        found: list[Index] = []
        for part in index:
            axis = axis_of(part)
            _, step, start = parts(part)
            number = None if axis is None else self._numbers.get(axis[1])
            found.append(shifted(None if number is None else (0, number), step, start))
        return tuple(map(self.body.place, found))

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel.

        Raises:
          Unsupported: the region has an op or an access that the kernel cannot compute.
        """
        writer, units = self.writer, self._units()
        read = sum(map(ops.num_bytes, slices.operands_of(list(self.analysis.group))))
        size = block_size(units, self._work(), read / units, self.device)
        first = linear(writer.value("hal.interface.workgroup.id[0] : index")) * size
        last = writer.binary("minsi", first + size, units)

        def unit(number: str, _: list[str]) -> list[str]:
            self._write_unit(number)
            return []

        writer.loop(first, last, 1, [], [], unit)
        return self.body.kernel(entry, self.analysis.results, (-(-units // size), 1))

    def _work(self) -> int:
        """Operations on elements for one unit."""
        elements, index = self._unit_work()
        before = len(self.writer.lines)
        position = Position(("work",), tuple(index))
        self._finish(self._combined(self._elements(position)), position)
        lines = self.writer.lines[before:]
        del self.writer.lines[before:]
        self.body.forget()
        return elements * operations(lines)

    def _combined(self, vector: str) -> str:
        """A vector combined as often as one of the kernel, for the count of operations."""
        return self.combiner.combined(vector, vector)

    def _elements(self, position: Position) -> str:
        """The accumulators of the elements at a position alone."""
        value = self.analysis.scan.operands[0]
        return self.combiner.widened(self.body.vector(value, self._scanned, position))

    def _finish(self, vector: str, position: Position) -> None:
        """Writes the results at a position from the scan."""
        narrowed = self.combiner.narrowed(vector)
        self.body.define(self.analysis.scan.results[0], self._scanned, position, narrowed)
        for number, value in enumerate(self.analysis.results):
            made = self.body.vector(value, self._whole, position)
            at = self.body.offset(value.type, self._whole, position.index)
            self.body.store(f"%y{number}", value.type, made, at, position.mask)
