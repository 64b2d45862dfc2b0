"""Put every op of a plan's program into one dispatch, for targets whose kernels IREE generates.

    %p = tensor.pad %x
    %c = linalg.generic {convolution} ins(%p, %w)
    %y = linalg.generic {mulf, addf, maximumf} ins(%c, %b)
  becomes
    %y = flow.dispatch.region { all of it }

Root: the last op of the function that computes something. Reshapes of arguments and of results
stay outside: they cost nothing. Shapes static, any element type. Numerics: exact (operations and
their order are unchanged). It belongs to no preset: `FusionPlan.compile` runs it alone, where the
rules of the target ask for it, and checks the number of kernels. Source: MIOpen's fusion plans.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import regions
from mlirfuse.core import FusionPass, Match, PassContext

_RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")
_COMPUTING = ("linalg.", "iree_linalg_ext.", "tensor.pad", "tensor.extract_slice", *_RESHAPES)


def _computing(root: ir.Operation) -> list[ir.Operation]:
    """The ops that compute, and the reshapes between them, in block order."""
    found = [view.operation for view in root.block.operations]
    found = [op for op in found if op.name.startswith(_COMPUTING) and op.name != "linalg.fill"]
    while True:
        inner = [op for op in found if op.name not in _RESHAPES or _between(op, found)]
        if len(inner) == len(found):
            return inner
        found = inner


def _between(op: ir.Operation, group: list[ir.Operation]) -> bool:
    """Whether an op reads one of the group, and one of the group reads it."""
    owner = op.operands[0].owner
    read = isinstance(owner, ir.Operation | ir.OpView) and owner.operation in group
    return read and all(use.owner.operation in group for use in op.results[0].uses)


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Takes all ops at the last of them."""
    group = _computing(root)
    return Match(root, tuple(group)) if group and group[-1] == root else None


PASS = FusionPass(
    name="one_group_fusion",
    summary="Every op of a fusion plan in one dispatch",
    roots=("linalg.generic", "iree_linalg_ext.attention"),
    match=match,
    rewrite=regions.fuse,
    takes_single_op=True,
    source="MIOpen's fusion plans",
)
