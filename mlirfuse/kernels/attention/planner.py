"""Kernels for regions around one `iree_linalg_ext.attention`, and their tiles.

attention_region.read       what the region computes
attention_overlapped.plan   kernels in Gluon for Hopper
attention_plain.plan        kernels in Triton
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.attention import split_kv, warp_specialized
from mlirfuse.kernels.attention.problem import UNKNOWN_BATCH, Attention, read
from mlirfuse.kernels.attention.source import Split, Tiling
from mlirfuse.kernels.attention.warp_specialized import HEADS
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, power_of_two
from mlirfuse.kernels.codegen.tile_writer import attempted, computing
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.matmul.tilings import FILLED
from mlirfuse.kernels.plan import Key, Plan
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target

ATTENTION = "iree_linalg_ext.attention"

SHORTEST = 256
"""Keys that are worth a workgroup of their own, at least."""

PARTS_FILLED = 264
"""Workgroups that share keys until then: two for each multiprocessor of an H100."""

FEWEST = 48
"""Queries below which a good part of a tile of 64 would be empty."""


def supports(
    region: ir.Operation, target: Target, tiling: Tiling | None = None
) -> Plan | NoMatch | None:
    """Plans a kernel for a region around one attention; None for another kind of region.

    Args:
      region: a group.
      target: what is compiled for.
      tiling: instead of the chosen one.
    """
    group = computing(region)
    found = [op for op in group if op.name == ATTENTION]
    if not found:
        return None
    others = [op for op in group if op not in found and not ops.is_elementwise(op)]
    if len(found) > 1 or others:
        return NoMatch(
            Reason.STRUCTURE, f"the kernel has no {ops.described((others or found)[-1])}"
        )
    return attempted(
        lambda: _plan(region, group, found[0], target, tiling), "queries, keys and widths"
    )


def needs_provider(match: Match, ctx: PassContext) -> NoMatch | None:
    """Leaves a dynamic number of keys, which only kernels do well, where none can be built."""
    if match.data.dynamic_keys and not ctx.options.dynamic_keys:
        return triton_compiler.missing()
    return None


def _plan(
    region: ir.Operation,
    group: list[ir.Operation],
    op: ir.Operation,
    target: Target,
    tiling: Tiling | None,
) -> Plan | NoMatch:
    work = read(region, group, op)
    if isinstance(work, NoMatch):
        return work
    chosen = tiling or _tiling(target, work.key)
    split = _split(work, chosen)
    if chosen.overlapped and warp_specialized.overlaps(work, target) and not split:
        plan = warp_specialized.plan(work, chosen)
    else:
        if chosen.overlapped:
            chosen = _plain(target, work.key)
            split = _split(work, chosen)
        plan = split_kv.plan(work, chosen, split)
    read_or_written = [v for one in plan.kernels() for v in (*one.operands, *one.results)]
    total = max(ops.num_elements(x) for x in read_or_written)
    if total >= MAX_INDEX:
        return NoMatch(Reason.NOT_PROFITABLE, f"a tensor of {total} elements")
    return plan


def _split(work: Attention, tiling: Tiling) -> Split | None:
    """How workgroups share the keys of some queries; None where one has all keys.

    With a dynamic size it is known at run time alone how many are worth it, and the rest has none.
    """
    shape, block = work.shape, tiling.block
    if work.causal or shape.queries is None:
        return None
    tiles = -(-shape.queries // tiling.tall)
    # Of a dynamic number of batches there may be one, which counts where queries are few.
    likely = UNKNOWN_BATCH if shape.batched and shape.queries >= FEWEST else 1
    least = tiles * shape.heads * likely
    parts = PARTS_FILLED // least
    if shape.keys is not None:
        parts = min(parts, shape.keys // SHORTEST)
    if least >= FILLED or parts < 2:
        return None
    if shape.keys is not None and not shape.batched:
        span = -(-shape.keys // (parts * block)) * block
        return Split(-(-shape.keys // span), str(span))
    workgroups = f"{tiles} * {shape.head_count}"
    numbers = f"{PARTS_FILLED}, {SHORTEST}, {block}"
    return Split(parts, f"library.span({shape.key_count}, {workgroups}, {numbers})")


def _tiling(target: Target, key: Key) -> Tiling:
    """The tiling for that many queries and heads of that size."""
    queries, _, head, _ = key.sizes
    numbers = lookup.tiling(target, key)
    if numbers is not None:
        tall, block, warps, stages, *flags = numbers
        found = Tiling(tall, block, warps, stages, *map(bool, flags))
    elif head > HEADS[0] and queries > 64:
        found = Tiling(128, 128, 8, 2, overlapped=True)
    else:
        found = Tiling(64, 64, 4, 2, overlapped=True)
    if found.overlapped and (queries < FEWEST or not triton_compiler.has_gluon()):
        return _plain(target, key)
    return dataclasses.replace(found, tall=min(found.tall, max(16, power_of_two(queries))))


def _plain(target: Target, key: Key) -> Tiling:
    """The tiling where nothing was measured, of a kernel that does not overlap; an estimate."""
    queries, _, head, _ = key.sizes
    stages = 2 if head > 128 or target.name == "rocm" else 3
    return Tiling(min(64, max(16, power_of_two(queries))), 64, 4, stages)


def candidates(key: Key) -> list[Tiling]:
    """The tilings that a search measures."""
    queries, _, head, _ = key.sizes
    if queries <= 32:
        tall = max(16, power_of_two(queries))
        return [Tiling(tall, block, 4, stages) for block, stages in ((64, 3), (128, 2), (128, 3))]
    shapes: list[tuple[int, int, int, int]] = [
        (64, 32, 4, 3),
        (64, 64, 4, 2),
        (64, 64, 4, 3),
        (64, 128, 4, 2),
        (128, 64, 8, 2),
        (128, 64, 8, 3),
    ]
    if head <= 64:
        shapes += [(64, 64, 4, 4), (128, 64, 4, 3), (128, 128, 4, 2), (128, 128, 4, 3)]
    else:
        shapes += [(64, 32, 4, 4), (128, 128, 8, 2), (128, 32, 4, 3), (128, 32, 8, 4)]
    orders = (False, True) if key.form == "causal" else (False,)
    found = [Tiling(*shape, order) for order in orders for shape in shapes]
    if key.form != "masked" and head in HEADS:
        shapes = [(64, 64, 4, 2), (64, 128, 4, 2), (128, 64, 8, 2), (128, 128, 8, 2)]
        found += [Tiling(*shape, order, True) for order in orders for shape in shapes]
    return found
