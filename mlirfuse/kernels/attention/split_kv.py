"""Plans kernels in Triton for attention: with one for each group of queries, or split over keys.

A workgroup holds some queries of one head and walks over the keys with an online softmax. Scores
and weights stay in registers; blocks of keys that a causal mask closes throughout are left out.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.kernels.attention.problem import AttentionConfig
from mlirfuse.kernels.attention.region import Attention
from mlirfuse.kernels.attention.source import (
    BATCH_SIZE,
    KEY_SIZE,
    QUERY_SIZE,
    Scores,
    Split,
    join_parts,
    padded,
    program,
    store_parts,
    sums,
)
from mlirfuse.kernels.codegen.iteration_space import Axis, Group, Space, loop_axes, power_of_two
from mlirfuse.kernels.codegen.scalar_ops import POINTERS, TYPES
from mlirfuse.kernels.codegen.tile_writer import Tiles, returned
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.structured.ir import ops

_JOINED = 16
"""Rows of a workgroup that joins parts, at most."""


def plan(work: Attention, tiling: AttentionConfig, split: Split | None) -> Plan:
    """Plans the kernel, or two where workgroups share the keys of a head.

    Args:
      work: what it computes.
      tiling: its tiles.
      split: how workgroups share the keys; None where each has all of them.

    Raises:
      Unsupported: an op has no form in Triton.
      Conflict: the ops around the attention have other loops.
    """
    op, shape, axes = work.op, work.shape, work.axes
    tiles = Tiles(_space(work, tiling), {})
    places = [_place(tiles, op, n, axes, work.loops.depth) for n in range(3)]
    mask_map = () if work.mask is None else ops.plain_maps(op)[4]
    mask_axes = tuple(axes[d] for d in mask_map if d is not None)
    written = {} if work.mask is None else {work.mask: mask_axes}
    out_axes = tuple(axes[d] for d in ops.indexing_maps(op)[-1] or () if d is not None)
    tiles.loops = {
        **loop_axes(tiles.space, work.before, mask_axes, written=written),
        **loop_axes(tiles.space, work.after, out_axes, written={op.results[0]: out_axes}),
    }
    scores = Scores(tiles, op, work.scale, work.body, work.mask, mask_axes, work.before)
    lines = sums(places, scores, shape, tiling, work.causal, split)
    first = None
    if split is not None:
        first = _parts(work, tiles, lines, tiling, split.parts)
        tiling = AttentionConfig(min(_JOINED, power_of_two(shape.queries or _JOINED)), 0, 4, 1)
        tiles = Tiles(_space(work, tiling), tiles.loops)
        lines = join_parts(shape, tiling, split)
    else:
        lines.append("total = total / weight")
    results = returned(work.region)
    lines += _epilogue(tiles, op, work.after, results, out_axes)
    kinds = [POINTERS[ops.element_type(x)] for x in results]
    return Plan(
        program(tiles, lines, tiling, kinds, shape.told, 3 if first else 0),
        tuple(tiles.operands),
        tuple(results),
        (work.workgroups(tiling.block_m), Extent(1), Extent(1)),
        work.sizes,
        None if first or shape.told else work.problem,
        before=first,
    )


def _space(work: Attention, tiling: AttentionConfig) -> Space:
    """The iteration space of a kernel."""
    shape = work.shape
    return Space(
        (
            Group("batch", work.batch, size=BATCH_SIZE),
            Group(
                "query",
                work.rows,
                "query_inside" if shape.cuts(tiling.block_m) else "",
                QUERY_SIZE,
            ),
            Group("key", (shape.keys,), size=KEY_SIZE),
            Group(
                "column",
                (shape.width,),
                "column_inside" if padded(shape.width) != shape.width else "",
            ),
        )
    )


def _parts(
    work: Attention, tiles: Tiles, lines: list[str], tiling: AttentionConfig, count: int
) -> Plan:
    """The kernel that sums over parts of the keys, from its lines up to the sums."""
    shape = work.shape
    lines = [*lines, *store_parts(shape, tiling.block_m)]
    numbers = (*shape.numbers(BATCH_SIZE), *shape.numbers(QUERY_SIZE))
    both = Extent(count), Extent(shape.heads * (shape.queries or 1), sizes=numbers)
    scratch = ((*both, Extent(shape.width)), both, both)
    return Plan(
        program(tiles, lines, tiling, ["*fp32"] * len(scratch), shape.told),
        tuple(tiles.operands),
        (),
        (work.workgroups(tiling.block_m), Extent(1), Extent(count)),
        work.sizes,
        scratch=scratch,
    )


def _place(
    tiles: Tiles, op: ir.Operation, number: int, axes: dict[int, Axis], depth: int
) -> tuple[str, str]:
    """Where q, k or v starts for a workgroup, and the elements between steps of the depth."""
    value, index_map = op.operands[number], ops.indexing_maps(op)[number] or ()
    shape = ops.shape(value)
    known = tuple(None if d == depth or d is None else axes[d] for d in index_map)
    tiles.axes[value] = known
    place = f"{tiles.pointer(value)} + {tiles.space.offset(shape, known)}"
    step = "0"
    if depth in index_map:
        step = tiles.space.stride(shape, known, index_map.index(depth))
    return place, step


def _epilogue(
    tiles: Tiles,
    op: ir.Operation,
    after: list[ir.Operation],
    results: list[ir.Value],
    axes: tuple[Axis | None, ...],
) -> list[str]:
    """The lines from the normalized sums `total` to the results."""
    start = len(tiles.body.lines)
    tiles.forget_loads()
    out = ops.element_type(op.results[0])
    tiles.define(op.results[0], tiles.body.name(f"total.to({TYPES[out]})"))
    for other in after:
        tiles.elementwise(other)
    for number, value in enumerate(results):
        owned = axes if value == op.results[0] else tiles.written_axes(value)
        tiles.store(f"y{number}", value, owned)
    return tiles.body.lines[start:]
