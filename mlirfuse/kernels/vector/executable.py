"""A kernel in the vector dialect in the place of a region.

%y = flow.dispatch.region { ... }
becomes
hal.executable.source private @vector_kernel_1f00 { func.func { scf, vector, memref } }
%y = flow.dispatch @vector_kernel_1f00::@conv(%x, %w)
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
from collections.abc import Mapping

from iree.compiler import ir

from mlirfuse.builders.destination_builder import zeroed_memory
from mlirfuse.kernels import calls
from mlirfuse.structured.ir import ops

NAME = "vector_kernel"
"""Beginning of the symbols of executables of ours."""

TILES_ATTRIBUTE, IN_PLACE_ATTRIBUTE = "mlirfuse.tiles", "mlirfuse.in_place"
"""On a call: `tiles` and `in_place` of its kernel."""

STACK_ATTRIBUTE = "mlirfuse.stack"
"""On a call: bytes of its kernel's buffers on the stack; absent without one."""

_STACK = re.compile(r"memref\.alloca.*: (?:\(\) -> )?memref<(\d+)x([a-z]+)(\d+)>")

SOURCE = "hal.executable.source"
"""Name of the op that holds a kernel."""


@dataclasses.dataclass(frozen=True, slots=True)
class VectorKernel:
    """A kernel that computes a region.

    Attributes:
      entry: name of its function.
      lines: body of the function, in which `%x0`, `%x1`, ... are its operands and `%y0`, ... its
        results, as memrefs of one dimension.
      operands: tensors that it reads; a string stands for one that is made for it.
      kinds: their types.
      results: types of the tensors that it writes.
      grid: numbers of workgroups along x and y.
      scratch: types of tensors behind the results, in which it keeps values of its own.
      zeroed: types of further such tensors, `%z0`, ..., which are zeros when it begins.
      operations: operations that it computes, where these are not those of the region's ops.
      tiles: how its workgroups divide the results, which have one layout; empty if not described.
        Kernels with the same description and grid write the same parts.
      in_place: numbers of the operands of which a workgroup reads the part that it writes.
    """

    entry: str
    lines: tuple[str, ...]
    operands: tuple[ir.Value | str, ...]
    kinds: tuple[ir.Type, ...]
    results: tuple[ir.Type, ...]
    grid: tuple[int, int]
    scratch: tuple[ir.Type, ...] = ()
    zeroed: tuple[ir.Type, ...] = ()
    operations: int | None = None
    tiles: str = ""
    in_place: tuple[int, ...] = ()


def memref(kind: ir.Type) -> str:
    """The type of a tensor's elements in memory, in one dimension."""
    return f"memref<{math.prod(ops.type_shape(kind))}x{element_in_memory(kind)}>"


def element_in_memory(kind: ir.Type) -> str:
    """The type of a tensor's elements in memory, where a boolean is a byte."""
    element = ops.type_element(kind)
    return "i8" if element == "i1" else element


def replace(
    region: ir.Operation, kernel: VectorKernel, made: Mapping[str, ir.Value]
) -> ir.Operation:
    """Replaces a region by a call of a kernel, whose executable is added to the module.

    Args:
      region: a `flow.dispatch.region`.
      kernel: the kernel that computes it.
      made: the operands that were made for it.

    Returns:
      The `flow.dispatch`, which names the ops of the region.
    """
    made_by = call(region, kernel, made)
    for old, new in zip(region.results, made_by.results[: len(kernel.results)], strict=True):
        old.replace_all_uses_with(new)
    calls.describe([made_by], region, kernel.operations)
    region.erase()
    return made_by


def call(region: ir.Operation, kernel: VectorKernel, made: Mapping[str, ir.Value]) -> ir.Operation:
    """Calls a kernel before a region; its executable is added to the module.

    Args:
      region: a `flow.dispatch.region`.
      kernel: the kernel.
      made: the operands that were made for it.
    """
    module = ops.module_of(region)
    parts = [kernel.grid, *kernel.kinds, "results", *kernel.results, *kernel.scratch]
    parts += ["zeroed", *kernel.zeroed] if kernel.zeroed else []
    parts += kernel.lines
    digest = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:12]
    # IREE links all kernels of a program together: functions have names of their own, too.
    symbol, entry = f"{NAME}_{digest}", f"{kernel.entry}_{digest}"
    if symbol not in ir.SymbolTable(module):
        with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]), region.location:
            source = ir.Operation.parse(_text(kernel, symbol, entry))
            ir.InsertionPoint.current.insert(source)
    written = len(kernel.results) + len(kernel.scratch)
    with ir.InsertionPoint(region), region.location:
        arguments = [made[v] if isinstance(v, str) else v for v in kernel.operands]
        arguments += [zeroed_memory(kind) for kind in kernel.zeroed]
        places = [-1] * written + list(range(len(kernel.operands), len(arguments)))
        index = ", ".join(f"{place} : index" for place in places)
        tied = {"tied_operands": ir.Attribute.parse(f"[{index}]")} if kernel.zeroed else {}
        return ir.Operation.create(
            "flow.dispatch",
            results=[*kernel.results, *kernel.scratch, *kernel.zeroed],
            operands=arguments,
            attributes={
                "entry_points": ir.Attribute.parse(f"[@{symbol}::@{entry}]"),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, len(arguments), 0, 0]),
                **tied,
                **_description(kernel),
            },
        )


def _description(kernel: VectorKernel) -> dict[str, ir.Attribute]:
    """Attributes of a call for the passes that join calls."""
    found: dict[str, ir.Attribute] = {}
    if kernel.tiles:
        found[TILES_ATTRIBUTE] = ir.StringAttr.get(kernel.tiles)
        found[IN_PLACE_ATTRIBUTE] = ir.DenseI64ArrayAttr.get(kernel.in_place)
    if stack := _stack_bytes(kernel):
        found[STACK_ATTRIBUTE] = ir.IntegerAttr.get(ir.IndexType.get(), stack)
    return found


def _stack_bytes(kernel: VectorKernel) -> int:
    """Bytes of its buffers on the stack."""
    found = (_STACK.search(line) for line in kernel.lines)
    return sum(int(kind[1]) * int(kind[3]) // 8 for kind in found if kind is not None)


def _text(kernel: VectorKernel, symbol: str, entry: str) -> str:
    written = [*kernel.results, *kernel.scratch]
    kinds = [*kernel.kinds, *kernel.zeroed, *written]
    names = [f"%x{n}" for n in range(len(kernel.kinds))]
    names += [f"%z{n}" for n in range(len(kernel.zeroed))]
    names += [f"%y{n}" for n in range(len(written))]
    reads = len(kernel.operands)
    bindings = ", ".join(
        "#hal.pipeline.binding<storage_buffer" + (", ReadOnly>" if n < reads else ">")
        for n in range(len(kinds))
    )
    layout = f"#hal.pipeline.layout<bindings = [{bindings}]>"
    buffers = [
        f"{names[n]} = hal.interface.binding.subspan"
        f" layout({layout}) binding({n}) offset(%zero)"
        f"{' flags(ReadOnly)' if n < reads else ''} : {memref(kind)}"
        for n, kind in enumerate(kinds)
    ]
    x, y = kernel.grid
    return "\n".join(
        [
            f"{SOURCE} private @{symbol} {{",
            f"hal.executable.export public @{entry} ordinal(0) layout({layout})"
            " count(%device: !hal.device) -> (index, index, index) {",
            f"%x = arith.constant {x} : index",
            f"%y = arith.constant {y} : index",
            "%one = arith.constant 1 : index",
            "hal.return %x, %y, %one : index, index, index",
            "}",
            "builtin.module {",
            f"func.func @{entry}() attributes {{translation_info ="
            " #iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline>} {",
            "%zero = arith.constant 0 : index",
            *buffers,
            *kernel.lines,
            "return",
            "}",
            "}",
            "}",
        ]
    )
