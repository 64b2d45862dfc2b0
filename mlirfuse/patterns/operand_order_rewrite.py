"""Swap the operands of a contraction whose loop over N is outside of its loop over M.

    %c = linalg.generic {mulf, addf} ins(%x, %w)       %x: (b, k, p), %w: (n, k) -> (b, n, p)
  becomes
    %c = linalg.generic {mulf, addf} ins(%w, %x)       the same loops, maps and body

Root: the contraction, of element types that the target has matrix instructions for. The loops of M
are those of the first operand, the loops of N those of the second; the innermost of each are
compared. A 1x1 convolution with channels first is such a contraction: its first operand is the
image.

IREE 3.13.0 computes it wrong on NVIDIA: a thread holds 2x2 accumulators of a 16x8 tile, and where
the loop of N is the outer one they are stored as if transposed. A strided 1x1 convolution is such a
contraction, of which IREE makes a slice before: here the slice comes first. Sizes static or
dynamic, strided ones static; T f16, bf16.
Numerics: exact (multiplication is commutative).
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders.slice_builder import strided
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext
from mlirfuse.structured.ir import ops, strided_access


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a contraction whose innermost loop of N is outside of its innermost loop of M."""
    found = (ops.plain_maps(root), []) if ops.is_contraction(root) else _strided(root)
    if found is None:
        return None
    maps, _ = found
    kinds = {ops.element_type(value) for value in ops.inputs(root)}
    if not kinds <= set(ctx.target.mma_shapes):
        return None
    left, right, out = ({*index_map} for index_map in maps)
    m = [d for d in left & out - right if d is not None]
    n = [d for d in right & out - left if d is not None]
    if not m or not n or max(m) < max(n):
        return None
    return Match(root, (root,), found)


def _strided(root: ir.Operation) -> tuple[tuple[ops.IndexMap, ...], list[int]] | None:
    """The maps of a matmul with a strided first operand, strides left out; and the strides.

    None for other ops, and where a strided dimension is dynamic.
    """
    maps = ops.indexing_maps(root)
    if ops.num_inputs(root) != 2 or len(root.results) != 1 or not ops.multiplies_and_adds(root):
        return None
    terms = strided_access.strided_loops(root, 0)
    if [m is None for m in maps] != [True, False, False] or terms is None:
        return None
    sizes = ops.loop_sizes(root)
    if any(len(sums) != 1 for sums in terms):
        return None
    if any(factor != 1 and sizes[loop] is None for ((loop, factor),) in terms):
        return None
    first = tuple(loop for ((loop, _),) in terms)
    return (first, *(m for m in maps if m is not None)), [factor for ((_, factor),) in terms]


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the contraction with its inputs swapped."""
    op = match.root
    (left, right), ((first, second, written), strides) = ops.inputs(op), match.data
    body = builders.body_of(op)
    with ir.InsertionPoint(op), op.location:
        if strides:
            left = strided(left, [ops.loop_sizes(op)[loop] for loop in first], strides)
        new = builders.generic(
            [right, left],
            ops.inits(op),
            [second, first, written],
            ops.iterator_types(op),
            lambda a: body([a[1], a[0], a[2]]),
        )
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()
    return new


PASS = FusionPass(
    name="operand_order_rewrite",
    summary="Contractions that IREE computes wrong on NVIDIA get their operands swapped",
    roots=("linalg.generic", "linalg.contract"),
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    targets=frozenset({"cuda"}),
    source="mlirfuse",
)
