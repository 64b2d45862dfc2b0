"""Fuse chains and trees of elementwise ops into one dispatch.

    %a = linalg.generic {mulf} ins(%x, %y)             tensor<MxNxT>
    %b = linalg.generic {addf} ins(%a, %bias)          tensor<MxNxT>
    %c = linalg.generic {tanh} ins(%b)                 tensor<MxNxT>
  becomes
    %c, %a = flow.dispatch.region { all of it }        // %a only if used elsewhere

The engine searches for the groups: neighbors are fused where the cost model predicts a gain. All
ops have the iteration space of the last one, or a smaller one whose result is broadcast in the
group and used nowhere else. Several last ops of a group have computed values in common, not only
operands: IREE clones a copy or a transpose into each user, and cannot write the results of
unconnected loop nests. A last op with wider elements comes after the others: IREE never tiles a
dispatch by an op that widens.

On a CPU ops whose one result is read transposed by one elementwise op are left to IREE, which fuses
all of them with that op: the group would write the result.

For a kernel a group also takes at once all ops that it alone uses, through one another, where each
pair of them would have too many results, or booleans with other users.

The only user of a contraction, a convolution or a pooling stays with it: IREE fuses it as their
epilogue. A producer or user of a reduction in no group stays with the reduction. Bodies of
arithmetic only; any shape and element type. Numerics: exact.
Source: loop fusion, as in every compiler of this field.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, GroupRules, Match, NoMatch, PassContext, Reason
from mlirfuse.kernels.pointwise import profitability
from mlirfuse.structured.ir import fusable_neighbors, ops
from mlirfuse.structured.recognize import counted_loops


def takes(op: ir.Operation) -> bool | NoMatch:
    """Elementwise arithmetic that is in no op's epilogue."""
    if not ops.is_elementwise(op) or not fusable_neighbors.has_scalar_body(op):
        return False
    if fusable_neighbors.is_among_epilogues(op):
        return NoMatch(Reason.LEFT_TO_PRODUCER, op.name)
    if fusable_neighbors.feeds_epilogue(op):
        return NoMatch(Reason.LEFT_TO_PRODUCER, f"it computes an operand of an epilogue: {op.name}")
    if fusable_neighbors.is_adjacent_to_reduction(op):
        return NoMatch(Reason.LEFT_TO_PRODUCER, "a reduction next to it is in no group")
    return True


def joins(
    producer: ir.Operation, user: ir.Operation, value: ir.Value, kept: bool
) -> NoMatch | None:
    """The value is read with the map that it is written with, or broadcast to this user alone."""
    return fusable_neighbors.inlining_refusal(producer, user, value, kept)


def admits(group: list[ir.Operation]) -> NoMatch | None:
    """The group's last ops are connected by computed values, not by copies and transposes alone.

    IREE's code generation tiles one op, its producers, and their other users. It folds a group
    that reads splat constants alone, and refuses results that are equal then.
    """
    if counted_loops.reads_splats_alone(group):
        return NoMatch(Reason.NOT_PROFITABLE, "splat constants are all that it reads")
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


def profitable(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses a chain that IREE fuses with the op that reads its result transposed."""
    if ctx.target.cpu is None:
        return None
    members = set(match.ops)
    used = [(value, ops.users(value)) for op in match.ops for value in op.results]
    if any(len(users) != 1 for _, users in used):
        return None
    ends = [(value, users[0]) for value, users in used if users[0] not in members]
    if len(ends) != 1:
        return None
    ((value, user),) = ends
    if not ops.is_elementwise(user) or ops.in_region(user):
        return None
    read, loops = fusable_neighbors.read_map(user, value), range(len(ops.iterator_types(user)))
    if read is None or set(read) != set(loops) or fusable_neighbors.is_identity(read, len(loops)):
        return None
    detail = f"{ops.described(user)} reads the result transposed, and IREE fuses all ops with it"
    return NoMatch(Reason.NOT_PROFITABLE, detail)


def _widens(op: ir.Operation) -> bool:
    """Whether a result's elements have more bits than an operand's: not a root for IREE."""
    bits = _bits(op)
    tensors = [v for v in ops.inputs(op) if ops.ranked(v) is not None]
    return any(ops.element_bits(v) < bits for v in tensors)


def _bits(op: ir.Operation) -> int:
    return max(map(ops.element_bits, op.results))


PASS = FusionPass(
    name="elementwise_fusion",
    summary="Chains and trees of elementwise ops in one dispatch",
    roots=("linalg.generic",),
    rules=GroupRules(
        roots=("linalg.generic",),
        takes=takes,
        joins=joins,
        admits=admits,
        plans=profitability.refusal,
    ),
    profitable=profitable,
    rewrite=fuse,
    source="loop fusion",
)
