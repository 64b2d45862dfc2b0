"""Kernels for regions around one `iree_linalg_ext.attention`, and their tiles.

region.read                what the region computes
warp_specialized.plan       kernels in Gluon for Hopper
split_kv.plan               kernels in Triton
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.attention import split_kv, warp_specialized
from mlirfuse.kernels.attention.problem import AttentionConfig, AttentionProblem
from mlirfuse.kernels.attention.region import UNKNOWN_BATCH, Attention, read
from mlirfuse.kernels.attention.source import Split
from mlirfuse.kernels.attention.warp_specialized import HEADS
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, power_of_two
from mlirfuse.kernels.codegen.tile_writer import attempted, computing
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.matmul.heuristics import fills_device
from mlirfuse.kernels.plan import Plan
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
    region: ir.Operation, target: Target, tiling: AttentionConfig | None = None
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
    tiling: AttentionConfig | None,
) -> Plan | NoMatch:
    work = read(region, group, op)
    if isinstance(work, NoMatch):
        return work
    chosen = tiling or _tiling(target, work.problem)
    split = _split(work, chosen, target)
    if chosen.warp_specialized and warp_specialized.overlaps(work, target) and not split:
        plan = warp_specialized.plan(work, chosen, target)
    else:
        if chosen.warp_specialized:
            chosen = _plain(target, work.problem)
            split = _split(work, chosen, target)
        plan = split_kv.plan(work, chosen, split)
    read_or_written = [v for one in plan.kernels() for v in (*one.operands, *one.results)]
    total = max(ops.num_elements(x) for x in read_or_written)
    if total >= MAX_INDEX:
        return NoMatch(Reason.NOT_PROFITABLE, f"a tensor of {total} elements")
    return plan


def _split(work: Attention, tiling: AttentionConfig, target: Target) -> Split | None:
    """How workgroups share the keys of some queries; None where one has all keys.

    With a dynamic size it is known at run time alone how many are worth it, and the rest has none.
    """
    shape, block = work.shape, tiling.block_n
    if work.causal or shape.queries is None:
        return None
    tiles = -(-shape.queries // tiling.block_m)
    # Of a dynamic number of batches there may be one, which counts where queries are few.
    likely = UNKNOWN_BATCH if shape.batched and shape.queries >= FEWEST else 1
    least = tiles * shape.heads * likely
    parts = PARTS_FILLED // least
    if shape.keys is not None:
        parts = min(parts, shape.keys // SHORTEST)
    if fills_device(least, target) or parts < 2:
        return None
    if shape.keys is not None and not shape.batched:
        span = -(-shape.keys // (parts * block)) * block
        return Split(-(-shape.keys // span), str(span))
    workgroups = f"{tiles} * {shape.head_count}"
    numbers = f"{PARTS_FILLED}, {SHORTEST}, {block}"
    return Split(parts, f"library.span({shape.key_count}, {workgroups}, {numbers})")


def _tiling(target: Target, problem: AttentionProblem) -> AttentionConfig:
    """The tiling for that many queries and heads of that size."""
    measured = lookup.nearest(target, problem, AttentionConfig)
    return _fitted(
        default_config(problem, target) if measured is None else measured.config, target, problem
    )


def default_config(problem: AttentionProblem, target: Target) -> AttentionConfig:
    """The configuration computed from the problem and the device."""
    if problem.head_size > HEADS[0] and problem.queries > 64:
        return AttentionConfig(128, 128, 8, 2, warp_specialized=True)
    return AttentionConfig(64, 64, 4, 2, warp_specialized=True)


def _fitted(found: AttentionConfig, target: Target, problem: AttentionProblem) -> AttentionConfig:
    """A configuration whose tiles have no more queries than there are."""
    queries = problem.queries
    if found.warp_specialized and (queries < FEWEST or not triton_compiler.has_gluon()):
        return _plain(target, problem)
    return dataclasses.replace(found, block_m=min(found.block_m, max(16, power_of_two(queries))))


def _plain(target: Target, problem: AttentionProblem) -> AttentionConfig:
    """The tiling where nothing was measured, of a kernel that does not overlap; an estimate."""
    queries, _, head, _ = problem.sizes
    stages = 2 if head > 128 or target.name == "rocm" else 3
    return AttentionConfig(min(64, max(16, power_of_two(queries))), 64, 4, stages)


def candidates(problem: AttentionProblem) -> list[AttentionConfig]:
    """The tilings that a search measures."""
    queries, _, head, _ = problem.sizes
    if queries <= 32:
        tall = max(16, power_of_two(queries))
        return [
            AttentionConfig(tall, block, 4, stages)
            for block, stages in ((64, 3), (128, 2), (128, 3))
        ]
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
    orders = (False, True) if problem.mask == "causal" else (False,)
    found = [AttentionConfig(*shape, order) for order in orders for shape in shapes]
    if problem.mask != "general" and head in HEADS:
        shapes = [(64, 64, 4, 2), (64, 128, 4, 2), (128, 64, 8, 2), (128, 128, 8, 2)]
        found += [AttentionConfig(*shape, order, True) for order in orders for shape in shapes]
    return found
