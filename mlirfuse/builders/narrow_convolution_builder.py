"""A convolution as the products of each pixel with all taps, and sums of shifted products."""

from __future__ import annotations

import functools
import itertools

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import channels_last
from mlirfuse.builders.convolution_builder import from_filter
from mlirfuse.builders.slice_builder import extract_slice
from mlirfuse.structured.expr.loop_domains import product
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.narrow_convolutions import NarrowConvolution, num_taps
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
    first = len(found.batches)
    batch, pixels = ops.shape(found.image)[:first], ops.shape(found.image)[first + 1 :]
    sizes = ops.loop_sizes(root)
    rows = [num_taps(root, found), *(sizes[loop] for loop in found.outputs)]
    alone, plane = [[d] for d in range(first)], range(len(pixels))
    image = builders.collapse(found.image, builders.renumbered([*alone, [first], plane]))
    kind = ops.element_type(root.results[0])
    empty = builders.empty([*batch, product(rows), product(pixels)], kind)
    row, column, channel, batches = first, first + 1, first + 2, tuple(range(first))
    new = builders.generic(
        [image, _filter(root, found)],
        [builders.fill(builders.scalar_constant(0, kind), empty)],
        [(*batches, channel, column), (row, channel), (*batches, row, column)],
        ["parallel"] * (first + 2) + ["reduction"],
        builders.body_of(root),
    ).results[0]
    if len(rows) == len(pixels) == 1:
        return new
    groups = builders.renumbered([*alone, range(len(rows)), plane])
    return builders.expand(new, groups, [*batch, *rows, *pixels])


def _filter(root: ir.Operation, found: NarrowConvolution) -> ir.Value:
    """The filter with a row for each tap and output channel: made once, where it is constant."""
    wanted = [*found.loops.tap_loops, *found.outputs, found.channels]
    read = list(ops.indexing_maps(root)[found.loops.filter] or ())
    order = tuple(read.index(loop) for loop in wanted)

    def build(value: ir.Value) -> ir.Value:
        if order != tuple(range(len(order))):
            value = channels_last.transposed(value, order)
        return builders.collapse(value, builders.renumbered([wanted[:-1], wanted[-1:]]))

    return from_filter(root.operands[found.loops.filter], build, "taps_of_pixels")


def _sums(root: ir.Operation, found: NarrowConvolution, products: ir.Value) -> ir.Operation:
    """The sums of the products of all taps, each shifted by its place."""
    outer, outputs = len(found.batches), len(found.outputs)
    surrounds = [Surround()] * (outer + 1 + outputs) + [w.surround for w in found.windows]
    if any(not surround.is_empty for surround in surrounds):
        pairs = zip(ops.shape(products), surrounds, strict=True)
        wide = [(size or 0) + surround.low + surround.high for size, surround in pairs]
        products = channels_last.spread_into(wide, products, surrounds)
    sizes = [size or 0 for size in ops.loop_sizes(root)]
    order = [*found.batches, *found.outputs, *(window.pixels for window in found.windows)]
    kept = [sizes[loop] for loop in order]
    cut = [*kept[:outer], 1, *kept[outer:]]
    taps = found.loops.tap_loops
    parts = []
    for number, tap in enumerate(itertools.product(*(range(sizes[loop]) for loop in taps))):
        at = dict(zip(taps, tap, strict=True))
        shifts = [w.distance * at[w.taps] if w.taps is not None else 0 for w in found.windows]
        offsets = [*[0] * outer, number, *[0] * outputs, *shifts]
        parts.append(extract_slice(products, offsets, cut, shape=kept).results[0])
    kind = ops.element_type(root.results[0])
    init, written = ops.inits(root)[0], ops.indexing_maps(root)[-1] or ()
    result = tuple(order.index(loop) for loop in written if loop is not None)
    start = ops.constant(init)
    tensors = [init] if start is None else []

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        terms = arguments[:-1]
        if start:
            terms.append(builders.scalar_constant(start, kind))
        return [functools.reduce(lambda a, b: builders.scalar("arith.addf", [a, b], kind), terms)]

    return builders.generic(
        [*parts, *tensors],
        [builders.empty(ops.shape(root.results[0]), kind)],
        [*[tuple(range(len(order)))] * len(parts), *[result] * len(tensors), result],
        ["parallel"] * len(order),
        body,
    )
