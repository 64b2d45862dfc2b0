"""One dispatch of several kernels in the vector dialect.

%a = flow.dispatch @vector_kernel_1f00::@matmul(%x, %v)
%b = flow.dispatch @vector_kernel_1f00::@matmul(%x, %w)
becomes
%a, %b = flow.dispatch @vector_kernel_77aa::@joint(%x, %v, %w)

Its workgroups are those of the kernels, one kernel after the other. A kernel that is called several
times is there once, and selects its operands. A kernel that reads of another one only what the same
workgroup wrote comes behind it in each workgroup.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from mlirfuse.kernels import calls as calls_of_kernels
from mlirfuse.kernels.vector import executable
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.workgroups import RESERVED
from mlirfuse.kernels.vector.writer import Linear, Writer, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

_SUBSPAN = re.compile(
    r"(%\w+) = hal\.interface\.binding\.subspan .* binding\((\d+)\) .* : (memref<.*>)"
)
_ID = re.compile(r"(%\w+) = hal\.interface\.workgroup\.id\[(\d)\].*")
_STACK = re.compile(r"(%\w+) = memref\.alloca\(.* : (memref<.*>)")
_NAME = re.compile(r"%\w+")

Chain = tuple[ir.Operation, ...]
"""Calls of which each may read results of earlier ones, in the parts that its workgroup wrote."""


def is_call(op: ir.Operation) -> bool:
    """Whether an op calls a kernel in the vector dialect that writes into no tensor of its own."""
    return (
        op.name == "flow.dispatch"
        and "tied_operands" not in op.attributes
        and str(op.attributes["entry_points"]).startswith(f"[@{executable.NAME}_")
    )


def stack_bytes(call: ir.Operation) -> int:
    """Bytes on the stack of the kernel that an op calls."""
    name = executable.STACK_ATTRIBUTE
    return ir.IntegerAttr(call.attributes[name]).value if name in call.attributes else 0


def continues(call: ir.Operation, producer: ir.Operation) -> bool:
    """Whether each workgroup of a call reads of a producer only what its workgroup writes."""
    name = executable.TILES_ATTRIBUTE
    if any(name not in op.attributes for op in (call, producer)):
        return False
    if call.attributes[name] != producer.attributes[name]:
        return False
    written = {*producer.results}
    read = {number for number, value in enumerate(call.operands) if value in written}
    return read <= {*call.attributes[executable.IN_PLACE_ATTRIBUTE]}


@dataclasses.dataclass(frozen=True, slots=True)
class _Kernel:
    """A kernel of a module, as text.

    Attributes:
      buffers: names of its operands and results, in the order of their bindings.
      kinds: their types.
      ids: names of its ids of workgroups, along x or y.
      stack: names of its buffers on the stack, and their types.
      lines: the rest of its body.
      grid: numbers of workgroups along x and y.
    """

    buffers: tuple[str, ...]
    kinds: tuple[str, ...]
    ids: tuple[tuple[str, int], ...]
    stack: tuple[tuple[str, str], ...]
    lines: tuple[str, ...]
    grid: tuple[int, int]


def _kernel(source: ir.Operation) -> _Kernel:
    """Reads a kernel that `executable` has written."""
    export, module = (view.operation for view in list(source.regions[0].blocks[0].operations)[:2])
    returned = export.regions[0].blocks[0].operations[-1].operation
    x, y = (int(ops.constant(count) or 0) for count in list(returned.operands)[:2])
    function = module.regions[0].blocks[0].operations[0].operation
    text = function.get_asm(use_local_scope=True, enable_debug_info=False)
    lines = [line.strip() for line in text.splitlines()[1:-2]]
    buffers, ids, stack, rest = {}, [], [], []
    for line in lines:
        if found := _SUBSPAN.fullmatch(line):
            buffers[int(found[2])] = found[1], found[3]
        elif found := _ID.fullmatch(line):
            ids.append((found[1], int(found[2])))
        elif found := _STACK.fullmatch(line):
            stack.append((found[1], found[2]))
        else:
            rest.append(line)
    names, kinds = zip(*(buffers[number] for number in sorted(buffers)), strict=True)
    return _Kernel(names, kinds, tuple(ids), tuple(stack), tuple(rest), (x, y))


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """Chains of calls of the same kernels, in the same order.

    Attributes:
      kernels: the kernels, which have the same grid.
      buffers: for each chain, names of the buffers of each call.
    """

    kernels: list[_Kernel]
    buffers: list[list[tuple[str, ...]]]

    @property
    def count(self) -> int:
        """Workgroups of all chains."""
        return math.prod(self.kernels[0].grid) * len(self.buffers)

    def write(self, writer: Writer, number: Linear) -> None:
        """Writes the bodies for a workgroup, by its number among those of these chains."""
        grid = self.kernels[0].grid
        which = writer.binary("divui", number, math.prod(grid))
        within = linear(writer.binary("remui", number, math.prod(grid)))
        places = [writer.index(place) for place in writer.split(within, grid[::-1])][::-1]
        for ordinal, kernel in enumerate(self.kernels):
            known = {name: places[axis] for name, axis in kernel.ids}
            calls = zip(*(chain[ordinal] for chain in self.buffers), strict=True)
            for name, kind, bound in zip(kernel.buffers, kernel.kinds, calls, strict=True):
                known[name] = _selected(writer, which, kind, bound)
            for number_of_stack, (name, kind) in enumerate(kernel.stack):
                known[name] = writer.stack(kind, use=f"buffer {number_of_stack}")
            for line in kernel.lines:
                writer.line(_renamed(line, known, f"%n{ordinal}_"))


def _renamed(line: str, known: Mapping[str, str], prefix: str) -> str:
    """A line with other names of its values: known ones, or the same behind a prefix."""
    return _NAME.sub(lambda name: known.get(name[0], prefix + name[0][1:]), line)


def _selected(writer: Writer, which: str, kind: str, buffers: Sequence[str]) -> str:
    """The buffer of a certain number, of several of the same type."""
    chosen = buffers[0]
    for ordinal, other in enumerate(buffers if len({*buffers}) > 1 else ()):
        if ordinal:
            is_it = writer.binary("cmpi eq,", which, ordinal)
            chosen = writer.value(f"arith.select {is_it}, {other}, {chosen} : {kind}")
    return chosen


def join(chains: Sequence[Chain], anchor: ir.Operation, device: CpuDevice) -> ir.Operation:
    """Replaces calls by one.

    Args:
      chains: chains of calls, none of which reads the result of another chain.
      anchor: the op before which the call is.
      device: the CPU.
    """
    calls = [call for chain in chains for call in chain]
    results = tuple(value for call in calls for value in call.results)
    read = dict.fromkeys(value for call in calls for value in call.operands)
    operands = tuple(value for value in read if value not in results)
    names = {value: f"%x{number}" for number, value in enumerate(operands)}
    names |= {value: f"%y{number}" for number, value in enumerate(results)}
    called: dict[tuple[str, ...], list[Chain]] = {}
    for chain in chains:
        called.setdefault(tuple(map(_symbol, chain)), []).append(chain)
    table = ir.SymbolTable(ops.module_of(calls[0]))
    parts = [
        _Part(
            [_kernel(table[symbol].operation) for symbol in symbols],
            [[_buffers(call, names) for call in chain] for chain in alike],
        )
        for symbols, alike in called.items()
    ]
    total = sum(part.count for part in parts)
    workgroups = min(total, device.cores * RESERVED - 1)
    writer = Writer()

    def one(number: str, _: list[str]) -> list[str]:
        _write_from(writer, parts, linear(number))
        return []

    identity = writer.value("hal.interface.workgroup.id[0] : index")
    if workgroups == total:
        one(identity, [])
    else:
        first, last = (_start(writer, linear(identity) + n, total, workgroups) for n in (0, 1))
        writer.loop(first, last, 1, [], [], one)
    kernel = VectorKernel(
        entry="joint",
        lines=tuple(writer.text()),
        operands=operands,
        kinds=tuple(value.type for value in operands),
        results=tuple(value.type for value in results),
        grid=(workgroups, 1),
    )
    made = executable.call(anchor, kernel, {})
    for old, new in zip(results, made.results, strict=True):
        old.replace_all_uses_with(new)
    calls_of_kernels.describe_joint(made, calls)
    for call in reversed(calls):
        call.erase()
    return made


def _start(writer: Writer, workgroup: Linear, total: int, workgroups: int) -> str:
    """The first part of a workgroup, of which each takes fewer than the one before.

    IREE gives a thread eight workgroups at once where there are eight for each; of fewer it takes
    one after the other, and the last ones end together.
    """
    rest = writer.index(linear(workgroups) + workgroup * -1)
    square = writer.binary("muli", rest, rest)
    left = writer.binary("divui", linear(square) * total, workgroups * workgroups)
    return writer.index(linear(total) + linear(left) * -1)


def _buffers(call: ir.Operation, names: Mapping[ir.Value, str]) -> tuple[str, ...]:
    """Names of the buffers of a call, in the order of its kernel's."""
    return tuple(names[value] for value in (*call.operands, *call.results))


def _write_from(writer: Writer, parts: Sequence[_Part], number: Linear) -> None:
    """Writes the bodies of parts, of which a workgroup computes one, by its number among them."""
    if len(parts) == 1:
        parts[0].write(writer, number)
        return
    count = parts[0].count

    def first() -> list[str]:
        parts[0].write(writer, number)
        return []

    def rest() -> list[str]:
        _write_from(writer, parts[1:], number + -count)
        return []

    writer.choose(writer.binary("cmpi ult,", number, count), [], first, rest)


def _symbol(call: ir.Operation) -> str:
    """The symbol of the executable of a call."""
    return str(call.attributes["entry_points"]).split("@")[1].removesuffix("::")
