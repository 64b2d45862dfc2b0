"""Fuse a padding with the group that computes its operand, which writes into padded memory.

    %y = flow.dispatch.region { ... }                  tensor<NxCxHxWxT>
    %p = tensor.pad %y low[0, 0, 1, 1] high[0, 0, 1, 1] with %c
  becomes
    %m = flow.tensor.splat %c                          a fill, no dispatch
    %p = flow.dispatch.region { ...; tensor.insert_slice into %m }

Root: the padding, with one value everywhere. Fused: the group that computes the operand, of any
pass, or elementwise ops in no group, if they have no other user. Static amounts; sizes static, or
dynamic where nothing is added. Any element type. Numerics: exact.

IREE does this for groups of its own; it would copy the result of ours in a further dispatch.
`conv_bias_activation_fusion{fuse_padding}` fuses a padding with its consumer instead; an
elementwise consumer with the padding inside does not compile for CPU and Vulkan.
Source: IREE, fusion of tensor.pad with its producer.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import destination_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import destination, ops


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a padding of a value that a group computes."""
    found = destination.writer(root.operands[0], root)
    if found is None or isinstance(found, NoMatch):
        return found
    return Match(root, (*found.ops, root), found)


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """The padding has one value and known amounts."""
    if ops.padding_value(match.root) is None:
        return NoMatch(Reason.STRUCTURE, "the padding's value depends on the index")
    amounts = ops.padding_amounts(match.root)
    if amounts is None:
        return NoMatch(Reason.DYNAMIC_SHAPE, "the amount of padding is dynamic or negative")
    for size, (low, high) in zip(ops.shape(match.root.operands[0]), amounts, strict=True):
        if size is None and low + high:
            return NoMatch(Reason.DYNAMIC_SHAPE, "a dynamic dimension is padded")
    return None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Fills memory of the padded shape, and lets the group write its result into it."""
    root = match.root
    value, amounts = ops.padding_value(root), ops.padding_amounts(root)
    assert value is not None
    assert amounts is not None
    part = root.operands[0]
    with ir.InsertionPoint(root), root.location:
        sizes = destination_builder.dynamic_sizes(part)
        whole = destination_builder.filled_memory(value, root.results[0].type, sizes)
        inserted = destination_builder.insert(part, whole, [low for low, _ in amounts])
    root.results[0].replace_all_uses_with(inserted.results[0])
    root.erase()
    return destination_builder.write_into(match.data, inserted, whole)


PASS = FusionPass(
    name="pad_fusion",
    summary="A group writes its result into padded memory",
    roots=("tensor.pad",),
    match=match,
    legal=legal,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    source="IREE's fusion of tensor.pad with its producer",
)
