"""Convolutions, dense or depthwise, and contractions as such, with their packed filters."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders.convolution_builder import from_filter
from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.tile_writer import attempted
from mlirfuse.kernels.convolution.analysis import Analysis, Classify, analyze, is_supported
from mlirfuse.kernels.vector import (
    executable,
    matrix,
    packing,
    products,
    register_tiles,
    repeated,
    transposed_filter,
    widened_groups,
    windowed,
)
from mlirfuse.kernels.vector.dense import Dense, DenseKernel, InPlace
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.forms import literal
from mlirfuse.kernels.vector.geometry import Image, result_axes, windows
from mlirfuse.kernels.vector.grouped import GroupedKernel
from mlirfuse.kernels.vector.matrix import MatrixKernel
from mlirfuse.kernels.vector.memory import NotContiguous
from mlirfuse.kernels.vector.products import (
    Operands,
    Product,
    is_product_of_bytes,
    operands_of,
)
from mlirfuse.kernels.vector.register_tiles import (
    CACHE_WAY_BYTES,
    MAX_TILE_VECTORS,
    RegisterTile,
)
from mlirfuse.kernels.vector.roles import MIN_PACKED_ROWS, classify_convolution
from mlirfuse.kernels.vector.tiled import PACKED, SUMS, Tiled, Window
from mlirfuse.kernels.vector.tiles import NotFlat
from mlirfuse.kernels.vector.transposed_filter import (
    TransposedFilterKernel,
    TransposedGroupsKernel,
    WidenedTransposedKernel,
)
from mlirfuse.kernels.vector.widened import WidenedKernel, is_widened
from mlirfuse.kernels.vector.widened_groups import WidenedGroupsKernel
from mlirfuse.kernels.vector.windowed import Windowed
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops
from mlirfuse.structured.recognize.convolutions import constant_root
from mlirfuse.structured.recognize.spread_images import Surround
from mlirfuse.targets.base import CpuDevice

MIN_PAIRED_ROWS = 4
"""Rows from which tiles have an even number of vectors of columns, so that those of a filter of
bf16 are interleaved: a load of two of them, a shift and a mask take the place of two loads and four
instructions. On one thread of a Zen 5 with AVX2 code 128x1024x2816 took 6.51 ms without and 6.43
with it, and from an image of f32 6.31 and 5.97 (f32 5.80)."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The kernel of a convolution.

    Attributes:
      found: the convolution.
      columns: output channels of a register tile, by which the filter is packed; None for a
        depthwise convolution.
      product: how elements are multiplied; None where they are widened to f32.
      kernel: the kernel.
      pairs: lanes of the vectors of columns of which each two are interleaved; 0 where none are.
    """

    found: Analysis
    columns: int | None
    product: Product | None
    kernel: VectorKernel
    pairs: int = 0


def takes(op: ir.Operation, classify: Classify = classify_convolution) -> bool:
    """Whether there is a kernel for an op, as far as the op alone shows.

    Args:
      op: any op.
      classify: classifies the loops of the ops in question.
    """
    loops = classify(op)
    if not isinstance(loops, ConvolutionLoops):
        return False
    if not is_supported(op, classify, products.is_supported):
        return False
    if _obstacle(op, loops) or None in ops.loop_sizes(op):
        return False
    image = op.operands[loops.image]
    try:
        _windows(op, loops, Image.of(image, [Surround()] * len(ops.shape(image))))
    except Unsupported:
        return False
    return True


def plan(
    region: ir.Operation, device: CpuDevice, classify: Classify = classify_convolution
) -> Plan | NoMatch | None:
    """Plans the kernel of a region with a convolution; None for a region without one.

    Args:
      region: a `flow.dispatch.region`.
      device: the CPU.
      classify: classifies the loops of the ops that are taken as convolutions.
    """
    found = analyzed(region, device, classify)
    if not isinstance(found, Analysis):
        return found
    return attempted(lambda: _planned(found, device), "channels")


def analyzed(
    region: ir.Operation, device: CpuDevice, classify: Classify = classify_convolution
) -> Analysis | NoMatch | None:
    """The convolution of a region, if kernels can compute it; None for a region without one.

    Args:
      region: a `flow.dispatch.region`.
      device: the CPU.
      classify: classifies the loops of the ops that are taken as convolutions.
    """
    found = analyze(region, classify, products.is_supported)
    if not isinstance(found, Analysis):
        return found
    if found.is_dynamic or len(region.operands):
        return NoMatch(Reason.DYNAMIC_SHAPE, "the number of images is dynamic")
    obstacle, faster = _obstacle(found.op, found.loops), left_to_iree(found.op, classify, device)
    if faster:
        return NoMatch(Reason.NOT_PROFITABLE, faster)
    if obstacle:
        return NoMatch(Reason.STRUCTURE, f"the kernel cannot compute {obstacle}")
    return dataclasses.replace(found, loops=_single_pixels_first(found.op, found.loops))


def left_to_iree(op: ir.Operation, classify: Classify, device: CpuDevice) -> str:
    """The reason why IREE's own code for an op is faster; empty where it is not.

    Args:
      op: a convolution or a contraction.
      classify: classifies its loops.
      device: the CPU.
    """
    loops = classify(op)
    if products.is_left_to_iree(op, device):
        return "IREE's microkernels have matrix instructions of i8"
    if isinstance(loops, ConvolutionLoops) and transposed_filter.is_left_to_iree(op, loops, device):
        return "IREE has code for a transposed filter of few rows and whole vectors"
    return ""


def _single_pixels_first(op: ir.Operation, loops: ConvolutionLoops) -> ConvolutionLoops:
    """The loops with those of a single pixel first, where windows have one tap.

    The last loop over pixels is the axis of a register tile, and of all pixels as one axis.
    """
    sizes = ops.loop_sizes(op)
    if any(sizes[loop] != 1 for loop in loops.tap_loops):
        return loops
    pixels = sorted(loops.m_loops, key=lambda loop: sizes[loop] != 1)
    return dataclasses.replace(loops, m_loops=tuple(pixels))


def _obstacle(op: ir.Operation, loops: ConvolutionLoops) -> str:
    """The reason why a convolution has no kernel; empty where it has one."""
    out = ops.indexing_maps(op)[2] or ()
    if not _is_depthwise(loops) and loops.n_loop is None and loops.channel_loop is None:
        return "a convolution without a loop of channels"
    if len(loops.group_loops) > 1 and _is_depthwise(loops):
        return "several loops over groups"
    if _is_depthwise(loops) and loops.image_dims[-1] != ((loops.group_loops[0], 1),):
        return "an image whose channels are not its last dimension"
    if sorted(d for d in out if d is not None) != sorted(_axis_loops(loops)):
        return "a result that is not indexed by its loops"
    if ops.element_type(op.results[0]) != "f32" and not is_product_of_bytes(op):
        return f"accumulators of {ops.element_type(op.results[0])}"
    if 0 in ops.loop_sizes(op):
        return "an empty tensor"
    last = _axis_loops(loops)[-1]
    if out[-1] != last and ops.loop_sizes(op)[last] != 1 and not _has_last(op, last):
        return "accumulators that start from a tensor whose channels are not contiguous"
    return ""


def _has_last(op: ir.Operation, last: int) -> bool:
    """Whether accumulators start from one number, or from a tensor whose last loop is this one."""
    init = ops.inits(op)[0]
    start = ops.defining_op(init)
    if start is None or literal(init) is not None:
        return start is not None
    if not (ops.is_generic(start) and ops.is_projection(start)):
        return False
    source, to = (ops.indexing_maps(start)[n] or () for n in (0, -1))
    out = ops.indexing_maps(op)[2] or ()
    return not source or (source[-1] in to and out[to.index(source[-1])] == last)


def _is_depthwise(loops: ConvolutionLoops) -> bool:
    """Whether each group has one input and one output channel."""
    return bool(loops.group_loops) and loops.n_loop is None and loops.channel_loop is None


def _axis_loops(loops: ConvolutionLoops) -> list[int]:
    """The loops of the kernel's axes: pixels, groups, and output channels if there are several."""
    last = [] if loops.n_loop is None else [loops.n_loop]
    return [*loops.m_loops, *loops.group_loops, *last]


def _axes(loops: ConvolutionLoops) -> dict[int, int]:
    """Loop -> the kernel's axis; a product of a vector has a first axis of one pixel."""
    return {loop: n for n, loop in enumerate(_axis_loops(loops), 0 if loops.m_loops else 1)}


def _windows(op: ir.Operation, loops: ConvolutionLoops, image: Image) -> tuple[Window, ...]:
    """The windows of an image.

    Raises:
      Unsupported: an index or an order of taps that kernels do not have.
    """
    x = max(0, len(loops.m_loops) - 1)
    return windows(op, image, loops.image_dims, _axes(loops), loops.tap_loops, x)


def windowed_image(found: Analysis) -> tuple[Tiled, Image]:
    """A convolution as a computation on the windows of its image.

    Raises:
      Unsupported: an index, an order of taps or a result that kernels do not have.
    """
    sizes, loops = ops.loop_sizes(found.op), found.loops
    axes = _axes(loops)
    image = Image.of(found.image, found.surrounds)
    tiled = Tiled(
        extents=_extents(found, sizes, axes),
        image=image.value,
        value=found.op.results[0],
        init=found.init,
        results=found.results,
        axes=result_axes(found.op, found.epilogue, found.results, axes),
        windows=_windows(found.op, loops, image),
        group_axes=0 if _is_depthwise(loops) else len(loops.group_loops),
    )
    return tiled, image


def windows_alone(op: ir.Operation, loops: ConvolutionLoops) -> Tiled:
    """The windows of a convolution without groups or zeros around its image, and its sizes alone.

    Raises:
      Unsupported: an index or an order of taps that kernels do not have.
    """
    axes, sizes = _axes(loops), ops.loop_sizes(op)
    value = op.operands[loops.image]
    image = Image.of(value, [Surround()] * len(ops.shape(value)))
    return Tiled(
        extents=(1,) * (not loops.m_loops) + tuple(sizes[loop] or 0 for loop in axes),
        image=value,
        value=op.results[0],
        init=ops.inits(op)[0],
        results=tuple(op.results),
        axes={},
        windows=_windows(op, loops, image),
    )


def _extents(found: Analysis, sizes: Sequence[int | None], axes: Iterable[int]) -> tuple[int, ...]:
    """The sizes of the kernel's axes: the one of a single output channel has no loop."""
    extents = (1,) * (not found.loops.m_loops) + tuple(sizes[loop] or 0 for loop in axes)
    has_columns = found.loops.n_loop is not None or _is_depthwise(found.loops)
    return extents if has_columns else (*extents, 1)


def _planned(found: Analysis, device: CpuDevice) -> Plan:
    try:
        return _plan(found, device, gathers=False)
    except NotContiguous:
        return _plan(found, device, gathers=True)


def _plan(found: Analysis, device: CpuDevice, *, gathers: bool) -> Plan:
    tiled, image = windowed_image(found)
    tiled = dataclasses.replace(tiled, gathers=gathers)
    with found.op.location:
        if _is_depthwise(found.loops):
            return Plan(found, None, None, _depthwise(found, tiled, device))
        return _dense(found, tiled, image, device)


def _depthwise(found: Analysis, tiled: Tiled, device: CpuDevice) -> VectorKernel:
    size = tiled.taps * tiled.extents[-1]
    packed = builders.tensor_type([size], ops.element_type(found.filter))
    work = Windowed(**tiled.fields(), packed=packed)
    return windowed.kernel(work, "depthwise_convolution", device)


def _dense(found: Analysis, tiled: Tiled, image: Image, device: CpuDevice) -> Plan:
    channel_step = channel_distance(found, image)
    kinds = operands_of(found.op, found.loops.image, found.loops.filter)
    rows = math.prod(tiled.extents[: max(1, len(found.loops.m_loops))])
    packs = rows >= MIN_PACKED_ROWS or constant_root(found.filter) is not None
    if channel_step == 1 and tiled.one_tap and packs:
        product = products.of_tiles(kinds, device, rows=rows)
        if product is not None:
            tile = matrix.register_tile(tiled.extents[-1], device)
            depth = -(-found.in_channels // product.step) * product.step
            problem = _problem(found, tiled, image, device, kinds, tile, depth)
            with contextlib.suppress(NotFlat):
                kernel = MatrixKernel(problem, device, product, kinds).write("matmul")
                return Plan(found, tile.vectors * device.lanes, product, kernel)
    product = products.choose(kinds, device, has_channels=channel_step != 0)
    is_plain = not found.taps and found.filter_loops[-1] == found.loops.n_loop
    if product is not None and product.operand == "bf16" and is_plain and not packs:
        product = None  # Rows are few for packing pairs in each call: they are read as they are.
    group = 1 if product is None else product.group
    depth = -(-found.in_channels // group) * group
    in_place = _in_place(found, product, device)
    turns = in_place is not None and in_place.column_step != 1
    vectors = -(-tiled.extents[-1] // device.lanes)
    pairs = product is None and kinds.filter == "bf16" and constant_root(found.filter) is not None
    tile = register_tiles.choose(
        rows if tiled.one_tap else tiled.class_width,
        vectors,
        tiled.taps * depth // group,
        device,
        multiple=2 if pairs and rows >= MIN_PAIRED_ROWS else 1,
        row_bytes=tiled.pixel_step * ops.element_bits(found.image) // 8,
        overlap=tiled.overlap,
        transposes=tiled.has_contiguous_pixels,
        max_vectors=transposed_filter.max_vectors(depth // group, device)
        if turns
        else MAX_TILE_VECTORS,
        product=product,
    )
    problem = _problem(found, tiled, image, device, kinds, tile, depth)
    pairs = pairs and in_place is None and tile.vectors % 2 == 0
    problem = dataclasses.replace(problem, in_place=in_place, pairs=pairs)
    if product is not None and product.shift:
        columns = math.prod((*found.groups, found.out_channels))
        problem = dataclasses.replace(problem, sums=builders.tensor_type([columns], "i32"))
    entry = "matmul" if ops.is_contraction(found.op) else "convolution"

    def written(*, flat: bool) -> VectorKernel:
        if product is None:
            return _KERNELS[turns, is_widened(problem, device)](problem, device, flat=flat).write(
                entry
            )
        words = widened_groups.is_widened(problem, product, kinds, device)
        grouped = WidenedGroupsKernel if words else GroupedKernel
        grouped = TransposedGroupsKernel if turns else grouped
        return grouped(problem, device, product, kinds, flat=flat).write(entry)

    def write(*, flat: bool) -> VectorKernel:
        packs = problem.in_place is None
        about = (found.loops, flat, tiled.gathers, product, tile, depth, packs, pairs)
        group = [o.operation for o in found.op.block.operations]
        return repeated.once(group, found.results, about, lambda: written(flat=flat))

    columns, paired = tile.vectors * device.lanes, device.lanes if pairs else 0
    if problem.one_tap:
        with contextlib.suppress(NotFlat):
            return Plan(found, columns, product, write(flat=True), paired)
    return Plan(found, columns, product, write(flat=False), paired)


def _problem(
    found: Analysis,
    tiled: Tiled,
    image: Image,
    device: CpuDevice,
    kinds: Operands,
    tile: RegisterTile,
    depth: int,
) -> Dense:
    """The contraction with a packed filter of so many input channels."""
    columns = tile.vectors * device.lanes
    tiles = -(-found.out_channels // columns)
    size = math.prod((*found.groups, tiles, tiled.taps, depth, columns))
    return Dense(
        **tiled.fields(),
        tile=tile,
        packed=builders.tensor_type([size], kinds.filter),
        depth=depth,
        sums=None,
        group_steps=tuple(_step(loop, found, image) for loop in found.loops.group_loops),
        channel_step=channel_distance(found, image),
        channels=found.in_channels,
    )


_KERNELS = {
    (False, False): DenseKernel,
    (False, True): WidenedKernel,
    (True, False): TransposedFilterKernel,
    (True, True): WidenedTransposedKernel,
}
"""Kernels of f32 accumulators, by whether they transpose the filter, and widen the image."""


def _in_place(found: Analysis, product: Product | None, device: CpuDevice) -> InPlace | None:
    """The filter as it is, where it need not be packed; None where it is packed.

    One that is computed by each call is packed in each call. So it is read in place where there are
    few rows to read it for, or where the second cache keeps a column of it for the next tile of
    rows: elements at a distance of 4096 bytes share the sets of a cache. One whose input channels
    are contiguous is transposed where there are few rows, or a panel on the stack holds them all.
    """
    loops, sizes, roles = found.filter_loops, ops.shape(found.filter), found.loops
    if constant_root(found.filter) is not None or found.taps:
        return None
    if roles.n_loop is None or roles.channel_loop is None:
        return None
    steps = {loop: math.prod(s or 0 for s in sizes[d + 1 :]) for d, loop in enumerate(loops)}
    groups = tuple(steps[loop] for loop in roles.group_loops)
    place = InPlace(found.filter, steps[roles.channel_loop], groups, steps[roles.n_loop])
    rows = math.prod(size or 1 for size in found.pixels)
    if loops[-1] == roles.channel_loop and (product is None or product.operand == "bf16"):
        words = found.in_channels if product is None else -(-found.in_channels // product.group)
        return place if rows < MIN_PACKED_ROWS or transposed_filter.holds(words, device) else None
    if loops[-1] != roles.n_loop or product is not None:
        return None
    distance = math.gcd(place.channel_step * ops.element_bits(found.filter) // 8, CACHE_WAY_BYTES)
    if rows >= MIN_PACKED_ROWS and found.in_channels * distance > device.l2_bytes // 2:
        return None
    return place


def channel_distance(found: Analysis, image: Image) -> int:
    """The distance in the image of adjacent input channels; 0 with a single one."""
    if found.loops.channel_loop is None:
        return 0
    return _step(found.loops.channel_loop, found, image)


def _step(loop: int | None, found: Analysis, image: Image) -> int:
    """The distance in the image of the elements of adjacent indices of a loop over channels."""
    return image.steps[found.loops.image_dims.index(((loop or 0, 1),))]


def replace(region: ir.Operation, plan: Plan) -> ir.Operation:
    """Replaces a region by a call of its kernel; returns the call."""
    product = plan.product or Product(1, "", "f32")
    made: dict[str, ir.Value] = {}
    with ir.InsertionPoint(region), plan.found.op.location:
        if PACKED in plan.kernel.operands:
            made[PACKED] = from_filter(
                plan.found.filter,
                lambda held: packing.packed(
                    held, plan.found, plan.columns, product.group, product.step, plan.pairs
                ),
                "packed_filter",
            )
        if product.shift:
            made[SUMS] = from_filter(
                plan.found.filter,
                lambda held: packing.sums(held, plan.found, product.shift),
                "filter_sums",
            )
    return executable.replace(region, plan.kernel, made)
