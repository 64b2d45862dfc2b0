"""The memory that the commands of a call access, from the IR after IREE's phase stream.

stream.cmd.execute with(%0 as %arg0: ..., %1 as %arg1: ...) {
  stream.cmd.concurrent {
    stream.cmd.dispatch @...::@recurrence_kernel { ro %arg0[%c0 for %c64], wo %arg1[...] }
    stream.cmd.fill %value, %arg1[%c64 for %c32]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator

from iree.compiler import ir

from mlirfuse.detached_kernels import DetachedKernels
from mlirfuse.structured.ir import ops

_EXECUTE = "stream.cmd.execute"
_NESTING = frozenset({"stream.cmd.concurrent", "stream.cmd.serial"})
_READ, _WRITE = 1, 2
"""Bits of `resource_accesses` of a dispatch."""

_RESOURCES, _OFFSETS, _LENGTHS = 2, 4, 5
"""Operand segments of a dispatch."""

_END = float("inf")


@dataclasses.dataclass(frozen=True, slots=True)
class _Access:
    """Bytes of a resource that a command reads or writes.

    Attributes:
      resource: the resource, outside of the execution.
      first: offset of the first byte.
      end: offset behind the last one; infinite where they are not known.
      writes: whether it writes.
    """

    resource: ir.Value
    first: float
    end: float
    writes: bool

    def conflicts(self, other: _Access) -> bool:
        """Whether one of the two has to wait for the other."""
        if self.resource != other.resource or not (self.writes or other.writes):
            return False
        return self.first < other.end and other.first < self.end


def detached(module: ir.Module, names: Collection[str]) -> DetachedKernels | None:
    """The kernels of some names, and the later commands of a call that wait for them.

    Kernels that update memory are left out: their CTAs wait for each other, and may not get an SM
    each beside those of another one.

    Args:
      module: the IR after the phase stream.
      names: names of entry points.

    Returns:
      None where a call has no such kernel, or where its commands may differ from call to call.
    """
    executions = [op for f in ops.functions(module) for op in _executions(f)]
    if len(executions) != 1:
        return None
    (execution,) = executions
    if execution.parent.operation.name not in ("util.func", "func.func"):
        return None
    outside = dict(zip(execution.regions[0].blocks[0].arguments, execution.operands, strict=False))
    commands = list(_commands(execution.regions[0].blocks[0]))
    accesses = []
    for op in commands:
        found = _accesses(op, outside)
        if found is None:
            return None
        accesses.append(found)
    users = {}
    for index, op in enumerate(commands):
        if op.name == "stream.cmd.dispatch" and _entry(op) in names and not _updates(op):
            users[index] = tuple(
                later
                for later in range(index + 1, len(commands))
                if any(a.conflicts(b) for a in accesses[index] for b in accesses[later])
            )
    return DetachedKernels(len(commands), users) if users else None


def _executions(function: ir.Operation) -> Iterator[ir.Operation]:
    if "initializer" not in function.name:
        yield from (op for op in ops.nested_ops(function) if op.name == _EXECUTE)


def _commands(block: ir.Block) -> Iterator[ir.Operation]:
    """The commands in the order in which they are issued."""
    for view in block.operations:
        op = view.operation
        if op.name in _NESTING:
            yield from _commands(op.regions[0].blocks[0])
        elif op.name.startswith("stream.cmd."):
            yield op


def _accesses(op: ir.Operation, outside: dict[ir.Value, ir.Value]) -> list[_Access] | None:
    """The accesses of a command; None for one of another kind."""
    given = list(op.operands)
    if op.name == "stream.cmd.fill":
        resource, _, offset, length, *_ = given
        return [_access(outside[resource], offset, length, writes=True)]
    if op.name == "stream.cmd.copy":
        source, _, source_offset, target, _, target_offset, length = given
        return [
            _access(outside[source], source_offset, length, writes=False),
            _access(outside[target], target_offset, length, writes=True),
        ]
    if op.name != "stream.cmd.dispatch":
        return None
    segments, start = [], 0
    for size in ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]):
        segments.append(given[start : start + size])
        start += size
    bound = zip(
        segments[_RESOURCES], segments[_OFFSETS], segments[_LENGTHS], _kinds(op), strict=True
    )
    return [
        _access(outside[resource], offset, length, writes=bool(kind & _WRITE))
        for resource, offset, length, kind in bound
        if kind & (_READ | _WRITE)
    ]


def _access(resource: ir.Value, offset: ir.Value, length: ir.Value, *, writes: bool) -> _Access:
    """An access; a part of a resource that is one of another is any part of that."""
    first, size = ops.constant(offset), ops.constant(length)
    op = ops.defining_op(resource)
    while op is not None and op.name == "stream.resource.subview":
        resource, first = op.operands[0], None
        op = ops.defining_op(resource)
    if not isinstance(first, int) or not isinstance(size, int):
        return _Access(resource, 0, _END, writes)
    return _Access(resource, first, first + size, writes)


def _updates(dispatch: ir.Operation) -> bool:
    """Whether a kernel reads and writes the same memory."""
    return any(kind & _READ and kind & _WRITE for kind in _kinds(dispatch))


def _kinds(dispatch: ir.Operation) -> list[int]:
    """Bits of how a dispatch accesses each of its resources."""
    return [ir.IntegerAttr(each).value for each in dispatch.attributes["resource_accesses"]]


def _entry(dispatch: ir.Operation) -> str:
    return str(list(ir.SymbolRefAttr(dispatch.attributes["entry_points"][0]).value)[-1])
