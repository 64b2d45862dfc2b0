"""Vectors of a kernel in memory: its buffers, and loads and stores with and without masks.

memory = Memory(writer, lanes=16)
sum = memory.load(memory.buffer(value), value.type, offset, mask)
memory.store("%y0", kind, sum, offset, mask)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.vector.executable import VectorKernel, element_in_memory, memref
from mlirfuse.kernels.vector.interleaving import merged
from mlirfuse.kernels.vector.writer import Linear, Writer
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

ELEMENT_TYPES = frozenset({"f16", "bf16", "f32", "f64", "i1", "i8", "i16", "i32", "i64"})
"""Element types of tensors that kernels read and write; a boolean is a byte in memory."""

BYTE = 8

MAX_SPACING = 4
"""Distance of elements up to which vectors that hold them all are loaded and shuffled: a gather
takes one load for each element."""


class NotContiguous(Unsupported):
    """Elements of adjacent lanes are not adjacent in memory, in a kernel without such loads."""


class Memory:
    """Writes the accesses of one kernel to its buffers.

    Attributes:
      writer: the lines of the kernel.
      lanes: elements of a vector.
      gathers: whether a tensor may be read whose elements for adjacent lanes are not adjacent.
      operands: tensors from outside that the kernel reads, each with the name of its buffer; a
        string stands for one that is made when the kernel replaces the region.
    """

    def __init__(self, writer: Writer, lanes: int, *, gathers: bool = False) -> None:
        self.writer = writer
        self.lanes = lanes
        self.gathers = gathers
        self.operands: dict[ir.Value | str, str] = {}
        self._made: dict[str, ir.Type] = {}
        self._full: dict[str, tuple[str, float]] = {}
        self._counts: dict[str, int] = {}

    def share(self, other: Memory) -> None:
        """Lets both have the same operands, and so the same names of their buffers."""
        self.operands, self._made = other.operands, other._made

    def vector_type(self, element: str) -> str:
        """The type of a vector."""
        return f"vector<{self.lanes}x{element}>"

    def buffer(self, value: ir.Value) -> str:
        """The name of the buffer of a tensor from outside."""
        if ops.ranked(value) is None or ops.element_type(value) not in ELEMENT_TYPES:
            raise Unsupported(f"an operand of type {value.type}")
        if None in ops.shape(value):
            raise Unsupported(f"an operand of dynamic type {value.type}")
        return self.operands.setdefault(value, f"%x{len(self.operands)}")

    def reserve(self, key: str, kind: ir.Type) -> str:
        """The name of the buffer of a tensor of that type that is made later."""
        self._made[key] = kind
        return self.operands.setdefault(key, f"%x{len(self.operands)}")

    def kernel(
        self,
        entry: str,
        results: Sequence[ir.Value],
        workgroups: tuple[int, int],
        scratch: tuple[ir.Type, ...] = (),
        zeroed: tuple[ir.Type, ...] = (),
    ) -> VectorKernel:
        """The kernel of the lines that are written, for these results."""
        made = (self._made[v] if isinstance(v, str) else v.type for v in self.operands)
        kinds = tuple(value.type for value in results)
        text = tuple(self.writer.text())
        operands = tuple(self.operands)
        return VectorKernel(entry, text, operands, tuple(made), kinds, workgroups, scratch, zeroed)

    def splat(self, literal: str, element: str) -> str:
        """A constant in all lanes."""
        return self.writer.constant(f"dense<{literal}>", self.vector_type(element))

    def counted(self, first: str) -> str:
        """Indices of i32 in all lanes, from that of the first one, an `index`."""
        kind = self.vector_type("i32")
        held = self.writer.value(f"arith.index_cast {first} : index to i32")
        held = self.writer.value(f"vector.broadcast {held} : i32 to {kind}")
        return self.writer.value(f"arith.addi {held}, {self.lane_numbers('i32')} : {kind}")

    def constant_indices(self, indices: Sequence[int]) -> str:
        """An index for each lane."""
        text = ", ".join(map(str, indices))
        return self.writer.constant(f"dense<[{text}]>", self.vector_type("index"))

    def of_first_lane(self, vector: str, element: str) -> str:
        """The element of the first lane."""
        kind = self.vector_type(element)
        return self.writer.value(f"vector.extract {vector}[0] : {element} from {kind}")

    def lane_numbers(self, element: str = "index") -> str:
        """The numbers of the lanes, from 0."""
        numbers = ", ".join(map(str, range(self.lanes)))
        return self.writer.constant(f"dense<[{numbers}]>", self.vector_type(element))

    def add_mask(self, mask: str, count: str, device: CpuDevice) -> None:
        """Adds a mask that often has all lanes: accesses then ask before they use it.

        Args:
          mask: the mask.
          count: the number of lanes that exist, perhaps more than there are.
          device: the CPU, which may have no masked accesses of narrow elements.
        """
        least = device.masked_bits
        if least == BYTE:
            return
        lanes = self.writer.index(self.lanes)
        full = self.writer.value(f"arith.cmpi sge, {count}, {lanes} : index")
        self._full[mask] = full, math.inf if least is None else least

    def first_lanes(self, count: int, device: CpuDevice) -> str:
        """The mask of so many lanes; empty for all.

        Where masked stores are slow or missing, those with it are stores of shorter vectors: 3x3
        of 1x3x112x112 to 64 channels f32, tiles of six pixels, took 673 us with `vmaskmovps`, some
        forty micro-operations on Zen 4.
        """
        if count >= self.lanes:
            return ""
        exist = ", ".join(str(n < count).lower() for n in range(self.lanes))
        mask = self.writer.constant(f"dense<[{exist}]>", self.vector_type("i1"))
        if device.masked_bits != BYTE:
            self._counts[mask] = count
        return mask

    def _is_full(self, mask: str, kind: ir.Type) -> str:
        """The condition for an access in place of a masked one that has no instruction, or none."""
        full, least = self._full.get(mask, ("", 0))
        return full if ir.RankedTensorType(kind).element_type.width < least else ""

    def _in_all_lanes(self, buffer: str, kind: ir.Type, at: Linear) -> str:
        element = ops.type_element(kind)
        scalar = self.writer.value(
            f"memref.load {buffer}[{self.writer.index(at)}] : {memref(kind)}"
        )
        if element == "i1":
            scalar = self.writer.value(f"arith.trunci {scalar} : i8 to i1")
        vector = self.vector_type(element)
        return self.writer.value(f"vector.broadcast {scalar} : {element} to {vector}")

    def strided(self, buffer: str, kind: ir.Type, at: Linear, step: int, mask: str = "") -> str:
        """Loads elements at a distance of `step` elements.

        Raises:
          Unsupported: they are not contiguous, and the kernel has no such loads.
        """
        if step == 1:
            return self.load(buffer, kind, at, mask)
        if 1 < step <= MAX_SPACING and not mask:
            return self.spaced(buffer, kind, at, step)
        if not self.gathers:
            raise NotContiguous("an operand whose channels are not contiguous")
        offsets = self.constant_indices([lane * step for lane in range(self.lanes)])
        return self.gathered(buffer, kind, at, offsets, mask)

    def spaced(self, buffer: str, kind: ir.Type, at: Linear, step: int) -> str:
        """Loads all elements from the first to the last one of those at a distance, and takes them.

        No vector begins before the first element or ends behind the last one.
        """
        lanes, vector = self.lanes, self._stored(kind)
        starts = [lanes * number for number in range(step - 1)] + [(lanes - 1) * (step - 1)]
        loaded = [
            self.writer.value(
                f"vector.load {buffer}[{self.writer.index(at + start)}] : {memref(kind)}, {vector}"
            )
            for start in starts
        ]
        numbers = [lane * step // lanes for lane in range(lanes)]
        places = [(n, lane * step - starts[n]) for lane, n in enumerate(numbers)]
        return self._from_memory(merged(self.writer, vector, loaded, places), kind)

    def gathered(
        self,
        buffer: str,
        kind: ir.Type,
        at: Linear,
        offsets: str,
        mask: str = "",
        index: str = "index",
    ) -> str:
        """Loads the elements at the offsets of each lane, of an integer type, from `at` on."""
        vector, indices = self._stored(kind), self.vector_type(index)
        lanes = self.vector_type("i1")
        active = mask or self.writer.constant("dense<true>", lanes)
        zero = self.writer.constant(f"dense<{_zero(kind)}>", vector)
        loaded = self.writer.value(
            f"vector.gather {buffer}[{self.writer.index(at)}] [{offsets}], {active}, {zero} :"
            f" {memref(kind)}, {indices}, {lanes}, {vector} into {vector}"
        )
        return self._from_memory(loaded, kind)

    def _stored(self, kind: ir.Type) -> str:
        """The type of a vector of a tensor's elements as they are in memory."""
        return self.vector_type(element_in_memory(kind))

    def _from_memory(self, vector: str, kind: ir.Type) -> str:
        if ops.type_element(kind) != "i1":
            return vector
        return self.writer.value(
            f"arith.trunci {vector} : {self.vector_type('i8')} to {self.vector_type('i1')}"
        )

    def load(self, buffer: str, kind: ir.Type, at: Linear, mask: str = "") -> str:
        """Loads contiguous elements."""
        vector = self._stored(kind)
        if not mask:
            text = f"vector.load {buffer}[{self.writer.index(at)}] : {memref(kind)}, {vector}"
            return self._from_memory(self.writer.value(text), kind)
        zero = self.writer.constant(f"dense<{_zero(kind)}>", vector)
        place = f"{buffer}[{self.writer.index(at)}]"

        def whole() -> list[str]:
            return [self.writer.value(f"vector.load {place} : {memref(kind)}, {vector}")]

        def masked() -> list[str]:
            loaded = self.writer.value(
                f"vector.maskedload {place}, {mask}, {zero} : "
                f"{memref(kind)}, {self.vector_type('i1')}, {vector} into {vector}"
            )
            return [loaded]

        full = self._is_full(mask, kind)
        (loaded,) = self.writer.choose(full, [vector], whole, masked) if full else masked()
        return self._from_memory(loaded, kind)

    def store(self, buffer: str, kind: ir.Type, vector: str, at: Linear, mask: str = "") -> None:
        """Stores contiguous elements."""
        held = self._stored(kind)
        if ops.type_element(kind) == "i1":
            vector = self.writer.value(f"arith.extui {vector} : {self.vector_type('i1')} to {held}")
        place = f"{buffer}[{self.writer.index(at)}]"

        def whole() -> list[str]:
            self.writer.line(f"vector.store {vector}, {place} : {memref(kind)}, {held}")
            return []

        def masked() -> list[str]:
            lanes = self.vector_type("i1")
            self.writer.line(
                f"vector.maskedstore {place}, {mask}, {vector} : {memref(kind)}, {lanes}, {held}"
            )
            return []

        full = self._is_full(mask, kind)
        if mask in self._counts:
            self._store_parts(buffer, kind, vector, at, self._counts[mask])
        elif full:
            self.writer.choose(full, [], whole, masked)
        else:
            (masked if mask else whole)()

    def _store_parts(self, buffer: str, kind: ir.Type, vector: str, at: Linear, count: int) -> None:
        """Stores the first lanes by vectors of powers of two."""
        held, element, first = self._stored(kind), element_in_memory(kind), 0
        while first < count:
            size = 1 << (count - first).bit_length() - 1
            part = f"vector<{size}x{element}>"
            lanes = [*range(first, first + size)]
            name = self.writer.value(f"vector.shuffle {vector}, {vector} {lanes} : {held}, {held}")
            place = f"{buffer}[{self.writer.index(at + first)}]"
            self.writer.line(f"vector.store {name}, {place} : {memref(kind)}, {part}")
            first += size

    def store_first(self, buffer: str, kind: ir.Type, vector: str, at: Linear) -> None:
        """Stores the first lane."""
        element = ops.type_element(kind)
        scalar = self.of_first_lane(vector, element)
        if element == "i1":
            scalar = self.writer.value(f"arith.extui {scalar} : i1 to i8")
        self.writer.line(
            f"memref.store {scalar}, {buffer}[{self.writer.index(at)}] : {memref(kind)}"
        )


def _zero(kind: ir.Type) -> str:
    return "0.0" if "f" in ops.type_element(kind) else "0"
