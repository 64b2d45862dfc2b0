"""Make one op with several results of siblings: independent ops over the same loops.

    %a = linalg.generic {exp} ins(%x)                  tensor<MxNxT>
    %b = linalg.generic {mulf} ins(%x, %y)             tensor<MxNxT>
  becomes
    %a, %b = flow.dispatch.region {
      linalg.generic {exp; mulf} ins(%x, %y)           both tensor<MxNxT>
    }

Root: the last of the siblings. They have an operand in common, or each takes longer to launch than
to compute. Elementwise ops, or reductions over the same trailing loops; bodies of arithmetic only;
static sizes; results written in loop order; any element type. Left alone: ops that only move data,
epilogues of contractions, ops in a group of another pass, and ops with neighbors that IREE fuses
with them, such as the multiplications of RoPE with the slices around them.
Numerics: exact (operations and their order are unchanged).
Source: horizontal fusion of XLA and of TorchInductor's combo kernels.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders, cost
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import analysis_cache, fusable_neighbors, ops, slices

MAX_SIBLINGS = 32
"""Siblings before the root that are considered."""

Space = tuple[tuple[int | None, ...], tuple[str, ...]]


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Takes the root and the siblings before it, the nearest first."""
    space = _space(root)
    if space is None:
        return None
    peers = _peers(root.block.operations[0].operation)[space]
    group, refusal = [root], None
    for op in reversed(peers[: peers.index(root)][-MAX_SIBLINGS:]):
        if not _belongs(op, group, ctx):
            continue
        refusal = slices.check(slices.in_order([op, *group]), ctx.target.max_operands)
        if refusal is None:
            group.append(op)
    settled = slices.in_order(op for op in group if _is_settled(op))
    if len(settled) > 1:
        return Match(settled[-1], tuple(settled))
    if len(group) > 1:
        return NoMatch(Reason.NOT_PROFITABLE, "IREE fuses the siblings with their neighbors")
    return refusal


def _is_settled(op: ir.Operation) -> bool:
    """Whether IREE would put none of the op's neighbors into a dispatch with it."""
    around = [ops.defining_op(value) for value in ops.external_operands(op)]
    around += [ops.ancestor_in(op.block, user) for r in op.results for user in ops.users(r)]
    return not any(
        other is not None
        and other.name.startswith(("linalg.", "tensor.", "iree_linalg_ext."))
        and not slices.is_clonable(other)
        for other in around
    )


@analysis_cache.until_change
def _space(op: ir.Operation) -> Space | None:
    """The loops of an op that may have siblings; None for one that may not."""
    if (
        not ops.is_generic(op)
        or ops.is_contraction(op)
        or not fusable_neighbors.has_scalar_body(op)
    ):
        return None
    if (
        ops.is_projection(op)
        or None in ops.indexing_maps(op)
        or fusable_neighbors.is_among_epilogues(op)
    ):
        return None
    if _is_computed_at_load(op):
        return None
    sizes, kinds = ops.loop_sizes(op), ops.iterator_types(op)
    rows = kinds.count("parallel")
    if None in sizes or kinds[:rows] != ("parallel",) * rows:
        return None
    written = ops.plain_maps(op)[ops.num_inputs(op) :]
    return (sizes, kinds) if set(written) == {tuple(range(rows))} else None


def _is_computed_at_load(op: ir.Operation) -> bool:
    """Whether IREE computes the op once, from constants; it computes i1 results in each call.

    Merged, the biases of two convolutions of f16 came out wrong (IREE 3.13.0, the CPU).
    """
    boolean = any(ops.element_type(value) == "i1" for value in op.results)
    return not boolean and all(map(ops.is_constant_data, ops.inputs(op)))


@analysis_cache.until_change
def _peers(first: ir.Operation) -> dict[Space, list[ir.Operation]]:
    """The ops of a block by their loops, in block order."""
    found: dict[Space, list[ir.Operation]] = {}
    for view in first.block.operations:
        space = _space(view.operation)
        if space is not None:
            found.setdefault(space, []).append(view.operation)
    return found


def _belongs(op: ir.Operation, group: list[ir.Operation], ctx: PassContext) -> bool:
    """Whether the op is independent of the group, and shares an operand or all are small."""
    results = set(op.results)
    if any(value in results for other in group for value in other.operands):
        return False
    read = set(slices.operands_of([op]))
    if any(not read.isdisjoint(slices.operands_of([other])) for other in group):
        return True
    return all(_is_small(other, ctx) for other in (op, *group))


def _is_small(op: ir.Operation, ctx: PassContext) -> bool:
    """Whether the launch takes longer than the work."""
    return cost.work_alone(op).microseconds(ctx.target) < 2 * ctx.target.launch_us


def profitable(match: Match, ctx: PassContext) -> NoMatch | None:
    """The cost model has to see a gain."""
    gain = cost.gain(list(match.ops), ctx.target)
    if gain.microseconds > 0:
        return None
    return NoMatch(Reason.NOT_PROFITABLE, cost.no_gain(gain.microseconds))


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Forms the region, and one op of those in it."""
    region = builders.form_region(list(match.ops))
    body = region.regions[0].blocks[0].operations
    builders.merge([o.operation for o in body if ops.is_generic(o.operation)])
    return region


PASS = FusionPass(
    name="horizontal_fusion",
    summary="Independent ops over the same loops in one op with several results",
    roots=("linalg.generic",),
    match=match,
    profitable=profitable,
    rewrite=rewrite,
    kind=Kind.SIBLING,
    source="horizontal fusion",
)
