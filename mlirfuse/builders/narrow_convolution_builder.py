"""A convolution as the products of each pixel with all taps, and sums of shifted products."""

from __future__ import annotations

import itertools
import math

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import channels_last
from mlirfuse.builders.convolution_builder import reshaped
from mlirfuse.builders.slice_builder import extract_slice
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.convolutions import constant_root
from mlirfuse.structured.recognize.narrow_convolutions import NarrowConvolution
from mlirfuse.structured.recognize.spread_images import Surround


def products_and_sums(root: ir.Operation, found: NarrowConvolution) -> ir.Operation:
    """Replaces a convolution; returns the op that sums.

    Args:
      root: the convolution, which is erased.
      found: its loops and its image.
    """
    with ir.InsertionPoint(root), root.location:
        new = _sums(root, found, _products(root, found))
    root.results[0].replace_all_uses_with(new.results[0])
    root.erase()
    return new


def _products(root: ir.Operation, found: NarrowConvolution) -> ir.Value:
    """The products of pixels: batch, taps, output channels, pixels."""
    loops, sizes = found.loops, [size or 0 for size in ops.loop_sizes(root)]
    taps = [sizes[loop] for loop in loops.tap_loops]
    outputs = [] if loops.n_loop is None else [sizes[loops.n_loop]]
    batch = [] if found.batch is None else [sizes[found.batch]]
    pixels = list(ops.shape(found.image))[len(batch) + 1 :]
    first = len(batch)
    groups = [[d] for d in range(first + 1)]
    image = builders.collapse(found.image, [*groups, [first + 1 + n for n in range(len(pixels))]])
    filters = _filter(root, found)
    kind = ops.element_type(root.results[0])
    rows, columns = math.prod([*taps, *outputs]), math.prod(size or 0 for size in pixels)
    empty = builders.empty([*batch, rows, columns], kind)
    row, column, channel = first, first + 1, first + 2
    batches = tuple(range(first))
    new = builders.generic(
        [image, filters],
        [builders.fill(builders.scalar_constant(0, kind), empty)],
        [(*batches, channel, column), (row, channel), (*batches, row, column)],
        ["parallel"] * (first + 2) + ["reduction"],
        builders.body_of(root),
    )
    whole = [*batch, math.prod(taps), *outputs, *pixels]
    if list(ops.shape(new.results[0])) == whole:
        return new.results[0]
    own = 1 + len(outputs)
    split = [[d] for d in range(first)]
    split += [[first + n for n in range(own)], [first + own + n for n in range(len(pixels))]]
    return builders.expand(new.results[0], split, whole)


def _filter(root: ir.Operation, found: NarrowConvolution) -> ir.Value:
    """The filter with a row for each tap and output channel: made once, where it is constant."""
    loops = found.loops
    outputs = [] if loops.n_loop is None else [loops.n_loop]
    wanted = [*loops.tap_loops, *outputs, found.channels]
    read = list(ops.indexing_maps(root)[loops.filter] or ())

    def build(value: ir.Value) -> ir.Value:
        order = tuple(read.index(loop) for loop in wanted)
        if order != tuple(range(len(order))):
            value = channels_last.transposed(value, order)
        return builders.collapse(value, [[*range(len(wanted) - 1)], [len(wanted) - 1]])

    value = root.operands[loops.filter]
    constant = constant_root(value)
    if constant is None:
        return build(value)
    return builders.at_load_time(
        [constant], lambda held: build(reshaped(value, held[0])), "taps_of_pixels"
    )


def _sums(root: ir.Operation, found: NarrowConvolution, products: ir.Value) -> ir.Operation:
    """The sums of the products of all taps, each shifted by its place."""
    loops, sizes = found.loops, [size or 0 for size in ops.loop_sizes(root)]
    outer = [] if found.batch is None else [found.batch]
    outputs = [] if loops.n_loop is None else [loops.n_loop]
    shape = list(ops.shape(products))
    pixels = len(shape) - len(found.windows)
    held = [*[Surround()] * pixels, *(window.surround for window in found.windows)]
    if any(not surround.is_empty for surround in held):
        wide = [
            (size or 0) + surround.low + surround.high
            for size, surround in zip(shape, held, strict=True)
        ]
        products = channels_last.spread_into(wide, products, held)
    order = [*outer, *outputs, *(window.pixels for window in found.windows)]
    parts = []
    for number, tap in enumerate(itertools.product(*(range(sizes[t]) for t in loops.tap_loops))):
        at = dict(zip(loops.tap_loops, tap, strict=True))
        shifts = [w.distance * at[w.taps] if w.taps is not None else 0 for w in found.windows]
        offsets = [*[0] * len(outer), number, *[0] * len(outputs), *shifts]
        counts = [sizes[loop] for loop in order]
        counts.insert(len(outer), 1)
        kept = [sizes[loop] for loop in order]
        parts.append(extract_slice(products, offsets, counts, shape=kept).results[0])
    kind = ops.element_type(root.results[0])
    init, written = ops.inits(root)[0], ops.indexing_maps(root)[-1] or ()
    result = tuple(order.index(loop) for loop in written if loop is not None)
    first = ops.constant(init)
    tensors = [] if first is not None else [init]

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        *summed, _ = arguments
        if first:
            summed.append(builders.scalar_constant(first, kind))
        total = summed[0]
        for element in summed[1:]:
            total = builders.scalar("arith.addf", [total, element], kind)
        return [total]

    identity = tuple(range(len(order)))
    return builders.generic(
        [*parts, *tensors],
        [builders.empty(ops.shape(root.results[0]), kind)],
        [*[identity] * len(parts), *[result] * len(tensors), result],
        ["parallel"] * len(order),
        body,
    )
