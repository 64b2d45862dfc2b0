"""The calls of kernels: they keep the names, places and operations of the ops that they replace.

%y = flow.dispatch.region { linalg.matmul loc(A); linalg.generic loc(B) }
becomes
%y = flow.dispatch @kernel(...) {mlirfuse.operations = 4096} loc(fused["linalg.matmul"(A), ...])
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import cost
from mlirfuse.structured.ir import kernel_roles, marks, ops
from mlirfuse.structured.recognize import counted_loops

LOOP = "scf.for"
"""Name of the loops that a kernel may compute as a whole."""


def describe(
    calls: Sequence[ir.Operation], region: ir.Operation, operations: int | None = None
) -> None:
    """Writes on calls of kernels the ops of the region that they replace, and its group.

    Args:
      calls: in the order in which they run; arithmetic and unread bytes count at the first.
      region: a `flow.dispatch.region`.
      operations: those that the kernels compute; None for those of the ops in the region.
    """
    members = [view.operation for view in ops.body(region).operations]
    iterations = 1
    loop = None if members[0].name != LOOP else counted_loops.host_loop(members[0], in_region=True)
    if loop is not None:
        iterations = loop.iterations
        held = [view.operation for view in loop.op.regions[0].blocks[0].operations]
        members = [op for op in held if op.name.startswith(("linalg.", "iree_linalg_ext."))]
    computing = [op for op in members if op.name != ops.RETURN and cost.does_work(op)]
    location = marks.named_ops(computing)
    count = cost.operations(computing) if operations is None else operations
    count = None if count is None else count * iterations
    # An iteration gathers its part of a tensor; all of them read the whole.
    unread = 0 if loop is not None else cost.unread_bytes(computing)
    role = ir.StringAttr.get(kernel_roles.role_of(computing), region.context)
    kind = ir.IntegerType.get_signless(64, region.context)
    for call in calls:
        if location is not None:
            call.location = location
        call.attributes[marks.ROLE_ATTRIBUTE] = role
        for name in (marks.PASS_ATTRIBUTE, marks.MATCH_ATTRIBUTE):
            if name in region.attributes:
                call.attributes[name] = region.attributes[name]
        if count is not None:
            call.attributes[marks.OPERATIONS_ATTRIBUTE] = ir.IntegerAttr.get(kind, count)
            count = 0
        if unread:
            call.attributes[marks.UNREAD_ATTRIBUTE] = ir.IntegerAttr.get(kind, unread)
            unread = 0


def describe_joint(joint: ir.Operation, calls: Sequence[ir.Operation]) -> None:
    """Writes on a call that replaces several calls what is written on them.

    Args:
      joint: the call.
      calls: the replaced ones; the pass and the match of the first are those of the group.
    """
    joint.location = ir.Location.fused([call.location for call in calls])
    first = calls[0].attributes
    for name in (marks.PASS_ATTRIBUTE, marks.MATCH_ATTRIBUTE, marks.KERNEL_ATTRIBUTE):
        if name in first:
            joint.attributes[name] = first[name]
    roles = [call.attributes[marks.ROLE_ATTRIBUTE].value for call in calls]
    role = kernel_roles.role_of_all(roles)
    joint.attributes[marks.ROLE_ATTRIBUTE] = ir.StringAttr.get(role, joint.context)
    kind = ir.IntegerType.get_signless(64, joint.context)
    for name in (marks.OPERATIONS_ATTRIBUTE, marks.UNREAD_ATTRIBUTE):
        held = [call.attributes[name].value for call in calls if name in call.attributes]
        if held and (name == marks.UNREAD_ATTRIBUTE or len(held) == len(calls)):
            joint.attributes[name] = ir.IntegerAttr.get(kind, sum(held))
