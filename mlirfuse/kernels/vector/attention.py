"""Attention on CPUs: the problem, and how it is blocked.

Queries are the lanes of vectors: the scores of a block of keys are on the stack, transposed, so
that the maxima and sums of the softmax are elementwise ops on vectors. Blocks of keys have an
online softmax. Few queries would leave lanes empty: see `attention_split`.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext, Reason
from mlirfuse.kernels.attention import analysis
from mlirfuse.kernels.attention.analysis import AttentionAnalysis
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.tile_writer import attempted
from mlirfuse.kernels.vector import (
    attention_kernel,
    attention_matrix,
    attention_split,
    products,
    repeated,
    stages,
)
from mlirfuse.kernels.vector.attention_problem import AttentionTile, Problem
from mlirfuse.kernels.vector.attention_stack import STATISTICS
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.geometry import result_axes
from mlirfuse.kernels.vector.products import Operands
from mlirfuse.kernels.vector.stages import Stages
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.strided_views import contiguous, strided_view
from mlirfuse.structured.recognize.attention import Attention
from mlirfuse.structured.recognize.attention_matches import profitable_attention
from mlirfuse.targets.base import CpuDevice, Target

STACK_BYTES = 28 << 10
"""Bytes of the stack for queries, scores and accumulators, of the 32 KiB that IREE allows a
dispatch; the epilogue may need the rest."""

MIN_KEY_BLOCK = 16
"""Keys of a block, from which its maxima and the scaling of the accumulators cost little."""

QUERY_VECTORS = 2
"""Vectors of queries of a tile: an element of a key is loaded once for both."""


def choose_tile(
    queries: int, keys: int, qk_head: int, v_head: int, device: CpuDevice
) -> AttentionTile | None:
    """Vectors of queries and blocks of keys that fit the stack; None where none do.

    Args:
      queries: number of queries of a head.
      keys: number of keys.
      qk_head: elements of a query and a key.
      v_head: elements of a value.
      device: the CPU.
    """
    lanes = device.lanes
    wide = -(-v_head // lanes) * lanes
    for vectors in range(min(QUERY_VECTORS, -(-queries // lanes)), 0, -1):
        width = vectors * lanes
        left = STACK_BYTES // 4 // width - qk_head - STATISTICS
        if left >= keys:
            return AttentionTile(vectors, keys)
        left -= wide
        if left >= min(MIN_KEY_BLOCK, keys):
            blocks = -(-keys // left)
            return AttentionTile(vectors, -(-keys // blocks))
    return None


def choose_matrix_tile(
    queries: int, keys: int, qk_head: int, v_head: int, element: str, device: CpuDevice
) -> AttentionTile | None:
    """Vectors of queries and blocks of keys for tile registers; None where they are not used.

    Args:
      queries: number of queries of a head.
      keys: number of keys.
      qk_head: elements of a query and a key.
      v_head: elements of a value.
      element: their type.
      device: the CPU.
    """
    kinds = Operands(element, element, "f32")
    if products.of_tiles(kinds, device, rows=queries) is None or qk_head % 2:
        return None
    lanes = device.lanes
    columns = -(-v_head // lanes) * lanes
    for vectors in range(min(QUERY_VECTORS, -(-queries // lanes)), 0, -1):
        left = STACK_BYTES // 4 // (vectors * lanes) - columns - STATISTICS
        if left >= attention_matrix.DEPTH:
            blocks = -(-keys // (left // attention_matrix.DEPTH * attention_matrix.DEPTH))
            parts = -(-keys // (blocks * attention_matrix.DEPTH))
            return AttentionTile(vectors, parts * attention_matrix.DEPTH)
    return None


def pays(queries: int, device: CpuDevice) -> bool:
    """Whether queries are the lanes of vectors: enough of these have one.

    On one core of a Zen 4, whose vectors have 16 lanes, 2x1024x64 f32 with 8, 12 and 16 queries
    takes 81, 89 and 99 us so, 69, 95 and 122 us with keys as the lanes.
    """
    return 3 * queries >= 2 * device.lanes


def profitable(match: Match, ctx: PassContext) -> NoMatch | None:
    """The `profitable` of the attention passes: on a CPU, attention for which there is a kernel."""
    device = ctx.target.cpu
    if device is None or ctx.options.any_size:
        return profitable_attention(match, ctx)
    return _refusal(match.data, ctx.target, device)


def _refusal(found: Attention, target: Target, device: CpuDevice) -> NoMatch | None:
    """The reason why a recognized attention has no kernel on a CPU; None where it has one."""
    if not target.vector_kernels:
        detail = "IREE's code for it is slower than three dispatches, and kernels are off"
        return NoMatch(Reason.NOT_PROFITABLE, detail)
    sizes = [dim.size for dim in found.domain.dims]
    if None in sizes:
        return NoMatch(Reason.DYNAMIC_SHAPE, "the kernel for CPUs has static sizes")
    known = [size or 0 for size in sizes]
    queries = max((known[d] for d in found.query_dims), default=1)
    if not found.result.axes[-1] or found.result.axes[-1][-1] not in found.head_dims:
        return NoMatch(Reason.WRONG_AXIS, "the values' elements are not the result's last axis")
    if not found.v.axes[-1] or found.v.axes[-1][-1] not in found.head_dims:
        return NoMatch(Reason.WRONG_AXIS, "the values' elements are not contiguous")
    qk_head, v_head = known[found.k1], max(known[d] for d in found.head_dims)
    if not pays(queries, device):
        return attention_split.refusal(qk_head, v_head, device)
    if choose_tile(queries, known[found.key], qk_head, v_head, device) is None:
        return NoMatch(Reason.NOT_PROFITABLE, f"heads of {max(qk_head, v_head)} exceed the stack")
    return None


def plan(region: ir.Operation, device: CpuDevice) -> Stages | NoMatch | None:
    """Plans the kernels of a region with an attention; None for a region without one.

    Args:
      region: a `flow.dispatch.region`.
      device: the CPU.
    """
    found = analysis.analyze(region, any_head=True)
    if not isinstance(found, AttentionAnalysis):
        return found
    if found.sizes.dynamic or len(region.operands):
        return NoMatch(Reason.DYNAMIC_SHAPE, "the kernel for CPUs has static sizes")
    return attempted(lambda: _plan(found, device), "queries")


def _plan(found: AttentionAnalysis, device: CpuDevice) -> Stages | NoMatch:
    loops = found.loops
    outer = (*loops.batch, *loops.queries[:-1])
    queries, keys = found.query_sizes[-1] or 0, found.sizes.keys or 0
    heads = found.sizes
    axes = {loop: n for n, loop in enumerate((*outer, loops.queries[-1], loops.v_head))}
    region = list(found.region.regions[0].blocks[0].operations)
    results = tuple(region[-1].operation.operands)
    known = result_axes(found.op, found.epilogue, results, axes)
    if any(known[result][-1] != len(axes) - 1 for result in results):
        raise Unsupported("a result whose last dimension is not the values'")
    scores = {loop: n for n, loop in enumerate((*outer, loops.key, loops.queries[-1]))}
    maps = ops.plain_maps(found.op)
    views = [strided_view(value) or contiguous(value) for value in list(found.op.operands)[:3]]
    if views[2].strides[-1] != 1:
        views[2] = contiguous(found.op.operands[2])
    problem = Problem(
        outer=tuple(size or 0 for size in (*found.batch_sizes, *found.query_sizes[:-1])),
        groups=len(loops.queries) - 1,
        queries=queries,
        keys=keys,
        qk_head=heads.qk_head_size,
        v_head=heads.v_head_size,
        operands=tuple(view.base for view in views),
        strides=tuple(view.strides for view in views),
        offsets=tuple(view.offset for view in views),
        loops=tuple(tuple(m) for m in maps[:3]),
        roles=(outer, loops.queries[-1], loops.key, loops.qk_head, loops.v_head),
        scale=found.scale,
        score_body=found.score_body,
        mask=found.mask,
        mask_axes=() if found.mask is None else tuple(scores[d] for d in maps[4] if d is not None),
        value=found.op.results[0],
        results=results,
        axes=known,
        causal=found.causal,
    )
    if not pays(queries, device):
        refusal = attention_split.refusal(problem.qk_head, problem.v_head, device)
        return refusal or attention_split.kernels(problem, device)
    if problem.step(2, loops.v_head) != 1:
        raise Unsupported("values whose elements are not contiguous")
    sizes = queries, keys, heads.qk_head_size, heads.v_head_size
    tile, matrix_tile = choose_tile(*sizes, device), None
    if tile is None:
        return NoMatch(Reason.NOT_PROFITABLE, f"heads of {max(sizes[2:])} exceed the stack")
    if problem.step(0, loops.qk_head) == problem.step(1, loops.qk_head) == 1:
        matrix_tile = choose_matrix_tile(*sizes, found.operand_type, device)

    def written() -> VectorKernel:
        return attention_kernel.kernel(problem, tile, matrix_tile, device)

    about = (tile, matrix_tile, problem.strides, problem.offsets, problem.causal)
    group = [op.operation for op in region]
    return stages.alone(repeated.once(group, results, about, written))
