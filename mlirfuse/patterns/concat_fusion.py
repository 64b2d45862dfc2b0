"""Fuse a concatenation with the groups that compute its parts: each writes in place.

    %a = flow.dispatch.region { ... }                  tensor<MxAxT>
    %b = flow.dispatch.region { ... }                  tensor<MxBxT>
    %i = tensor.insert_slice %a into %empty[0, 0]      tensor<Mx(A+B)xT>
    %c = tensor.insert_slice %b into %i[0, A]
  becomes
    %m = flow.tensor.empty                             tensor<Mx(A+B)xT>
    %i = flow.dispatch.region { ...; tensor.insert_slice into %m }
    %c = flow.dispatch.region { ...; tensor.insert_slice into %i }

Root: each `tensor.insert_slice`, so also an update of a part of an argument (a KV cache). Fused:
the group that computes the part, of any pass, or elementwise ops in no group, if they have no other
user; other parts are copied as before. Offsets and sizes static or dynamic, unit strides. Any
element type. Numerics: exact.

IREE copies each part in a dispatch of its own: four for the concatenation above, now two.
Source: producers of a concatenation that write in place, as in XLA's dynamic-update-slice fusion.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import destination_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import destination, ops


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a part of a larger tensor that a group computes."""
    found = destination.writer(root.operands[0], root)
    if found is None or isinstance(found, NoMatch):
        return found
    return Match(root, (*found.ops, root), found)


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """The part is a contiguous box of the whole tensor."""
    if not ops.has_unit_strides(match.root):
        return NoMatch(Reason.STRUCTURE, "the part is written with non-unit strides")
    return None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Lets the group end in the insertion."""
    root = match.root
    whole = root.operands[1]
    owner = ops.defining_op(whole)
    if owner is not None and owner.name == "tensor.empty":
        with ir.InsertionPoint(root), owner.location:
            whole = destination_builder.empty_memory(owner)
    return destination_builder.write_into(match.data, root, whole)


PASS = FusionPass(
    name="concat_fusion",
    summary="Groups write the parts of a concatenation in place",
    roots=("tensor.insert_slice",),
    match=match,
    legal=legal,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    source="in-place concatenation, as in XLA's dynamic-update-slice fusion",
)
