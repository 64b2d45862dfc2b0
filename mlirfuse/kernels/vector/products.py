"""Instructions that multiply several elements of K and add them to one accumulator.

    accumulator[n] += image[k] * filter[k, n] + ... + image[k + 3] * filter[k + 3, n]

    tdpbf16ps, tdpbssd, ...    tiles of bf16 or of bytes of any signs     AMX: `matrix`
    vpdpbusd       four of u8 times s8      AVX-512 VNNI, AVX-VNNI
    sdot, usdot    four of s8, or u8, times s8     ARM
    vpmaddwd       two of i16, to which i8 is widened      any x86
    vdpbf16ps      two of bf16     AVX-512 BF16

Integers are exact. Where an instruction wants the other sign of the image, its bytes are shifted by
128, and the accumulators start from 128 times the sums of the filter's columns.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

SHIFT = 128
"""Difference between a byte as unsigned and the same with its highest bit flipped as signed."""


TILE_ROWS, TILE_BYTES = 16, 64
"""Rows of a tile register of AMX, and bytes of a row."""


@dataclasses.dataclass(frozen=True, slots=True)
class Operands:
    """Element types of a contraction.

    Attributes:
      image: element type of the image.
      filter: element type of the filter.
      accumulator: element type of the accumulators.
      image_is_unsigned: whether integers of the image are unsigned.
      filter_is_unsigned: whether integers of the filter are unsigned.
    """

    image: str
    filter: str
    accumulator: str
    image_is_unsigned: bool = False
    filter_is_unsigned: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Product:
    """How the elements of a step of K are multiplied.

    Attributes:
      group: elements of K in a step.
      intrinsic: LLVM's name of the instruction; empty for a multiplication and an addition.
      operand: element type of the vectors that it takes.
      adds: whether it adds to the accumulators.
      of_tiles: whether it multiplies tile registers.
      shift: what is added to each element of the image: 0, or `SHIFT` or its negative, which are
        the same flip of a bit.
    """

    group: int
    intrinsic: str
    operand: str
    adds: bool = True
    of_tiles: bool = False
    shift: int = 0

    @property
    def step(self) -> int:
        """Elements of K of a step of the kernel."""
        return self.group * (TILE_ROWS if self.of_tiles else 1)


def is_product_of_bytes(op: ir.Operation) -> bool:
    """Whether a contraction of i8, signed or not, has accumulators of i32."""
    kinds = [ops.element_type(v) for v in op.operands]
    return ops.is_contraction(op) and kinds == ["i8", "i8", "i32"]


def is_supported(op: ir.Operation) -> bool:
    """Whether a contraction has element types beyond those that are the same for both operands.

    They are bytes with accumulators of i32, and f32 with f16 or bf16.
    """
    kinds = [ops.element_type(v) for v in op.operands]
    is_mixed = set(kinds[:2]) in ({"f16", "f32"}, {"bf16", "f32"}) and kinds[2] == "f32"
    return is_product_of_bytes(op) or (ops.is_contraction(op) and is_mixed)


def is_left_to_iree(op: ir.Operation, device: CpuDevice) -> bool:
    """Whether IREE's microkernels multiply faster: i8 with `smmla`, twice as wide as `sdot`."""
    return is_product_of_bytes(op) and device.architecture == "aarch64" and device.has("i8mm")


def operands_of(op: ir.Operation, image: int, weight: int) -> Operands:
    """The element types of a contraction.

    Args:
      op: the contraction.
      image: index of the image among its operands.
      weight: index of the filter.
    """
    unsigned = [_is_unsigned(op, n) for n in range(2)]
    return Operands(
        ops.element_type(op.operands[image]),
        ops.element_type(op.operands[weight]),
        ops.element_type(op.results[0]),
        unsigned[image],
        unsigned[weight],
    )


def _is_unsigned(op: ir.Operation, number: int) -> bool:
    """Whether a contraction widens an operand as an unsigned integer."""
    users = [use.owner.name for use in ops.body(op).arguments[number].uses]
    return "arith.extui" in users


def choose(kinds: Operands, device: CpuDevice, *, has_channels: bool) -> Product | None:
    """The fastest product of these types; None where only floats that are widened are multiplied.

    Args:
      kinds: the element types.
      device: the CPU.
      has_channels: whether there is a loop over input channels.
    """
    if kinds.image == kinds.filter == "bf16":
        intrinsic = _of_bf16(device) if has_channels else ""
        return Product(2, intrinsic, "bf16") if intrinsic else None
    if kinds.accumulator != "i32":
        return None
    plain = Product(1, "", "i32", adds=False)
    return (_of_bytes(kinds, device) or _of_words(device) or plain) if has_channels else plain


def of_tiles(kinds: Operands, device: CpuDevice, *, rows: int) -> Product | None:
    """The product of tile registers; None where there is none, or too few rows to fill one.

    Args:
      kinds: the element types.
      device: the CPU.
      rows: rows of the image.
    """
    if rows < TILE_ROWS or device.vector_bytes != TILE_BYTES:
        return None
    if kinds.image == kinds.filter == "bf16" and device.has("amx-bf16"):
        return Product(2, "llvm.x86.tdpbf16ps", "bf16", of_tiles=True)
    if kinds.accumulator == "i32" and device.has("amx-int8"):
        signs = ["u" if u else "s" for u in (kinds.image_is_unsigned, kinds.filter_is_unsigned)]
        return Product(4, f"llvm.x86.tdpb{''.join(signs)}d", "i8", of_tiles=True)
    return None


def _of_bf16(device: CpuDevice) -> str:
    bits = device.vector_bytes * 8
    if device.has("avx512bf16") and (bits == 512 or device.has("avx512vl")):
        return f"llvm.x86.avx512bf16.dpbf16ps.{bits}"
    return ""


def _of_bytes(kinds: Operands, device: CpuDevice) -> Product | None:
    """The product of four bytes, if the CPU has one for a signed filter."""
    if kinds.filter_is_unsigned:
        return None
    bits = device.vector_bytes * 8
    whole = device.has("avx512vnni") and (bits == 512 or device.has("avx512vl"))
    if whole or (bits == 256 and device.has("avxvnni")):
        shift = 0 if kinds.image_is_unsigned else SHIFT
        return Product(4, f"llvm.x86.avx512.vpdpbusd.{bits}", "i8", shift=shift)
    if device.architecture == "aarch64" and device.has("dotprod") and bits == 128:
        shift = -SHIFT if kinds.image_is_unsigned else 0
        return Product(4, "llvm.aarch64.neon.sdot.v4i32.v16i8", "i8", shift=shift)
    return None


def _of_words(device: CpuDevice) -> Product | None:
    """The product of two bytes that are widened to 16 bits: exact, unlike that of `vpmaddubsw`."""
    bits = device.vector_bytes * 8
    name = {128: "sse2.pmadd.wd", 256: "avx2.pmadd.wd", 512: "avx512.pmaddw.d.512"}.get(bits, "")
    wanted = {256: "avx2", 512: "avx512bw"}.get(bits)
    if device.architecture != "x86_64" or not name or (wanted and not device.has(wanted)):
        return None
    return Product(2, f"llvm.x86.{name}", "i16", adds=False)
