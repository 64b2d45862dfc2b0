"""Regions of convolutions without the reshapes that split channels into groups, and merge them."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import destination_builder
from mlirfuse.builders.reshape_builder import unmerge, widen
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import spread_images
from mlirfuse.structured.recognize.convolutions import Epilogue


def over_groups(found: Epilogue, group: Sequence[ir.Operation]) -> list[ir.Operation]:
    """The ops with the groups of channels unmerged, in block order.

    Args:
      found: a convolution and its epilogue, which `unmerges`.
      group: all ops that become a region, among them those.
    """
    members = list(group)
    made = []
    if found.merged is not None:
        after = {found.merged, *found.chain}
        members = [op for op in members if op not in after]
        made += unmerge(found.merged, found.chain)
    if len(found.init) == 2:
        members = [op for op in members if op not in found.init]
        made.append(widen(*found.init))
    # Producers that are split, too, may have producers of their own in the region.
    level = made
    while level:
        level = [_widened_producer(op, value, members) for op, value in _splits(level, members)]
        made += level
    return slices.in_order(dict.fromkeys([*members, *made]))


def _splits(
    users: Sequence[ir.Operation], members: Sequence[ir.Operation]
) -> list[tuple[ir.Operation, ir.Operation]]:
    """The reshapes of values that members compute for these ops, each with its producer."""
    found = {}
    for user in users:
        for value in ops.inputs(user):
            expand = ops.defining_op(value)
            if expand is None or expand.name != "tensor.expand_shape":
                continue
            owner = ops.defining_op(expand.operands[0])
            if owner is not None and owner in members:
                found[expand] = owner
    return list(found.items())


def _widened_producer(
    expand: ir.Operation, producer: ir.Operation, members: list[ir.Operation]
) -> ir.Operation:
    """A producer over the split dimensions; members lose it where nothing else uses it."""
    if ops.users(producer.results[0]) == [expand]:
        members.remove(producer)
    return widen(expand, producer)


def spread_before(expand: ir.Operation) -> ir.Operation:
    """Moves the zeros around an image, or between its elements, after the split of its dimensions.

    Args:
      expand: a `tensor.expand_shape` of a value that `spread_images.surrounds` describes; erased
        with the producer, whose only user it is.

    Returns:
      A `tensor.insert_slice` of the split image into zeros.
    """
    before = ops.defining_op(expand.operands[0])
    assert before is not None
    split = spread_images.split(before, expand)
    assert split is not None
    image, result = before.operands[0], expand.results[0]
    sizes, groups = ops.shape(result), ops.reassociation(expand)
    own = ops.shape(image)
    shape = [
        own[dim] if len(group) == 1 else sizes[n] for dim, group in enumerate(groups) for n in group
    ]
    with ir.InsertionPoint(expand), expand.location:
        source = builders.expand(image, groups, shape)
        zero = builders.scalar_constant(0, ops.element_type(image))
        zeros = builders.fill(zero, builders.empty(sizes, ops.element_type(image)))
        offsets = [surround.low for surround in split]
        strides = [surround.stride for surround in split]
        inserted = destination_builder.insert(source, zeros, offsets, strides)
    result.replace_all_uses_with(inserted.results[0])
    expand.erase()
    before.erase()
    return inserted
