"""Tile registers of Intel's servers (AMX): permission, shapes, loads, products and stores.

    permission()                    a system call: whether the process may use them
    configure({4: (16, 64), ...})   ldtilecfg: rows, and bytes of a row; all registers become zero
    load(4, pointer, stride)        tileloadd
    multiply("tdpbf16ps", 0, 4, 6)  register 0 += register 4 * register 6
    store(0, pointer, stride)       tilestored

A tile register has 16 rows of 64 bytes. Linux gives a process the use of them when it asks
(`arch_prctl`), so each workgroup asks.
Source: Intel, Architecture Instruction Set Extensions Programming Reference, chapter 3.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlirfuse.kernels.vector.products import TILE_BYTES
from mlirfuse.kernels.vector.writer import Linear, Writer

ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18
"""Linux's system call on x86-64, `ARCH_REQ_XCOMP_PERM`, and `XFEATURE_XTILEDATA`."""

_CONFIGURATION = f"memref<{TILE_BYTES}xi8>"
"""Type of the table of shapes."""

_OPERANDS = {
    "ldtilecfg": "!llvm.ptr",
    "tileloadd64": "i8, !llvm.ptr, i64",
    "tilestored64": "i8, !llvm.ptr, i64",
    "tilezero": "i8",
    "tilerelease": "",
}
"""Intrinsic -> types of its operands; products have three registers."""


class TileRegisters:
    """Writes instructions on tile registers, which are numbers from 0 to 7.

    It is made at the beginning of a function.
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self._table = writer.stack(_CONFIGURATION)

    def permission(self) -> str:
        """Asks for the use of tile registers; the result is whether there is."""
        numbers = [
            self.writer.constant(str(n), "i64") for n in (ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA)
        ]
        constraints = "={rax},{rax},{rdi},{rsi},~{rcx},~{r11},~{memory}"
        error = self.writer.value(
            f'llvm.inline_asm has_side_effects "syscall", "{constraints}" {", ".join(numbers)} :'
            " (i64, i64, i64) -> i64"
        )
        zero = self.writer.constant("0", "i64")
        return self.writer.value(f"arith.cmpi eq, {error}, {zero} : i64")

    def configure(self, shapes: Mapping[int, tuple[int, int]]) -> None:
        """Sets the shapes of the registers.

        Args:
          shapes: register -> its rows, and the bytes of a row.
        """
        table = [0] * TILE_BYTES
        table[0] = 1  # the palette
        for register, (rows, row_bytes) in shapes.items():
            table[16 + 2 * register], table[48 + register] = row_bytes, rows
        row = f"vector<{TILE_BYTES}xi8>"
        held = self.writer.constant(f"dense<{table}>", row)
        zero = self.writer.index(0)
        self.writer.line(f"vector.store {held}, {self._table}[{zero}] : {_CONFIGURATION}, {row}")
        self._call("ldtilecfg", self.pointer(self._table, _CONFIGURATION, Linear(), 1))

    def release(self) -> None:
        """Ends the use of the registers."""
        self._call("tilerelease")

    def zero(self, register: int) -> None:
        """Sets a register to zeros."""
        self._call("tilezero", self._register(register))

    def load(self, register: int, pointer: str, stride: int) -> None:
        """Loads a register; its rows are at a distance of `stride` bytes."""
        step = self.writer.constant(str(stride), "i64")
        self._call("tileloadd64", self._register(register), pointer, step)

    def store(self, register: int, pointer: str, stride: int) -> None:
        """Stores a register; its rows are at a distance of `stride` bytes."""
        step = self.writer.constant(str(stride), "i64")
        self._call("tilestored64", self._register(register), pointer, step)

    def multiply(self, intrinsic: str, total: int, one: int, other: int) -> None:
        """Adds the product of two registers to a third one.

        Args:
          intrinsic: the product: `tdpbf16ps`, `tdpbssd`, ...
          total: the register that is added to.
          one: the register of rows.
          other: the register of columns, of groups of the rows' elements.
        """
        self._call(intrinsic, *map(self._register, (total, one, other)))

    def pointer(self, buffer: str, kind: str, at: Linear, size: int) -> str:
        """The address of an element of a buffer.

        Args:
          buffer: the buffer.
          kind: its type.
          at: index of the element.
          size: bytes of an element.
        """
        writer = self.writer
        place = writer.value(f"memref.extract_aligned_pointer_as_index {buffer} : {kind} -> index")
        if at.terms or at.constant:
            place = writer.value(f"arith.addi {place}, {writer.index(at * size)} : index")
        number = writer.value(f"arith.index_cast {place} : index to i64")
        return writer.value(f"llvm.inttoptr {number} : i64 to !llvm.ptr")

    def _register(self, number: int) -> str:
        return self.writer.constant(str(number), "i8")

    def _call(self, name: str, *operands: str) -> None:
        """An intrinsic without a result: tile registers are numbers, addresses pointers."""
        kinds = _OPERANDS.get(name, "i8, i8, i8")
        self.writer.line(
            f'llvm.call_intrinsic "llvm.x86.{name}"({", ".join(operands)}) : ({kinds}) -> ()'
        )
