"""Windows of an image and axes of results: what kernels with taps have in common."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.vector.pointwise import Axes
from mlirfuse.kernels.vector.tiled import MAX_INNER_TAPS, MAX_UNROLLED_TAPS, Window
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.strided_access import StridedDim
from mlirfuse.structured.recognize.spread_images import Surround


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """An image in memory, as it is or as every n-th element of a tensor.

    Attributes:
      value: the tensor.
      lows: zeros before the first element of the image, for each dimension.
      spreads: distance of its adjacent elements where there are zeros between them; else one.
      sizes: elements of the image.
      steps: distance of adjacent elements of the image in memory.
    """

    value: ir.Value
    lows: tuple[int, ...]
    spreads: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]

    @classmethod
    def of(cls, value: ir.Value, surrounds: Sequence[Surround]) -> Image:
        """The image of a tensor, read in the tensor that it is a slice of with strides.

        Args:
          value: the tensor, of static shape.
          surrounds: zeros around and between its elements, for each dimension.
        """
        sizes = tuple(size or 0 for size in ops.shape(value))
        source, strides = _strided_source(value)
        steps, step = [], 1
        for size, stride in zip(reversed(ops.shape(source)), reversed(strides), strict=True):
            steps.append(step * stride)
            step *= size or 0
        lows = tuple(surround.low for surround in surrounds)
        spreads = tuple(surround.stride for surround in surrounds)
        return cls(source, lows, spreads, sizes, tuple(reversed(steps)))


def _strided_source(value: ir.Value) -> tuple[ir.Value, Sequence[int]]:
    """The tensor of which a value is every n-th element from the first one on, and each n."""
    op, rank = ops.defining_op(value), len(ops.shape(value))
    if op is None or op.name != "tensor.extract_slice" or len(op.operands) != 1:
        return value, (1,) * rank
    source = op.operands[0]
    if len(ops.shape(source)) != rank or None in ops.shape(source):
        return value, (1,) * rank
    strides = tuple(op.attributes["static_strides"])
    if any(op.attributes["static_offsets"]) or strides[-1] != 1:
        return value, (1,) * rank
    return source, strides


def windows(
    op: ir.Operation,
    image: Image,
    image_dims: Sequence[StridedDim],
    axes: Mapping[int, int],
    tap_loops: Sequence[int],
    x: int,
) -> tuple[Window, ...]:
    """The dimensions of an image with positions or taps, those with taps in the filter's order.

    Args:
      op: a convolution or a pooling.
      image: its image.
      image_dims: for each dimension of the image, the loops that index it, with their strides.
      axes: loop of the op over positions -> the kernel's axis.
      tap_loops: its loops over taps.
      x: the axis along which pixels are in one register tile.

    Raises:
      Unsupported: an index or an order of taps that kernels do not have.
    """
    sizes = ops.loop_sizes(op)
    found = []
    for dim, size in enumerate(image.sizes):
        places = [(loop, s) for loop, s in image_dims[dim] if loop in axes and axes[loop] <= x]
        taps = [(loop, s) for loop, s in image_dims[dim] if loop in tap_loops]
        if len(places) > 1 or len(taps) > 1:
            raise Unsupported("an index of the image with several positions or taps")
        if places or taps:
            tap, dilation = taps[0] if taps else (-1, 1)
            count = sizes[tap] if taps else 1
            axis, stride = (axes[places[0][0]], places[0][1]) if places else (None, 1)
            assert count is not None
            low, step, spread = image.lows[dim], image.steps[dim], image.spreads[dim]
            window = Window(axis, stride, count, dilation, low, size, step, spread)
            found.append((tap_loops.index(tap) if taps else -1, window))
    order = sorted(found, key=lambda item: item[0])
    inner = [w for _, w in order if w.axis == x and w.taps > 1]
    if inner and order[-1][1] is not inner[0]:
        raise Unsupported("a filter whose innermost taps are not those along a row")
    extent = next((sizes[loop] or 0 for loop, axis in axes.items() if axis == x), 0)
    for window in inner:
        limit = MAX_INNER_TAPS if window.always_inside(extent) else MAX_UNROLLED_TAPS
        if window.taps > limit:
            raise Unsupported(f"more than {limit} taps along a row")
    return tuple(w for _, w in order)


def result_axes(
    op: ir.Operation,
    epilogue: Iterable[ir.Operation],
    results: Iterable[ir.Value],
    axes: Mapping[int, int],
) -> dict[ir.Value, Axes]:
    """The axes of an op's result and of the values that depend on it.

    Args:
      op: a convolution or a pooling.
      epilogue: elementwise ops that depend on it, in block order.
      results: the results of the region.
      axes: loop of the op -> the kernel's axis.

    Raises:
      Unsupported: a result that has not all axes.
    """
    out = ops.indexing_maps(op)[-1] or ()
    known: dict[ir.Value, Axes] = {
        op.results[0]: tuple(axes[loop] for loop in out if loop is not None)
    }
    for user in epilogue:
        maps = ops.plain_maps(user)
        loops: dict[int, int | None] = {}
        for operand, index_map in zip(user.operands, maps, strict=True):
            if operand in known:
                read = zip(index_map, known[operand], strict=True)
                loops.update((d, axis) for d, axis in read if d is not None)
        for result, index_map in zip(user.results, maps[ops.num_inputs(user) :], strict=True):
            if any(d not in loops for d in index_map):
                raise Unsupported(ops.described(user))
            known[result] = tuple(loops[d] for d in index_map if d is not None)
    if any(len(known.get(result, ())) != len(axes) for result in results):
        raise Unsupported("a result that does not depend on all axes")
    return known
