"""Plans kernels in Gluon for attention on Hopper, whose products run under the softmax."""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels import building
from mlirfuse.kernels.attention_region import Attention
from mlirfuse.kernels.attention_text import LOG2E, Tiling, program
from mlirfuse.kernels.hopper_matmul import PROGRAMS
from mlirfuse.kernels.provider import Extent, Plan
from mlirfuse.kernels.scalars import POINTERS
from mlirfuse.kernels.space import Group, Space, known_product
from mlirfuse.kernels.tiles import Tiles, returned
from mlirfuse.structured import ops
from mlirfuse.targets.base import Target

COMPUTING_WARPS = 4
"""Of each group that computes in `triton/hopper.py`; where there are two, a third one loads."""

HEADS = (64, 128)
"""Head sizes of those kernels: a row is one or two lines of 128 bytes in workgroup memory."""


def overlaps(work: Attention, target: Target) -> bool:
    """Whether these kernels can compute an attention."""
    return (
        target.arch == building.HOPPER
        and (work.causal or work.mask is None)
        and not (work.after or work.body or work.shape.queries > work.rows[-1])
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
    )


def plan(work: Attention, tiling: Tiling) -> Plan:
    """Plans the kernel of an attention that `overlaps`.

    Args:
      work: what it computes.
      tiling: its tiles.
    """
    shape = work.shape
    if tiling.warps > COMPUTING_WARPS and (
        shape.queries % tiling.tall or shape.keys % tiling.block
    ):
        # The kernel with loaders was checked on a device for whole tiles alone.
        tiling = dataclasses.replace(tiling, tall=64, block=64, warps=COMPUTING_WARPS)
    tiles = Tiles(Space((Group("batch", work.batch),)), {})
    lines, starts = _text(tiles, work, tiling)
    workgroups = -(-shape.queries // tiling.tall) * work.heads
    if tiling.warps > COMPUTING_WARPS:
        workgroups = min(workgroups, PROGRAMS)
    one = dataclasses.replace(tiling, warps=COMPUTING_WARPS)
    results = returned(work.region)
    kinds = [POINTERS[ops.element_type(x)] for x in results]
    return Plan(
        program(tiles, lines, one, kinds, gluon=True, functions=starts),
        tuple(tiles.operands),
        tuple(results),
        (Extent(workgroups), Extent(1), Extent(1)),
        key=work.key,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Heads:
    """Where q, k, v and the results of a head are.

    Attributes:
      pointers: to each tensor.
      starts: elements from there to the head, in terms of `batch`, its number.
      steps: elements from one query or key to the next.
    """

    pointers: list[str]
    starts: list[str]
    steps: list[int]


def _heads(tiles: Tiles, work: Attention) -> _Heads:
    """Where the heads are that the kernel reads and writes."""
    op, query, axes = work.op, work.loops.rows[-1], work.axes
    maps = ops.plain_maps(op)
    pointers, starts, steps = [], [], []
    for value, index_map, loop in (
        (op.operands[0], maps[0], query),
        (op.operands[1], maps[1], work.loops.key),
        (op.operands[2], maps[2], work.loops.key),
        (op.results[0], maps[-1], query),
    ):
        sizes = ops.shape(value)
        known = [axes[d] if d in work.loops.batch else None for d in index_map]
        pointers.append("y0" if value == op.results[0] else tiles.pointer(value))
        starts.append(tiles.space.offset(sizes, known))
        steps.append(known_product(sizes[index_map.index(loop) + 1 :]))
    return _Heads(pointers, starts, steps)


def _text(tiles: Tiles, work: Attention, tiling: Tiling) -> tuple[list[str], str]:
    """The lines of the kernel, and the function that they name."""
    heads, shape = _heads(tiles, work), work.shape
    entry = "attention_with_loaders" if tiling.warps > COMPUTING_WARPS else "attention"
    numbers: list[float] = [
        *heads.steps,
        work.heads,
        shape.queries,
        shape.keys,
        tiling.block,
        shape.width,
    ]
    numbers += [work.causal, tiling.heads_first, work.scale * LOG2E]
    shaped = f"hopper.shaped({', '.join(map(str, numbers))})"
    starts = (
        "@gluon.jit\ndef starts(batch):\n"
        '    """Where q, k, v and the results of a head start."""\n'
        f"    return {', '.join(heads.starts)}\n\n\n"
    )
    return [f"hopper.{entry}({', '.join(heads.pointers)}, starts, {shaped})"], starts
