"""Poolings of images whose channels are last."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.tile_writer import attempted
from mlirfuse.kernels.pooling.analysis import ELEMENT_TYPES, PoolingAnalysis, analyze
from mlirfuse.kernels.vector import executable, windowed
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.geometry import Image, result_axes, windows
from mlirfuse.kernels.vector.windowed import Windowed
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.poolings import Pooling
from mlirfuse.structured.recognize.spread_images import Surround
from mlirfuse.targets.base import CpuDevice


def takes(op: ir.Operation, found: Pooling) -> bool:
    """Whether an op is a pooling for which there is a kernel, as far as the op alone shows."""
    return not _obstacle(op, found) and None not in ops.loop_sizes(op)


def has_plain_term(op: ir.Operation, found: Pooling) -> bool:
    """Whether a pooling combines elements of its image, widened at most, of a known type."""
    term = found.term
    plain = isinstance(term.owner, ir.Block) or term.owner.operation.name == "arith.extf"
    return plain and ops.element_type(op.results[0]) in ELEMENT_TYPES


def plan(region: ir.Operation, device: CpuDevice) -> VectorKernel | NoMatch | None:
    """Plans the kernel of a region with a pooling; None for a region without one."""
    found = analyze(region)
    if not isinstance(found, PoolingAnalysis):
        return found
    if None in ops.loop_sizes(found.op) or len(region.operands):
        return NoMatch(Reason.DYNAMIC_SHAPE, "the number of images is dynamic")
    obstacle = _obstacle(found.op, found.pooling)
    if obstacle:
        return NoMatch(Reason.STRUCTURE, f"the kernel cannot compute {obstacle}")
    return attempted(lambda: _plan(found, device), "channels")


def replace(region: ir.Operation, kernel: VectorKernel) -> ir.Operation:
    """Replaces a region by a call of its kernel; returns the call."""
    return executable.replace(region, kernel, {})


def _obstacle(op: ir.Operation, found: Pooling) -> str:
    """The reason why a pooling has no kernel; empty where it has one."""
    last = found.image_dims[-1]
    if len(last) != 1 or last[0][1] != 1 or last[0][0] in found.window_loops:
        return "an image whose channels are not its last dimension"
    if len(ops.loop_sizes(op)) - len(found.window_loops) < 2:
        return "a pooling of one row"
    if ops.element_type(op.results[0]) not in ELEMENT_TYPES:  # 16 bits are combined in f32
        return f"a pooling to {ops.element_type(op.results[0])}"
    if 0 in ops.loop_sizes(op):
        return "an empty tensor"
    if not has_plain_term(op, found):
        return "a pooling of computed elements"
    return ""


def _plan(found: PoolingAnalysis, device: CpuDevice) -> VectorKernel:
    op, pooling = found.op, found.pooling
    channel = pooling.image_dims[-1][0][0]
    loops = [loop for loop in found.out_loops if loop != channel]
    axes = {loop: axis for axis, loop in enumerate([*loops, channel])}
    sizes = ops.loop_sizes(op)
    extents = tuple(sizes[loop] or 0 for loop in axes)
    init = ops.inits(op)[0]
    padding = found.padding
    # Elements that a kernel leaves out must change nothing.
    if padding is not None and padding.value != ops.constant(init):
        raise Unsupported("a padding that is not the first value of the accumulators")
    lows = padding.low if padding is not None else (0,) * len(pooling.image_dims)
    image = Image.of(found.image, [Surround(low) for low in lows])
    x = len(loops) - 1
    problem = Windowed(
        extents=extents,
        image=image.value,
        value=op.results[0],
        init=init,
        results=found.results,
        axes=result_axes(op, found.epilogue, found.results, axes),
        windows=windows(op, image, pooling.image_dims, axes, pooling.window_loops, x),
        combine=pooling.combine.name,
    )
    return windowed.kernel(problem, "pooling", device)
