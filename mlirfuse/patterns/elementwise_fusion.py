"""Fuse chains and trees of elementwise ops into one dispatch.

    %a = linalg.generic {mulf} ins(%x, %y)             tensor<MxNxT>
    %b = linalg.generic {addf} ins(%a, %bias)          tensor<MxNxT>
    %c = linalg.generic {tanh} ins(%b)                 tensor<MxNxT>
  becomes
    %c, %a = flow.dispatch.region { all of it }        // %a only if read elsewhere

The engine searches for the groups: neighbours are joined where the cost model says that it pays.
All ops have the space of the last one, or a smaller one that a broadcast reads and that is no
result. Several ends of a group share what it computes, not only what it reads: IREE takes a copy or
a transpose into each reader, and cannot write the results of loop nests that nothing connects. An
end of wider elements is the last of them: IREE takes no op that widens for what a dispatch is
tiled by. An op that alone reads a contraction, a convolution or a pooling stays with
it: IREE makes it their epilogue; what feeds a reduction that no group took, or goes on behind it,
IREE computes with it. Bodies of arithmetic only; any shape and element type. Numerics: exact.
Source: loop fusion, as in every compiler of this field.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, GroupRules, NoMatch, Reason
from mlirfuse.structured.ir import fusable_neighbors, ops


def takes(op: ir.Operation) -> bool | NoMatch:
    """Elementwise arithmetic that is nobody's epilogue."""
    if not ops.is_elementwise(op) or not fusable_neighbors.has_scalar_body(op):
        return False
    if fusable_neighbors.is_among_epilogues(op):
        return NoMatch(Reason.LEFT_TO_PRODUCER, op.name)
    if fusable_neighbors.is_adjacent_to_reduction(op):
        return NoMatch(Reason.LEFT_TO_PRODUCER, "a reduction beside it is in no group")
    return True


def joins(
    producer: ir.Operation, reader: ir.Operation, value: ir.Value, kept: bool
) -> NoMatch | None:
    """The value is read at the loops it is written at, or broadcast to this reader alone."""
    return fusable_neighbors.inlining_refusal(producer, reader, value, kept)


def admits(group: list[ir.Operation]) -> NoMatch | None:
    """The ops that end the group are connected by what it computes; copies and transposes are not.

    IREE's code generation tiles one op, what feeds it, and what else reads that.
    """
    read = {value for op in group for value in op.operands}
    ends = [op for op in group if read.isdisjoint(op.results)]
    if len(ends) < 2:
        return None
    mixed = not all(map(_widens, ends))
    last = _bits(ends[-1])
    wider = next((e for e in ends[:-1] if _bits(e) > last or (mixed and _widens(e))), None)
    if wider is not None:
        detail = f"{ops.described(wider)} ends the group in wider elements, before another op"
        return NoMatch(Reason.TARGET_UNSUPPORTED, detail)
    members = {op for op in group if ops.moved_input(op) is None}
    reached, work = {ends[0]}, [ends[0]]
    while work:
        op = work.pop()
        near = [ops.defining_op(v) for v in op.operands] + [
            u for r in op.results for u in ops.users(r)
        ]
        for other in near:
            if other in members and other not in reached:
                reached.add(other)
                work.append(other)
    apart = next((end for end in ends if end not in reached), None)
    if apart is None:
        return None
    names = f"{ops.described(ends[0])} and {ops.described(apart)}"
    return NoMatch(Reason.EXTRA_USERS, f"{names} share nothing but moved data")


def _widens(op: ir.Operation) -> bool:
    """Whether a result has more bits an element than something that is read: no root for IREE."""
    most = _bits(op)
    tensors = [v for v in ops.inputs(op) if ops.ranked(v) is not None]
    return any(ops.element_bits(v) < most for v in tensors)


def _bits(op: ir.Operation) -> int:
    return max(map(ops.element_bits, op.results))


PASS = FusionPass(
    name="elementwise_fusion",
    summary="Chains and trees of elementwise ops in one dispatch",
    roots=("linalg.generic",),
    rules=GroupRules(roots=("linalg.generic",), takes=takes, joins=joins, admits=admits),
    rewrite=fuse,
    source="loop fusion",
)
