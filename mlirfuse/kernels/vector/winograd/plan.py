"""Convolutions that minimal filtering computes with fewer cycles, and how."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders.convolution_builder import from_filter
from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.tile_writer import attempted
from mlirfuse.kernels.convolution.analysis import Analysis
from mlirfuse.kernels.vector import convolution, executable, products, register_tiles
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.register_tiles import RegisterTile
from mlirfuse.kernels.vector.tiled import PACKED, Tiled
from mlirfuse.kernels.vector.winograd import filters, model
from mlirfuse.kernels.vector.winograd.kernel import WinogradKernel
from mlirfuse.kernels.vector.winograd.model import Blocking
from mlirfuse.kernels.vector.winograd.problem import Side, Winograd
from mlirfuse.kernels.vector.winograd.transforms import WINDOWS, Filtering
from mlirfuse.kernels.vector.workgroups import BLOCKS_PER_CORE
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops
from mlirfuse.structured.recognize.convolutions import constant_root
from mlirfuse.targets.base import CpuDevice

MARGIN = 1.15
"""How many times as fast as the direct kernel it has to be by the model."""

MAX_PRODUCTS = 64
"""Products of a window: the transform of one keeps as many vectors."""

MAX_BLOCK_TILES = 4
"""Register tiles of windows that are transformed together, and read each product's filter once."""

MAX_SCRATCH_BYTES = 32 << 20
"""Bytes of the transformed windows of all workgroups, beyond which there is one for each core."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The kernel of a convolution by minimal filtering.

    Attributes:
      found: the convolution.
      problem: the computation.
      kernel: the kernel.
    """

    found: Analysis
    problem: Winograd
    kernel: VectorKernel


def plan(region: ir.Operation, device: CpuDevice) -> Plan | NoMatch | None:
    """Plans the kernel of a region with a convolution; None for a region without one.

    Args:
      region: a `flow.dispatch.region`.
      device: the CPU.
    """
    found = convolution.analyzed(region, device)
    if not isinstance(found, Analysis):
        return found
    return attempted(lambda: _plan(found, device), "channels")


def _plan(found: Analysis, device: CpuDevice) -> Plan | NoMatch | None:
    loops = found.loops
    if found.groups or loops.n_loop is None or loops.channel_loop is None:
        return None
    tiled, image = convolution.windowed_image(found)
    if convolution.channel_distance(found, image) != 1 or not _sums_f32(found.op):
        return None
    refusal = _refusal(found.op, loops, device)
    if refusal:
        return NoMatch(Reason.NOT_PROFITABLE, refusal)
    made = _choice(tiled, _Sizes.of(found), device)
    if made is None:
        return None
    if made.direct < MARGIN * made.cycles:
        return NoMatch(
            Reason.NOT_PROFITABLE,
            f"sums over taps take less than {MARGIN} times as long in the model",
        )
    with found.op.location:
        return _planned(found, tiled, made.sides, made.how, device)


def _sums_f32(op: ir.Operation) -> bool:
    return ops.element_type(op.results[0]) == "f32"


def _refusal(op: ir.Operation, loops: ConvolutionLoops, device: CpuDevice) -> str:
    """The reason why a convolution that sums f32 is another kernel's; empty where it is not."""
    kinds = products.operands_of(op, loops.image, loops.filter)
    if products.choose(kinds, device, has_channels=True) is not None:
        return "instructions multiply pairs of these elements"
    if constant_root(op.operands[loops.filter]) is None:
        return "the filter is no constant: each call transforms it"
    return ""


@dataclasses.dataclass(frozen=True, slots=True)
class _Sizes:
    """What the modelled times of a convolution depend on, beside its windows.

    Attributes:
      in_channels: its input channels, which are adjacent in the image.
      out_channels: its output channels.
      tap_loops: number of its loops over taps.
      filter_bytes: bytes of its filter.
      element_bytes: bytes of an element of the image.
    """

    in_channels: int
    out_channels: int
    tap_loops: int
    filter_bytes: int
    element_bytes: int

    @classmethod
    def of(cls, found: Analysis) -> _Sizes:
        """Those of a region."""
        return cls(
            found.in_channels,
            found.out_channels,
            len(found.loops.tap_loops),
            ops.num_bytes(found.filter),
            ops.element_bits(found.image) // 8,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Choice:
    """The fastest form by the model.

    Attributes:
      sides: how dimensions with taps are divided into windows.
      how: how the work is divided.
      cycles: its cycles.
      direct: those of sums over taps.
    """

    sides: tuple[Side, ...]
    how: Blocking
    cycles: float
    direct: float


def _choice(tiled: Tiled, sizes: _Sizes, device: CpuDevice) -> _Choice | None:
    best, fewest = None, math.inf
    for sides in _candidates(tiled, sizes.tap_loops):
        windows = _windows(tiled, sides)
        for how in _blockings(windows, sides, sizes, device):
            cycles = model.filtering_cycles(
                sides, windows, sizes.in_channels, sizes.out_channels, how, device
            )
            if cycles < fewest:
                best, fewest = (sides, how), cycles
    if best is None:
        return None
    tile = register_tiles.choose(
        tiled.class_width,
        -(-sizes.out_channels // device.lanes),
        tiled.taps * sizes.in_channels,
        device,
        row_bytes=tiled.pixel_stride * sizes.in_channels * sizes.element_bytes,
        overlap=tiled.overlap,
    )
    direct = model.direct_cycles(tiled, sizes.in_channels, tile, sizes.filter_bytes, device)
    return _Choice(*best, fewest, direct)


def gains_from_copied_image(op: ir.Operation, loops: ConvolutionLoops, device: CpuDevice) -> bool:
    """Whether a convolution of an image with channels first pays for a copy with channels last.

    Args:
      op: a convolution without groups, of static sizes, whose image has no zeros around it.
      loops: its loops.
      device: the CPU.
    """
    if not _sums_f32(op) or _refusal(op, loops, device):
        return False
    image, weights = op.operands[loops.image], op.operands[loops.filter]
    extents = ops.loop_sizes(op)
    assert loops.channel_loop is not None
    assert loops.n_loop is not None
    sizes = _Sizes(
        extents[loops.channel_loop] or 0,
        extents[loops.n_loop] or 0,
        len(loops.tap_loops),
        ops.num_bytes(weights),
        ops.element_bits(image) // 8,
    )
    try:
        made = _choice(convolution.windows_alone(op, loops), sizes, device)
    except Unsupported:
        return False
    copied = 2 * model.memory_cycles(ops.num_bytes(image), device)
    return made is not None and MARGIN * made.cycles + copied < made.direct


def _candidates(tiled: Tiled, tap_loops: int) -> Iterator[tuple[Side, ...]]:
    """Ways to divide the dimensions with taps into windows."""
    taps = [window for window in tiled.windows if window.taps > 1]
    others = [window for window in tiled.windows if window.taps == 1]
    extents = tiled.extents
    if len(taps) != tap_loops or not all(
        w.always_inside(1 if w.axis is None else extents[w.axis]) for w in others
    ):
        return
    if any(w.axis is None or (w.stride, w.dilation, w.spread) != (1, 1, 1) for w in taps):
        return
    sizes = [[n for n in WINDOWS if n - w.taps + 1 >= 2] for w in taps]
    for chosen in itertools.product(*sizes):
        if taps and math.prod(chosen) <= MAX_PRODUCTS:
            yield tuple(
                Side(w, Filtering(n - w.taps + 1, w.taps), extents[w.axis or 0])
                for w, n in zip(taps, chosen, strict=True)
            )


def _windows(tiled: Tiled, sides: Sequence[Side]) -> int:
    covered = {side.window.axis: side.tiles for side in sides}
    return math.prod(covered.get(axis, size) for axis, size in enumerate(tiled.extents[:-1]))


def _blockings(
    windows: int, sides: Sequence[Side], sizes: _Sizes, device: CpuDevice
) -> Iterator[Blocking]:
    """Ways to divide the work."""
    vectors = -(-sizes.out_channels // device.lanes)
    tile = register_tiles.choose(windows, vectors, sizes.in_channels, device)
    tiles = vectors // tile.vectors
    wanted = BLOCKS_PER_CORE * device.cores
    per_window = math.prod(side.filtering.window for side in sides) * 4 * sizes.in_channels
    for many in range(1, MAX_BLOCK_TILES + 1):
        blocks = -(-windows // (many * tile.rows))
        block = -(-windows // blocks)
        rows = -(-block // many)
        most = max(device.cores, min(wanted, MAX_SCRATCH_BYTES // (per_window * block)))
        for parts in range(1, min(tiles, most) + 1):
            shares = min(blocks, max(1, most // parts))
            yield Blocking(RegisterTile(rows, tile.vectors), block, parts, shares)


def _planned(
    found: Analysis, tiled: Tiled, sides: tuple[Side, ...], how: Blocking, device: CpuDevice
) -> Plan:
    columns = how.tile.vectors * device.lanes
    tiles = -(-found.out_channels // columns)
    size = math.prod(s.filtering.window for s in sides) * found.in_channels * tiles * columns
    problem = Winograd(
        **tiled.fields(),
        sides=sides,
        channels=found.in_channels,
        rows=how.tile.rows,
        vectors=how.tile.vectors,
        block=how.block,
        lanes=device.lanes,
        packed=builders.tensor_type([size], "f32"),
    )
    kernel = WinogradKernel(problem, device).write("winograd", (how.parts, how.shares))
    return Plan(found, problem, kernel)


def replace(region: ir.Operation, plan: Plan) -> ir.Operation:
    """Replaces a region by a call of its kernel; returns the call."""
    problem = plan.problem
    columns = problem.vectors * problem.lanes
    with ir.InsertionPoint(region), plan.found.op.location:
        made = from_filter(
            plan.found.filter,
            lambda held: filters.transformed(held, plan.found, problem.sides, columns),
            "transformed_filter",
        )
    return executable.replace(region, plan.kernel, {PACKED: made})
