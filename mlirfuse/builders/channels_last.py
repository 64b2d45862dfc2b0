"""Depthwise convolutions, grouped ones and poolings with channels last, before normalization.

    %y = linalg.depthwise_conv_2d_nchw_chw ins(tensor.pad %x, %w)
  becomes
    %t = linalg.generic {transpose} ins(%x)                    NCHW to NHWC
    %c = linalg.depthwise_conv_2d_nhwc_hwc ins(tensor.pad %t, {transpose} %w)
    %y = linalg.generic {transpose} ins(%c)

IREE's own conversion leaves these ops as they are. Its global optimization moves the transposes to
the ends of the program, where most of them meet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders.destination_builder import insert as insert_slice
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import spread_images
from mlirfuse.structured.recognize.spread_images import Surround


@dataclasses.dataclass(frozen=True, slots=True)
class _Layout:
    """The form of an op with channels last.

    Attributes:
      name: name of the op.
      image: for each dimension of the image with channels last, that of the one with channels
        first; of the result, too.
      filter: the same of the filter; None for the window of a pooling, which has no channels.
    """

    name: str
    image: tuple[int, ...]
    filter: tuple[int, ...] | None


_ZEROS = ("tensor.pad", "tensor.insert_slice")
"""Names of the ops that put zeros around an image, or between its elements."""

_NHWC, _NWC = (0, 2, 3, 1), (0, 2, 1)

LAYOUTS = {
    "linalg.depthwise_conv_2d_nchw_chw": _Layout(
        "linalg.depthwise_conv_2d_nhwc_hwc", _NHWC, (1, 2, 0)
    ),
    "linalg.depthwise_conv_3d_ncdhw_cdhw": _Layout(
        "linalg.depthwise_conv_3d_ndhwc_dhwc", (0, 2, 3, 4, 1), (1, 2, 3, 0)
    ),
    "linalg.depthwise_conv_1d_ncw_cw": _Layout("linalg.depthwise_conv_1d_nwc_wc", _NWC, (1, 0)),
    "linalg.conv_2d_ngchw_gfchw": _Layout(
        "linalg.conv_2d_nhwgc_gfhwc", (0, 3, 4, 1, 2), (0, 1, 3, 4, 2)
    ),
    "linalg.conv_1d_ncw_fcw": _Layout("linalg.conv_1d_nwc_wcf", _NWC, (2, 1, 0)),
    "linalg.conv_2d_nchw_fchw": _Layout("linalg.conv_2d_nhwc_hwcf", _NHWC, (2, 3, 1, 0)),
    "linalg.conv_3d_ncdhw_fcdhw": _Layout(
        "linalg.conv_3d_ndhwc_dhwcf", (0, 2, 3, 4, 1), (2, 3, 4, 1, 0)
    ),
    "linalg.pooling_nchw_max": _Layout("linalg.pooling_nhwc_max", _NHWC, None),
    "linalg.pooling_nchw_sum": _Layout("linalg.pooling_nhwc_sum", _NHWC, None),
    "linalg.pooling_ncw_max": _Layout("linalg.pooling_nwc_max", _NWC, None),
    "linalg.pooling_ncw_sum": _Layout("linalg.pooling_nwc_sum", _NWC, None),
}
"""Name of an op with channels first -> its form with channels last."""


_CONVERTED = frozenset(
    {"linalg.conv_1d_ncw_fcw", "linalg.conv_2d_nchw_fchw", "linalg.conv_3d_ncdhw_fcdhw"}
)
"""Those that IREE converts itself: only with zeros between the elements of their image they move
here, where the transpose is of the image without them."""

_KEPT = ("dilations", "strides", "operandSegmentSizes")
"""Attributes of an op that its form with channels last has, too."""


def move_channels(module: ir.Module) -> bool:
    """Gives the ops of `LAYOUTS` channels last; returns whether there were any.

    Raises:
      MLIRError: an op that is not as its name says.
    """
    found = [
        op
        for function in ops.functions(module)
        for block in ops.blocks(function)
        for view in block.operations
        if (op := view.operation).name in LAYOUTS and _is_static(op)
        if op.name not in _CONVERTED or _spread(op.operands[0], op) is not None
    ]
    for op in found:
        _move(op, LAYOUTS[op.name])
    module.operation.verify()
    return bool(found)


def has_open_images(module: ir.Module) -> bool:
    """Whether the sizes of an image are dynamic, besides the number of images.

    IREE's conversion of such a convolution makes an invalid `tensor.empty`, and kernels have none.
    """
    return any(
        None in ops.shape(op.operands[0])[1:]
        for function in ops.functions(module)
        for block in ops.blocks(function)
        for view in block.operations
        if (op := view.operation).name in LAYOUTS
    )


def _is_static(op: ir.Operation) -> bool:
    return all(None not in ops.shape(value) for value in op.operands)


def _move(op: ir.Operation, layout: _Layout) -> None:
    source, weight, init = op.operands
    with ir.InsertionPoint(op), op.location:
        image = _image(source, op, layout.image)
        if layout.filter is not None:
            weight = transposed(weight, layout.filter)
        init = _filled(init, layout.image)
        new = ir.Operation.create(
            layout.name,
            results=[init.type],
            operands=[image, weight, init],
            attributes={n: op.attributes[n] for n in _KEPT if n in op.attributes},
            regions=1,
        )
        op.regions[0].blocks[0].append_to(new.regions[0])
        back = [layout.image.index(d) for d in range(len(layout.image))]
        result = transposed(new.results[0], tuple(back))
    op.results[0].replace_all_uses_with(result)
    op.erase()
    pad = ops.defining_op(source)
    if pad is not None and pad.name in _ZEROS and not ops.users(source):
        pad.erase()


def _image(value: ir.Value, user: ir.Operation, order: tuple[int, ...]) -> ir.Value:
    """The image with its dimensions in that order; zeros in it stay behind the transpose."""
    insert = _spread(value, user)
    if insert is not None:
        return _spread_last(insert, order)
    pad = ops.defining_op(value)
    if pad is None or pad.name != "tensor.pad" or ops.users(value) != [user]:
        return transposed(value, order)
    amounts = ops.padding_amounts(pad)
    source = pad.operands[0]
    if amounts is None or None in ops.shape(source) or ops.padding_value(pad) is None:
        return transposed(value, order)
    return padded(pad, transposed(source, order), order)


def surrounded(zeros: ir.Operation, source: ir.Value, order: tuple[int, ...]) -> ir.Value:
    """A tensor with the zeros of an image that has its dimensions in some order.

    Args:
      zeros: the op that puts zeros around or between the elements of the image, as
        `spread_images.producer` has it; a `tensor.pad` loses its region.
      source: the tensor.
      order: for each dimension of the tensor that of the image.
    """
    if zeros.name == "tensor.pad":
        return padded(zeros, source, order)
    surrounds = spread_images.spread(zeros)
    assert surrounds is not None
    sizes, held = ops.shape(zeros.results[0]), [surrounds[d] for d in order]
    return spread_into([sizes[d] for d in order], source, held)


def padded(pad: ir.Operation, source: ir.Value, order: tuple[int, ...]) -> ir.Value:
    """The padding of a tensor with the dimensions of another one in some order.

    Args:
      pad: the padding of the other one, by static amounts with one value; it loses its region.
      source: the tensor.
      order: for each dimension of the tensor that of the other one.
    """
    amounts, whole = ops.padding_amounts(pad), pad.results[0]
    assert amounts is not None
    sizes = ops.shape(whole)
    new = ir.Operation.create(
        "tensor.pad",
        results=[builders.tensor_type([sizes[d] for d in order], ops.element_type(whole))],
        operands=[source],
        attributes={
            "static_low": ir.DenseI64ArrayAttr.get([amounts[d][0] for d in order]),
            "static_high": ir.DenseI64ArrayAttr.get([amounts[d][1] for d in order]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0]),
        },
        regions=1,
    )
    pad.regions[0].blocks[0].append_to(new.regions[0])
    return new.results[0]


def _spread(value: ir.Value, user: ir.Operation) -> ir.Operation | None:
    """The `tensor.insert_slice` that puts zeros between the elements of a user's image."""
    op = spread_images.producer(value, user)
    return op if op is not None and op.name == "tensor.insert_slice" else None


def _spread_last(insert: ir.Operation, order: tuple[int, ...]) -> ir.Value:
    """The image of a `tensor.insert_slice` with its dimensions in that order.

    It has no dimension of one image: IREE removes this one from the inserted tensor only.
    """
    inner = transposed(insert.operands[0], order)
    surrounds = spread_images.spread(insert)
    assert surrounds is not None
    sizes = [ops.shape(insert.results[0])[d] for d in order]
    first = 1 if sizes[0] == 1 else 0
    held = [surrounds[d] for d in order][first:]
    groups = [[0, 1], *([d] for d in range(2, len(sizes)))]
    if first:
        inner = builders.collapse(inner, groups)
    new = spread_into(sizes[first:], inner, held)
    return builders.expand(new, groups, sizes) if first else new


def spread_into(
    sizes: Sequence[int | None], source: ir.Value, surrounds: Sequence[Surround]
) -> ir.Value:
    """A tensor of such sizes: the elements of another one with zeros around and between them."""
    kind = ops.element_type(source)
    zeros = builders.fill(builders.scalar_constant(0, kind), builders.empty(sizes, kind))
    lows, strides = [s.low for s in surrounds], [s.stride for s in surrounds]
    return insert_slice(source, zeros, lows, strides).results[0]


def _filled(value: ir.Value, order: tuple[int, ...]) -> ir.Value:
    """The initial accumulators with their dimensions in that order."""
    op = ops.defining_op(value)
    if op is None or op.name != "linalg.fill":
        return transposed(value, order)
    sizes = ops.shape(value)
    empty = builders.empty([sizes[d] for d in order], ops.element_type(value))
    return builders.fill(op.operands[0], empty)


def transposed(value: ir.Value, order: tuple[int, ...]) -> ir.Value:
    """A copy of the tensor whose dimension `i` is its dimension `order[i]`."""
    return builders.transpose(value, [order.index(d) for d in range(len(order))])
