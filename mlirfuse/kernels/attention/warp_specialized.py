"""Plans kernels in Gluon for attention on Hopper, whose products run under the softmax."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.attention.problem import AttentionConfig
from mlirfuse.kernels.attention.region import Attention
from mlirfuse.kernels.attention.source import (
    BATCH_SIZE,
    KEY_SIZE,
    LOG2E,
    QUERY_SIZE,
    Shape,
    program,
)
from mlirfuse.kernels.codegen.iteration_space import Group, Space, known_product
from mlirfuse.kernels.codegen.scalar_ops import POINTERS
from mlirfuse.kernels.codegen.tile_writer import Tiles, returned
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target

COMPUTING_WARPS = 4
"""Of each group that computes in `device/attention_sm90.py`; beside two of them, a third loads."""

TALL = 64
"""Queries of each of them."""

GAIN = 1.15
"""What loaders gain: 259 us for 1x32x4000x128, causal, where it took 301 without, on an H100."""

HEADS = (64, 128)
"""Head sizes of those kernels: a row is one or two lines of 128 bytes in workgroup memory."""


def overlaps(work: Attention, target: Target) -> bool:
    """Whether these kernels can compute an attention."""
    return (
        target.arch == triton_compiler.HOPPER
        and (work.causal or work.mask is None)
        and not (work.after or work.body)
        and work.shape.queries == work.rows[-1]
        and work.scale > 0
        and _whole_heads(work)
    )


def _whole_heads(work: Attention) -> bool:
    """Whether heads are of a size of `HEADS`, and dense in q, k, v and the results."""
    maps = [*ops.indexing_maps(work.op)[:3], ops.indexing_maps(work.op)[-1]]
    last = (work.loops.depth, work.loops.depth, work.loops.width, work.loops.width)
    return (
        work.shape.depth == work.shape.width
        and work.shape.width in HEADS
        and all(
            index_map is not None and index_map[-1] == loop
            for index_map, loop in zip(maps, last, strict=True)
        )
        and None not in _steps(work)
    )


def _read_and_written(work: Attention) -> list[tuple[ir.Value, tuple[int | None, ...], int]]:
    """q, k, v and the results: each with its loops, and that of its queries or keys."""
    op, maps = work.op, ops.plain_maps(work.op)
    query, key = work.loops.rows[-1], work.loops.key
    read = [(op.operands[n], maps[n], loop) for n, loop in enumerate((query, key, key))]
    return [*read, (op.results[0], maps[-1], query)]


def _steps(work: Attention) -> list[int | None]:
    """Elements from one query or key to the next in each of them; None for a dynamic number."""
    found = []
    for value, index_map, loop in _read_and_written(work):
        inner = ops.shape(value)[index_map.index(loop) + 1 :]
        found.append(None if None in inner else known_product(inner))
    return found


def plan(work: Attention, tiling: AttentionConfig, target: Target) -> Plan:
    """Plans the kernel of an attention that `overlaps`.

    Args:
      work: what it computes.
      tiling: its tiles.
      target: the target.
    """
    shape = work.shape
    loaders = tiling.num_warps > COMPUTING_WARPS and _pays(shape)
    if loaders:
        tiling = dataclasses.replace(tiling, block_m=2 * TALL)
    elif tiling.num_warps > COMPUTING_WARPS:
        tiling = dataclasses.replace(tiling, block_m=TALL, block_n=64)
    groups = (
        Group("batch", work.batch, size=BATCH_SIZE),
        Group("", (shape.queries,), size=QUERY_SIZE),
        Group("", (shape.keys,), size=KEY_SIZE),
    )
    tiles = Tiles(Space(groups), {})
    lines, starts = _text(tiles, work, tiling, loaders=loaders)
    workgroups = work.workgroups(tiling.block_m)
    if loaders:
        num_sms = gpu_of(target).num_sms
        count = num_sms if shape.told else workgroups.count(())
        workgroups = Extent(min(count, num_sms))
    one = dataclasses.replace(tiling, num_warps=COMPUTING_WARPS)
    results = returned(work.region)
    kinds = [POINTERS[ops.element_type(x)] for x in results]
    return Plan(
        program(tiles, lines, one, kinds, shape.told, gluon=True, functions=starts),
        tuple(tiles.operands),
        tuple(results),
        (workgroups, Extent(1), Extent(1)),
        work.sizes,
        None if shape.told else work.problem,
    )


def _pays(shape: Shape) -> bool:
    """Whether tiles of both computing groups together have few queries too many."""
    if shape.queries is None:
        return True
    both, one = (-(-shape.queries // tall) * tall for tall in (2 * TALL, TALL))
    return both <= one * GAIN


@dataclasses.dataclass(frozen=True, slots=True)
class _Heads:
    """Where q, k, v and the results of a head are.

    Attributes:
      pointers: to each tensor.
      starts: elements from there to the head, in terms of `batch`, its number.
    """

    pointers: list[str]
    starts: list[str]


def _heads(tiles: Tiles, work: Attention) -> _Heads:
    """Where the heads are that the kernel reads and writes."""
    axes = {loop: (0, n) for n, loop in enumerate(work.loops.batch)}
    axes |= {work.loops.rows[-1]: (1, 0), work.loops.key: (2, 0)}
    pointers, starts = [], []
    for value, index_map, _ in _read_and_written(work):
        known = [None if d is None else axes.get(d) for d in index_map]
        pointers.append("y0" if value == work.op.results[0] else tiles.pointer(value))
        starts.append(tiles.space.offset(ops.shape(value), known))
    return _Heads(pointers, starts)


def _text(
    tiles: Tiles, work: Attention, tiling: AttentionConfig, *, loaders: bool
) -> tuple[list[str], str]:
    """The lines of the kernel, and the function that they name."""
    heads, shape = _heads(tiles, work), work.shape
    entry = "attention_with_loaders" if loaders else "attention"
    numbers: list[float | None] = [*_steps(work), tiling.block_n, shape.width]
    numbers += [shape.cuts(tiling.block_m), shape.cuts_keys(tiling.block_n), bool(shape.told)]
    numbers += [work.causal, tiling.heads_first, work.scale * LOG2E]
    shaped = f"attention_sm90.shaped({', '.join(map(str, numbers))})"
    sizes = f"({shape.head_count}, {shape.query_count}, {shape.key_count})"
    starts = (
        "@gluon.jit\ndef starts(batch, query_size, key_size):\n"
        '    """Where q, k, v and the results of a head start."""\n'
        f"    return {', '.join(heads.starts)}\n\n\n"
    )
    call = f"attention_sm90.{entry}({', '.join(heads.pointers)}, {sizes}, starts, {shaped})"
    return [call], starts
