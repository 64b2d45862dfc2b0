"""Tensors that are updated in place while other ops read them.

    %g = linalg.generic {tensor.extract %x}            reads %x
    %y = iree_linalg_ext.scatter outs(%x)              writes to the memory of %x

IREE 3.13 gathers dispatches that may run at the same time into one op, which it inserts behind the
last of their operands (`ScheduleConcurrency`). With the scatter among them this is in front of a
lone reader of %x, which then reads what was updated. So dispatches of such a module run one after
the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from iree.compiler import ir

from mlirfuse.kernels import alignment
from mlirfuse.structured.ir import ops

IN_ORDER = ("--iree-stream-partitioning-favor=debug",)
"""No dispatches at the same time."""

_VIEWS = {*alignment.VIEWS, "flow.tensor.reshape"} - {"util.optimization_barrier"}
"""Ops whose results are their first operand; the barrier may have several."""

_FRESH = {
    "tensor.empty",
    "linalg.fill",
    "flow.tensor.splat",
    "arith.constant",
    "flow.tensor.constant",
}
"""Ops whose results IREE makes anew for each user."""

_READ_LATER = {"tensor.dim", "hal.tensor.export", "util.return"}
"""Users of a tensor that read none of it, or behind all dispatches."""


def safe_flags(module: ir.Module) -> tuple[str, ...]:
    """The flags that keep the order of a module's dispatches, where it matters."""
    return IN_ORDER if any(_is_read_beside(*update) for update in _updates(module)) else ()


def _updates(module: ir.Module) -> Iterator[tuple[ir.Operation, ir.Value]]:
    """Each op that may write its result to the memory of an operand, and the operand."""
    for op in ops.nested_ops(module.operation):
        if op.name == "tensor.insert_slice":
            yield op, op.operands[1]
        elif op.name == "flow.tensor.update":
            yield op, op.operands[0]
        elif op.name.startswith(("linalg.", "iree_linalg_ext.")) and op.name not in _FRESH:
            yield from ((op, init) for init in _read_inits(op))
        elif "tied_operands" in op.attributes and len(op.operands):
            # A dispatch has its workload first; a call has none.
            segments = "operandSegmentSizes" in op.attributes
            first = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[0] if segments else 0
            tied = [ir.IntegerAttr(each).value for each in op.attributes["tied_operands"]]
            yield from ((op, op.operands[first + index]) for index in tied if index >= 0)


def _read_inits(op: ir.Operation) -> list[ir.Value]:
    """The inits of an op, without those that the body of a generic does not read."""
    inits = ops.inits(op) if op.results else []
    if not inits or not ops.is_generic(op):
        return inits
    arguments = list(ops.body(op).arguments)[-len(inits) :]
    return [init for init, read in zip(inits, map(ops.is_read, arguments), strict=True) if read]


def _is_read_beside(update: ir.Operation, destination: ir.Value) -> bool:
    """Whether an op that the update does not wait for reads its destination."""
    base = ops.strip_views(destination, _VIEWS)
    producer = ops.defining_op(base)
    if producer is not None and producer.name in _FRESH:
        return False
    block = ops.block_of(base)
    here = ops.ancestor_in(block, update)
    readers = {ops.ancestor_in(block, op) for op in _readers(base)} - {here, None}
    return bool(readers) and not readers <= _awaited(here, block)


def _readers(value: ir.Value) -> Iterator[ir.Operation]:
    """The ops that read a tensor, or a view of it."""
    for user in ops.users(value):
        if user.name in _VIEWS:
            yield from _readers(user.results[0])
        elif user.name not in _READ_LATER:
            yield user


def _awaited(op: ir.Operation | None, block: ir.Block) -> set[ir.Operation | None]:
    """The ops of a block that an op needs results of."""
    found: set[ir.Operation | None] = set()
    work = [op]
    while work:
        current = work.pop()
        if current is None:
            continue
        for _, producer in ops.operand_producers(current):
            if producer is not None and producer.block == block and producer not in found:
                found.add(producer)
                work.append(producer)
    return found
