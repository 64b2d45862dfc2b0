"""Arithmetic in f32 on vectors, and elements of memory in all lanes."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.kernels.vector.executable import memref
from mlirfuse.kernels.vector.pointwise import Pointwise
from mlirfuse.kernels.vector.writer import Linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

_UPPER_HALF = -(1 << 16)
"""The bits of the upper one of two bf16, as an i32."""


class LaneMath:
    """Writes arithmetic for one kernel."""

    def __init__(self, body: Pointwise, device: CpuDevice) -> None:
        self.body, self.device = body, device
        self.writer = body.writer
        self.kind = body.vector_type("f32")

    def widened(self, vector: str, element: str) -> str:
        """A vector of that element type in f32; booleans stay as they are."""
        if element in ("f32", "i1"):
            return vector
        kind = self.body.vector_type(element)
        return self.writer.value(f"arith.extf {vector} : {kind} to {self.kind}")

    def multiply_add(self, one: str, other: str, total: str) -> str:
        """`one * other + total`."""
        if self.device.has_fma:
            return self.writer.value(f"vector.fma {one}, {other}, {total} : {self.kind}")
        product = self.writer.value(f"arith.mulf {one}, {other} : {self.kind}")
        return self.writer.value(f"arith.addf {product}, {total} : {self.kind}")

    def scalar(self, buffer: str, kind: ir.Type, at: Linear) -> str:
        """An element of a tensor, in f32."""
        element = ops.type_element(kind)
        held = self.writer.value(f"memref.load {buffer}[{self.writer.index(at)}] : {memref(kind)}")
        if element == "f32":
            return held
        return self.writer.value(f"arith.extf {held} : {element} to f32")

    def broadcast_f32(self, buffer: str, buffer_type: str, at: Linear) -> str:
        """An element of a buffer of f32, in all lanes."""
        held = self.writer.value(f"memref.load {buffer}[{self.writer.index(at)}] : {buffer_type}")
        return self.writer.value(f"vector.broadcast {held} : f32 to {self.kind}")

    def broadcast(self, buffer: str, kind: ir.Type, at: Linear) -> str:
        """An element of a tensor of f16, bf16 or f32 in all lanes, in f32."""
        element = ops.type_element(kind)
        if element == "f32":
            return self.broadcast_f32(buffer, memref(kind), at)
        held = self.writer.value(f"memref.load {buffer}[{self.writer.index(at)}] : {memref(kind)}")
        bits = self.writer.value(f"arith.bitcast {held} : {element} to i16")
        return self._high_half(bits) if element == "bf16" else self._converted(bits)

    def _high_half(self, bits: str) -> str:
        """A bf16 in all lanes, in f32: broadcast from memory, in pairs, and shifted."""
        lanes = self.body.lanes
        pairs, words = f"vector<{2 * lanes}xi16>", self.body.vector_type("i32")
        both = self.writer.value(f"vector.broadcast {bits} : i16 to {pairs}")
        whole = self.writer.value(f"vector.bitcast {both} : {pairs} to {words}")
        return self.lower_half(whole)

    def lower_half(self, words: str) -> str:
        """The lower one of two bf16 in each lane, a vector of i32, in f32."""
        return self._shaped(f"arith.shli {words}, {self.body.splat('16', 'i32')}")

    def upper_half(self, words: str) -> str:
        """The upper one of two bf16 in each lane, a vector of i32, in f32."""
        return self._shaped(f"arith.andi {words}, {self.body.splat(str(_UPPER_HALF), 'i32')}")

    def _shaped(self, bits: str) -> str:
        """Vectors of i32, an expression, as f32 of these bits."""
        words = self.body.vector_type("i32")
        held = self.writer.value(f"{bits} : {words}")
        return self.writer.value(f"arith.bitcast {held} : {words} to {self.kind}")

    def _converted(self, bits: str) -> str:
        """A f16 in all lanes, in f32: broadcast in pairs, and converted as a vector.

        LLVM converts a scalar f16 in a register whose other lanes it leaves as they are, perhaps an
        accumulator's: each load would wait for a multiply-add.
        """
        few, halves = f"vector<{self.body.lanes // 2}xi32>", self.body.vector_type("f16")
        word = self.writer.value(f"arith.extui {bits} : i16 to i32")
        shift = self.writer.constant("16", "i32")
        upper = self.writer.value(f"arith.shli {word}, {shift} : i32")
        both = self.writer.value(f"arith.ori {word}, {upper} : i32")
        whole = self.writer.value(f"vector.broadcast {both} : i32 to {few}")
        return self.widened(self.writer.value(f"vector.bitcast {whole} : {few} to {halves}"), "f16")
