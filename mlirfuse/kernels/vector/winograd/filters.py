"""The transformed filters of convolutions by minimal filtering."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.kernels.convolution.analysis import Analysis
from mlirfuse.kernels.vector import packing
from mlirfuse.kernels.vector.winograd.problem import Side
from mlirfuse.structured.ir import ops


def transformed(held: ir.Value, found: Analysis, sides: Sequence[Side], columns: int) -> ir.Value:
    """A filter as [tiles of columns][products][input channels][columns] of f32, in one dimension.

    Args:
      held: the filter.
      found: its convolution.
      sides: the dimensions with taps, in the filter's order.
      columns: output channels of a tile.
    """
    loops = found.loops
    order = [*loops.tap_loops, loops.channel_loop, loops.n_loop]
    value = builders.transpose(held, [order.index(loop) for loop in found.filter_loops])
    for axis, side in enumerate(sides):
        value = _mapped(value, axis, np.array(side.filtering.filter_map, np.float32))
    taps = list(range(len(sides)))
    value = builders.collapse(value, [taps, [len(sides)], [len(sides) + 1]])
    value = packing.split(value, 0, columns)
    return builders.collapse(value, [list(range(len(ops.shape(value))))])


def _mapped(value: ir.Value, axis: int, matrix: np.ndarray) -> ir.Value:
    """A tensor in f32 with a dimension multiplied by a matrix."""
    shape = [size or 0 for size in ops.shape(value)]
    rank = len(shape)
    shape[axis] = len(matrix)
    data = ir.DenseElementsAttr.get(matrix, type=builders.tensor_type(matrix.shape, "f32"))
    table = ir.Operation.create(
        "arith.constant", results=[data.type], attributes={"value": data}
    ).results[0]
    zeros = builders.fill(builders.scalar_constant(0, "f32"), builders.empty(shape, "f32"))

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        element, factor, total = arguments
        if str(element.type) != "f32":
            element = builders.scalar("arith.extf", [element], "f32")
        product = builders.scalar("arith.mulf", [element, factor], "f32")
        return [builders.scalar("arith.addf", [total, product], "f32")]

    every = tuple(range(rank))
    tap = tuple(rank if d == axis else d for d in every)
    return builders.generic(
        [value, table],
        [zeros],
        [tap, (axis, rank), every],
        ["parallel"] * rank + ["reduction"],
        body,
    ).results[0]
