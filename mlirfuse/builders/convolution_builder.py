"""Convolutions with other filters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import channels_last
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import convolutions
from mlirfuse.structured.recognize.channels import ChannelOp
from mlirfuse.structured.recognize.convolutions import ScaledChannels

_MEMOIZED = "linalg.memoized_indexing_maps"
"""The attribute in which linalg stores a copy of the maps."""


def fold(found: ScaledChannels) -> ir.Operation:
    """Scales the filter when the program is loaded, and adds the channels' shifts as one bias.

    Args:
      found: a convolution with accumulators that start at zero, all in one element type; its ops
        are erased.

    Returns:
      The op that adds the bias.
    """
    root, last = found.root, found.channel_ops[-1].op
    vectors = [step.vector for step in found.channel_ops]
    scales = [step for step in found.channel_ops if step.scales]
    with ir.InsertionPoint(root), root.location:
        weight = root.operands[found.filter]
        source = convolutions.constant_root(weight)
        assert source is not None
        scaled = builders.at_load_time(
            [source, *(step.vector for step in scales)],
            lambda parts: _scaled(reshaped(weight, parts[0]), parts[1:], scales, found),
            "scaled_filter",
        )
        new = root.clone(ir.InsertionPoint.current).operation
        new.operands[found.filter] = scaled
    result = new.results[0]
    if found.merged is not None:
        with ir.InsertionPoint(found.merged), found.merged.location:
            merged = found.merged.clone(ir.InsertionPoint.current).operation
            merged.operands[0] = result
            result = merged.results[0]
    locations = [step.op.location for step in found.channel_ops]
    with ir.InsertionPoint(last), ir.Location.fused(locations, context=last.context):
        bias = builders.at_load_time(
            vectors, lambda parts: _shift(parts, found.channel_ops), "shifted_bias"
        )
        rank = len(ops.shape(result))
        whole = tuple(range(rank))
        added = builders.generic(
            [result, bias],
            [last.operands[2]],
            [whole, (found.axis,), whole],
            ["parallel"] * rank,
            lambda a: [builders.scalar("arith.addf", a[:2], ops.element_type(result))],
        )
    last.results[0].replace_all_uses_with(added.results[0])
    for op in reversed([root, *([found.merged] if found.merged else []), *_ops(found.channel_ops)]):
        op.erase()
    return added


def with_filter_order(root: ir.Operation, operand: int, loops: tuple[int, ...]) -> ir.Operation:
    """Transposes a filter: a constant when the program is loaded.

    Args:
      root: a generic; it is erased.
      operand: index of its operand that is the filter.
      loops: the root's loops in the order of the new filter's dimensions.

    Returns:
      The root with the new filter.
    """
    weight, own = root.operands[operand], ops.indexing_maps(root)[operand]
    assert own is not None
    read = tuple(loops.index(loop) for loop in own if loop is not None)
    with ir.InsertionPoint(root), root.location:
        stored = from_filter(weight, lambda held: builders.transpose(held, read), "filter")
        new = root.clone(ir.InsertionPoint.current).operation
    new.operands[operand] = stored
    maps = list(root.attributes["indexing_maps"])
    maps[operand] = builders.map_attribute(loops, len(ops.iterator_types(root)))
    new.attributes["indexing_maps"] = ir.ArrayAttr.get(maps)
    if _MEMOIZED in new.attributes:
        del new.attributes[_MEMOIZED]
    root.results[0].replace_all_uses_with(new.results[0])
    root.erase()
    return new


def with_image_order(
    root: ir.Operation,
    operand: int,
    pad: ir.Operation | None,
    source: ir.Value,
    order: tuple[int, ...],
    split: ir.Operation | None = None,
) -> ir.Operation:
    """A convolution of an image with its dimensions in another order.

    Args:
      root: a generic; it is erased.
      operand: index of its operand that is the image.
      pad: the op that puts zeros around or between the elements of the image, for it alone;
        erased. None without one.
      source: the tensor in the other order, without those zeros.
      order: for each dimension of the tensor that of the image, before the split.
      split: the `tensor.expand_shape` of the image behind the padding, for it alone; erased. None
        without one.
    """
    maps = [attribute.value for attribute in root.attributes["indexing_maps"]]
    old = maps[operand]
    with ir.InsertionPoint(root), root.location:
        image = source if pad is None else channels_last.surrounded(pad, source, order)
        if split is not None:
            groups, sizes = ops.reassociation(split), ops.shape(split.results[0])
            dims = [groups[d] for d in order]
            order = tuple(itertools.chain(*dims))
            image = builders.expand(image, builders.renumbered(dims), [sizes[d] for d in order])
        new = root.clone(ir.InsertionPoint.current).operation
        new.operands[operand] = image
        maps[operand] = ir.AffineMap.get(old.n_dims, 0, [old.results[d] for d in order])
        new.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps])
    if _MEMOIZED in new.attributes:
        del new.attributes[_MEMOIZED]
    root.results[0].replace_all_uses_with(new.results[0])
    for op in (root, split, pad):
        if op is not None:
            op.erase()
    return new


def with_result_order(root: ir.Operation, order: Sequence[int]) -> ir.Operation:
    """A convolution with the dimensions of its result in another order.

    Args:
      root: a generic whose accumulators start from a `linalg.fill`; it is kept.
      order: for each dimension of the new result that of the old one.
    """
    result, (start,) = root.results[0], ops.inits(root)
    own, kinds = ops.indexing_maps(root)[-1], ops.iterator_types(root)
    assert own is not None
    sizes = [ops.shape(result)[d] for d in order]
    written = tuple(own[d] for d in order)
    inputs = ops.inputs(root)
    with ir.InsertionPoint(root), root.location:
        filled = builders.fill(
            start.owner.operands[0], builders.empty(sizes, ops.element_type(result))
        )
        new = builders.generic(
            inputs, [filled], [written] * (len(inputs) + 1), kinds, builders.body_of(root)
        )
    # The image is indexed by sums of loops, which no index map expresses.
    maps = list(root.attributes["indexing_maps"])
    maps[-1] = builders.map_attribute(written, len(kinds))
    new.attributes["indexing_maps"] = ir.ArrayAttr.get(maps)
    return new


def _ops(steps: Sequence[ChannelOp]) -> list[ir.Operation]:
    return [step.op for step in steps]


def from_filter(weight: ir.Value, build: Callable[[ir.Value], ir.Value], name: str) -> ir.Value:
    """A tensor from a filter: made when the program is loaded, or in each call.

    Args:
      weight: the filter, behind reshapes of a constant or computed.
      build: builds the tensor from the filter at the current insertion point.
      name: symbol of the global that stores it; a suffix is added where it is taken.
    """
    constant = convolutions.constant_root(weight)
    if constant is None:
        return build(weight)
    return builders.at_load_time([constant], lambda held: build(reshaped(weight, held[0])), name)


def reshaped(value: ir.Value, source: ir.Value) -> ir.Value:
    """The reshapes between a constant and the value, applied to a copy of the constant."""
    op = ops.defining_op(value)
    if op is None or op.name not in ops.RESHAPES:
        return source
    below = reshaped(op.operands[0], source)
    copy = op.clone(ir.InsertionPoint.current).operation
    copy.operands[0] = below
    return copy.results[0]


def _scaled(
    weight: ir.Value, vectors: Sequence[ir.Value], steps: Sequence[ChannelOp], found: ScaledChannels
) -> ir.Value:
    """The filter with each channel scaled as the steps scale it."""
    kind = ops.element_type(weight)
    sizes = ops.shape(weight)
    own = ops.indexing_maps(found.root)[found.filter]
    assert own is not None
    axes = tuple(own.index(loop) for loop in found.loops)
    whole = tuple(range(len(sizes)))
    split = [sizes[d] for d in axes]
    for vector, step in zip(vectors, steps, strict=True):
        grouped = len(axes) > 1
        wide = builders.expand(vector, [range(len(axes))], split) if grouped else vector
        weight = _elementwise(step.name, [weight, wide], [whole, axes], whole, kind)
    return weight


def _shift(vectors: Sequence[ir.Value], steps: Sequence[ChannelOp]) -> ir.Value:
    """The result of the steps for a channel that is zero."""
    kind, (size,) = ops.element_type(vectors[0]), ops.shape(vectors[0])
    zero = builders.scalar_constant(0, kind)
    value = builders.fill(zero, builders.empty([size], kind))
    for vector, step in zip(vectors, steps, strict=True):
        value = _elementwise(step.name, [value, vector], [(0,), (0,)], (0,), kind)
    return value


def _elementwise(
    name: str,
    inputs: list[ir.Value],
    maps: list[tuple[int, ...]],
    whole: tuple[int, ...],
    kind: str,
) -> ir.Value:
    return builders.generic(
        inputs,
        [builders.empty(ops.shape(inputs[0]), kind)],
        [*maps, whole],
        ["parallel"] * len(whole),
        lambda arguments: [builders.scalar(name, arguments[:2], kind)],
    ).results[0]
