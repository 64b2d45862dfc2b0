"""Loops of contractions by their roles in a kernel for CPUs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.structured.ir import ops, strided_access
from mlirfuse.structured.recognize import convolution_loops
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops
from mlirfuse.structured.recognize.convolutions import constant_root, is_convolution

MIN_PACKED_ROWS = 32
"""Rows of a product from which the packing of a computed second operand, each element of which is
read and written once, takes less than a tenth of the multiply-adds."""


def classify_contraction(op: ir.Operation) -> ConvolutionLoops | str | None:
    """Classifies the loops of a contraction as those of a convolution.

    The filter is its constant operand, else the second one. Batches are groups of channels. The
    last of several contracted loops are the channels, the others taps.

    Returns:
      The loops; a text that says why they cannot be classified; None for any other op.
    """
    if not ops.is_contraction(op) or len(op.results) != 1 or None in ops.indexing_maps(op):
        return None
    maps, kinds = ops.plain_maps(op), ops.iterator_types(op)
    if len(maps) != 3 or any(d is None for index_map in maps for d in index_map):
        return "an indexing map of a contraction"
    constant = [constant_root(op.operands[n]) is not None for n in range(2)]
    weight = 0 if constant == [True, False] else 1
    image = 1 - weight
    read, filtered, out = set(maps[image]), set(maps[weight]), maps[2]
    batches = tuple(d for d in out if d is not None and d in read and d in filtered)
    columns = [d for d in out if d is not None and d in filtered and d not in read]
    pixels = tuple(d for d in out if d is not None and d in read and d not in filtered)
    reduced = [d for d in maps[weight] if d is not None and kinds[d] == "reduction"]
    if len(columns) != 1 or not reduced or any(d not in read for d in reduced):
        return "a contraction without one loop of columns"
    terms = strided_access.strided_loops(op, image)
    if not constant[weight] and _count(op, pixels) < _min_rows(op, weight, columns, reduced):
        return "a computed filter of few rows"
    if terms is None:
        terms = tuple(((d or 0, 1),) for d in maps[image])
    channel = max(reduced, key=lambda d: maps[image].index(d))
    taps = tuple(d for d in reduced if d != channel)
    return ConvolutionLoops(image, weight, pixels, columns[0], batches, taps, channel, terms)


def _min_rows(op: ir.Operation, weight: int, columns: Sequence[int], reduced: Sequence[int]) -> int:
    """The rows from which there is a kernel for a computed operand."""
    last = ops.plain_maps(op)[weight][-1]
    if len(reduced) != 1 or last not in (*columns, *reduced):
        return MIN_PACKED_ROWS
    if last in columns:
        return 1
    # Floats are transposed on the stack. Bytes are multiplied in pairs or fours, from a packed
    # operand.
    is_float = ops.element_type(op.operands[weight]) in ("f16", "bf16", "f32")
    return 1 if is_float else MIN_PACKED_ROWS


def _count(op: ir.Operation, loops: tuple[int, ...]) -> int:
    sizes = ops.loop_sizes(op)
    return math.prod(sizes[loop] or 1 for loop in loops)


def classify_convolution(op: ir.Operation) -> ConvolutionLoops | str | None:
    """Classifies the loops of a convolution, and of no contraction."""
    return convolution_loops.classify(op) if is_convolution(op) else None
