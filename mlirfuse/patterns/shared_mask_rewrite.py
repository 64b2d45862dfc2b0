"""Compute a mask that several ops read in each of them.

    %m = cmpi ne, %target, %ignored                 tensor<Nxi1>
    %a = linalg.generic ins(%m, ...)
    %b = linalg.generic ins(%m, ...)
  becomes
    %m, %m2 = ...                                   one for each user
    %a = linalg.generic ins(%m, ...)
    %b = linalg.generic ins(%m2, ...)

An op fuses with the one op that reads its result. The mask of ignored targets of a cross entropy is
read by the losses and by their number, and was a dispatch of its own. Root: an elementwise op of
comparisons, logical ops and selects with one result of i1 and static sizes, read by generics alone.
Each of them reads what the mask is computed from anyway, or the mask has at most `MAX_ELEMENTS`.
For GPUs, whose kernels compute it in any prologue: with IREE's code for CPUs and Vulkan the masks
of BERT and GPT-2 are a dispatch more so.
Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import FusionPass, Kind, Match, Numerics, PassContext
from mlirfuse.structured.ir import ops, slices

MAX_ELEMENTS = 1 << 16
"""Elements of a mask that may be computed again from tensors that a user does not read."""

_CHEAP = frozenset(
    f"arith.{name}" for name in ("cmpi", "cmpf", "andi", "ori", "xori", "select")
) | {"linalg.yield"}
"""The scalar ops of a mask."""


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds a mask with several users."""
    if ops.in_region(root) or not ops.is_elementwise(root) or len(root.results) != 1:
        return None
    mask = root.results[0]
    if ops.element_type(mask) != "i1" or None in ops.shape(mask):
        return None
    if not set(ops.scalar_names(root)) <= _CHEAP or ops.reads_inits(root):
        return None
    users = set(ops.users(mask))
    if len(users) < 2 or not all(ops.is_generic(user) for user in users):
        return None
    if any(user.block != root.block or mask in ops.inits(user) for user in users):
        return None
    read = set(ops.inputs(root))
    if not read:
        return None
    known = all(read <= set(ops.inputs(user)) for user in users)
    if not known and ops.num_elements(mask) > MAX_ELEMENTS:
        return None
    return Match(root, (root,), slices.in_order(users))


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Clones the mask for each user but the first."""
    mask = match.root.results[0]
    for user in match.data[1:]:
        own = match.root.clone(ir.InsertionPoint(user)).operation
        for index, operand in enumerate(user.operands):
            if operand == mask:
                user.operands[index] = own.results[0]
    return match.root


PASS = FusionPass(
    name="shared_mask_rewrite",
    summary="A mask that several ops read is computed in each of them",
    roots=("linalg.generic",),
    match=match,
    rewrite=rewrite,
    numerics=Numerics.EXACT,
    kind=Kind.REWRITE,
    targets=frozenset({"cuda", "rocm"}),
    source="mlirfuse",
)
