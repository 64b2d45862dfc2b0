"""Move a recurrence next to one that it does not depend on.

    %a = hal.dispatch.extern "recurrence_kernel"(%x)
    %y = flow.dispatch.region { the inputs of the second one }
    %b = hal.dispatch.extern "recurrence_kernel"(%y)
  becomes
    %y = flow.dispatch.region { the inputs of the second one }
    %a = hal.dispatch.extern "recurrence_kernel"(%x)
    %b = hal.dispatch.extern "recurrence_kernel"(%y)

Root: a kernel of `recurrence_triton_kernel` whose CTAs wait for none. It moves behind the last one
before it in its block, with all that it needs in front of that one: ops on tensors alone. So IREE
schedules both at the same time, neither overwrites what the other reads, and a CUDA graph runs them
beside each other, as the two directions of a bidirectional LSTM. They are two at most. Kernels
whose CTAs wait for each other fill the device alone: on an H200 an RNN of 39x169 f32 took as long
so, and an LSTM of 1x1024 did not end. Any shapes and element types. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import FusionPass, Kind, Match, NoMatch, Numerics, PassContext
from mlirfuse.kernels import passes
from mlirfuse.kernels.recurrence.family import PASS_NAME
from mlirfuse.structured.ir import marks, ops

_EXTERN = "hal.dispatch.extern"
_MOVABLE = ("arith.", "flow.", _EXTERN, "hal.tensor.", "iree_", "linalg.", "math.", "tensor.")
"""Names of ops on tensors begin so; loops and branches are not asked about what they contain."""


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the recurrence before it, and the ops between the two that it needs."""
    if not _is_recurrence(root):
        return None
    before = _ops_before(root)
    place = next((n for n in reversed(range(len(before))) if _is_recurrence(before[n])), None)
    if place is None or place == len(before) - 1 or (place and _is_recurrence(before[place - 1])):
        return None
    needed = _needed(root, before[place], before[place + 1 :])
    if needed is None:
        return None
    return Match(root, (root,), (before[place], needed))


def _is_recurrence(op: ir.Operation) -> bool:
    """Whether an op is a recurrence that updates no memory, in which CTAs meet."""
    attributes = op.attributes
    if op.name != _EXTERN or marks.KERNEL_ATTRIBUTE not in attributes:
        return False
    if attributes[marks.KERNEL_ATTRIBUTE].value != PASS_NAME:
        return False
    return all(ir.IntegerAttr(each).value < 0 for each in attributes["tied_operands"])


def _ops_before(root: ir.Operation) -> list[ir.Operation]:
    """The ops of the block before an op."""
    found = []
    for view in root.block.operations:
        if view.operation == root:
            break
        found.append(view.operation)
    return found


def _needed(
    root: ir.Operation, other: ir.Operation, between: list[ir.Operation]
) -> list[ir.Operation] | None:
    """The ops between two recurrences that the second one needs; None where it needs the first.

    Ops that may be more than functions of tensors stay where they are, and the second one too.
    """
    found: set[ir.Operation] = set()
    candidates, work = set(between), [root]
    while work:
        op = work.pop()
        for inner in (op, *ops.nested_ops(op)):
            for value in inner.operands:
                producer = ops.defining_op(value)
                if producer is None or producer in found:
                    continue
                if producer == other:
                    return None
                if producer in candidates:
                    if not producer.name.startswith(_MOVABLE):
                        return None
                    found.add(producer)
                    work.append(producer)
    return [op for op in between if op in found]


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Moves the ops."""
    other, needed = match.data
    for op in needed:
        op.move_before(other)
    match.root.move_after(other)
    return match.root


PASS = FusionPass(
    name="recurrence_order_rewrite",
    summary="Recurrences that are independent of each other come one after the other",
    roots=(_EXTERN,),
    match=match,
    prepare=passes.needs_provider,
    rewrite=rewrite,
    numerics=Numerics.EXACT,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cuda", "rocm"}),
    source="mlirfuse",
)
