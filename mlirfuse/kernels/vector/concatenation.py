"""Concatenations of tensors in memory, along another axis than the first.

for each index before the axis, for each part: some contiguous vectors of it: load, store
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.data_movement import analysis
from mlirfuse.kernels.data_movement.analysis import ConcatAnalysis, Part
from mlirfuse.kernels.vector.executable import VectorKernel, element_in_memory, memref
from mlirfuse.kernels.vector.memory import ELEMENT_TYPES
from mlirfuse.kernels.vector.pointwise import Pointwise
from mlirfuse.kernels.vector.workgroups import BLOCKS_PER_CORE, block_size
from mlirfuse.kernels.vector.writer import Linear, Writer, linear
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.strided_views import contiguous, strided_view
from mlirfuse.targets.base import CpuDevice

MAX_VECTORS = 4
"""Vectors of an iteration of the loop over a part."""


def plan(region: ir.Operation, device: CpuDevice) -> VectorKernel | NoMatch | None:
    """Plans the kernel of a region of one concatenation; None for another kind of region."""
    found = analysis.analyze(region)
    return plan_concatenation(found, device) if isinstance(found, ConcatAnalysis) else found


def plan_concatenation(found: ConcatAnalysis, device: CpuDevice) -> VectorKernel | NoMatch:
    """Plans the kernel of a concatenation.

    Args:
      found: the concatenation.
      device: the CPU.
    """
    element = ops.element_type(found.result)
    if element not in ELEMENT_TYPES:
        return NoMatch(Reason.ELEMENT_TYPE, f"a concatenation of {element}")
    if found.outer == 1:
        return NoMatch(Reason.NOT_PROFITABLE, "IREE copies contiguous parts without a kernel")
    return _Concatenation(found, device).write()


@dataclasses.dataclass(frozen=True, slots=True)
class _Rows:
    """Where the rows of a part are: its elements at one index before the axis.

    Attributes:
      buffer: the name of the buffer that has them.
      kind: the type of its tensor.
      offset: the first element of the first row.
      sizes: of the dimensions of the rows.
      strides: elements from one index of each of these to the next.
    """

    buffer: str
    kind: ir.Type
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class _Concatenation:
    """Writes one kernel."""

    def __init__(self, found: ConcatAnalysis, device: CpuDevice) -> None:
        self.found, self.device = found, device
        kind = ir.RankedTensorType(found.result.type)
        self.element = element_in_memory(kind)
        self.writer = Writer()
        width = ops.element_bits(found.result) // 8
        self.lanes = device.vector_bytes // width
        self.body = Pointwise(self.writer, self.lanes)
        self.rows = [self._rows(part) for part in found.parts]

    def write(self) -> VectorKernel:
        """Writes the whole kernel: each unit is a chunk of each part at one outer index."""
        writer, found = self.writer, self.found
        most = max(part.size * found.inner for part in found.parts)
        chunks = -(-BLOCKS_PER_CORE * self.device.cores // found.outer)
        chunks = max(1, min(chunks, most // (MAX_VECTORS * self.lanes)))
        units, work = found.outer * chunks, found.row_elements / chunks
        read = ops.num_bytes(found.result) / units
        size = block_size(units, work, read, self.device)
        first = linear(writer.value("hal.interface.workgroup.id[0] : index")) * size
        last = writer.binary("minsi", first + size, units)

        def unit(number: str, _: list[str]) -> list[str]:
            outer, chunk = writer.split(number, (found.outer, chunks))
            for part, rows in zip(found.parts, self.rows, strict=True):
                self._copy(part, rows, outer, chunk, chunks)
            return []

        writer.loop(first, last, 1, [], [], unit)
        return self.body.kernel("concatenation", [found.result], (-(-units // size), 1))

    def _rows(self, part: Part) -> _Rows:
        """The rows of a part: where it is a slice, in the tensor that it is cut from."""
        view, sizes = strided_view(part.value), [size or 0 for size in ops.shape(part.value)]
        # A part may lack dimensions of one index.
        axis = next(n for n in range(len(sizes) + 1) if math.prod(sizes[:n]) == self.found.outer)
        whole = contiguous(part.value)
        if view is None or not _same(view.strides[axis:], whole.strides[axis:], sizes[axis:]):
            view = whole
        strides, steps = list[int](), list[int]()
        for size, stride in zip(sizes[:axis], view.strides, strict=False):
            if size == 1:
                continue
            if steps and strides[-1] == stride * size:
                strides[-1], steps[-1] = stride, steps[-1] * size
            else:
                strides.append(stride)
                steps.append(size)
        buffer = self.body.buffer(view.base)
        return _Rows(buffer, view.base.type, view.offset, tuple(steps), tuple(strides))

    def _copy(self, part: Part, rows: _Rows, outer: Linear, chunk: Linear, chunks: int) -> None:
        """Writes the copy of a chunk of a part; its last vectors end with its last element."""
        found = self.found
        count = part.size * found.inner
        places = zip(self.writer.split(outer, rows.sizes), rows.strides, strict=True)
        source = sum((index * stride for index, stride in places), linear(rows.offset))
        target = outer * found.row_elements + part.start * found.inner
        # A part of few elements has shorter vectors: masked ones take longer.
        lanes = min(self.lanes, 1 << count.bit_length() - 1)
        vectors = min(MAX_VECTORS, count // lanes)
        step = vectors * lanes
        steps = -(-count // step)
        length = -(-steps // chunks)

        def several(number: str, _: list[str]) -> list[str]:
            start = linear(number) * step
            if count % step:
                start = linear(self.writer.binary("minsi", start, count - step))
            for vector in range(vectors):
                at = start + vector * lanes
                self._vector(rows, (source + at, target + at), lanes)
            return []

        end = self.writer.binary("minsi", chunk * length + length, steps)
        self.writer.loop(chunk * length, end, 1, [], [], several)

    def _vector(self, rows: _Rows, places: tuple[Linear, Linear], lanes: int) -> None:
        """Writes the copy of one vector, as it is in memory."""
        kind = f"vector<{lanes}x{self.element}>"
        source, target = (self.writer.index(place) for place in places)
        read, written = memref(rows.kind), memref(self.found.result.type)
        held = self.writer.value(f"vector.load {rows.buffer}[{source}] : {read}, {kind}")
        self.writer.line(f"vector.store {held}, %y0[{target}] : {written}, {kind}")


def _same(some: Sequence[int], others: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether strides are the same along all dimensions of several elements."""
    pairs = zip(some, others, sizes, strict=True)
    return all(one == other or size == 1 for one, other, size in pairs)
