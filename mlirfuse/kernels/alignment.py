"""Alignment of the buffers that a kernel reads and writes.

    %y = linalg.generic ...                                   tensor<7xf32>, a buffer of its own
    %s = tensor.extract_slice %y[3] [4] [1]
    %k = hal.dispatch.extern "concat_kernel"(%s)              12 bytes after a multiple of 16

IREE 3.13 aligns buffers to 64 bytes, but a slice of one that a dispatch wrote is a range of it, and
a result that is inserted into a larger tensor may be written there. Triton vectorizes accesses by
the alignment that it is told: a wrong one ends the program with a misaligned address.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.plan import ALIGNMENT, Plan
from mlirfuse.structured.ir import ops

VIEWS = (
    *ops.RESHAPES,
    "iree_tensor_ext.bitcast",
    "iree_tensor_ext.compute_barrier.end",
    "iree_tensor_ext.compute_barrier.start",
    "tensor.cast",
    "util.optimization_barrier",
)
"""Ops whose results are their operands' buffers, one for one."""


def with_alignments(plan: Plan, results: Sequence[ir.Value]) -> Plan | NoMatch:
    """The plan whose programs are told which of their buffers are less aligned than others.

    Args:
      plan: a plan.
      results: the values that its last kernel computes.

    Returns:
      The plan; a refusal where a kernel in Gluon, which takes alignment for granted, has such a
      buffer.
    """
    before = None
    if plan.before is not None:
        planned = with_alignments(plan.before, ())
        if isinstance(planned, NoMatch):
            return planned
        before = planned
    known = [ALIGNMENT] * (0 if before is None else len(before.scratch))
    known += [of_operand(value) for value in plan.operands]
    known += [ALIGNMENT for workspace in plan.workspaces if workspace.zeroed]
    known += [ALIGNMENT] * len(plan.scratch) or [of_result(value) for value in results]
    if plan.destination is not None:
        known[-1] = math.gcd(known[-1], of_operand(plan.destination))
    known += [ALIGNMENT for workspace in plan.workspaces if not workspace.zeroed]
    if min(known) < ALIGNMENT:
        if plan.program.in_gluon:
            text = f"a buffer that is aligned to {min(known)} bytes"
            return NoMatch(Reason.TARGET_UNSUPPORTED, text)
        program = dataclasses.replace(plan.program, alignments=tuple(known))
        plan = dataclasses.replace(plan, program=program)
    return plan if before is None else dataclasses.replace(plan, before=before)


def of_operand(value: ir.Value) -> int:
    """Bytes, at most `ALIGNMENT`, to which the buffer of a value is certainly aligned."""
    return _of_values([value])


def of_result(value: ir.Value) -> int:
    """The same for the buffer that an op writes its result into."""
    found = ALIGNMENT
    for user in ops.users(value):
        if user.name in VIEWS:
            found = math.gcd(found, of_result(user.results[list(user.operands).index(value)]))
        elif user.name == "tensor.insert_slice" and user.operands[0] == value:
            offset = _offset(user, user.operands[1])
            found = math.gcd(found, offset, of_result(user.results[0]))
    return found


def _of_values(values: list[ir.Value]) -> int:
    """The alignment of all values and of those that they are views of."""
    found, seen = ALIGNMENT, set()
    while values:
        value = values.pop()
        if value in seen:
            continue
        seen.add(value)
        op = ops.defining_op(value)
        if op is None:
            values += _incoming(value)
        elif op.name in VIEWS:
            values.append(op.operands[list(op.results).index(value)])
        elif op.name == "tensor.extract_slice":
            found = math.gcd(found, _offset(op, op.operands[0]))
            values.append(op.operands[0])
        elif op.name == "tensor.insert_slice":
            values.append(op.operands[1])
        elif op.name in ("scf.for", "scf.if", "scf.while"):
            values += _outgoing(op, list(op.results).index(value))
    return found


def _offset(op: ir.Operation, whole: ir.Value) -> int:
    """Bytes that divide the offset of a slice in a tensor; 0 for the start of the tensor."""
    dynamic = ir.ShapedType.get_dynamic_size()
    bytes_before, found = max(1, ops.element_bits(whole) // 8), 0
    offsets = list(op.attributes["static_offsets"])
    for offset, size in zip(reversed(offsets), reversed(ops.shape(whole)), strict=True):
        found = math.gcd(found, bytes_before * (1 if offset == dynamic else offset))
        bytes_before *= size or 1
    return found


def _incoming(argument: ir.Value) -> Iterator[ir.Value]:
    """The values that a block's argument takes in a loop, or at the calls of a private function."""
    block, index = argument.owner, ir.BlockArgument(argument).arg_number
    parent = block.owner.operation
    if parent.name == "scf.for" and index:
        yield parent.operands[index + 2]
        yield _last(parent, 0).operands[index - 1]
    elif parent.name == "scf.while" and block == parent.regions[0].blocks[0]:
        yield parent.operands[index]
        yield _last(parent, 1).operands[index]
    elif parent.name == "scf.while":
        yield _last(parent, 0).operands[index + 1]
    elif "sym_name" in parent.attributes:
        name = parent.attributes["sym_name"].value
        for op in ops.nested_ops(parent.parent.operation):
            if op.name == "util.call" and op.attributes["callee"].value == name:
                yield op.operands[index]


def _outgoing(op: ir.Operation, index: int) -> Iterator[ir.Value]:
    """The values that a result of `scf.if`, `scf.for` or `scf.while` takes."""
    if op.name == "scf.while":
        yield _last(op, 0).operands[index + 1]
        return
    if op.name == "scf.for":
        yield op.operands[index + 3]
    for number, region in enumerate(op.regions):
        if len(region.blocks):
            yield _last(op, number).operands[index]


def _last(op: ir.Operation, region: int) -> ir.Operation:
    block = op.regions[region].blocks[0]
    last: ir.Operation = block.operations[len(block.operations) - 1].operation
    return last
