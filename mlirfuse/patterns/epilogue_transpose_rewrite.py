"""Compute the ops between two contractions in the order of the first, and transpose behind them.

    %c = linalg.matmul ins(%x, %w)                     expanded to tensor<BxSxHxDxT>
    %y = linalg.generic {addf} ins(%c, %bias)          reads (b, s, h, d), writes tensor<BxHxSxDxT>
    %z = linalg.batch_matmul ins(%y, %k)
  becomes
    %h = linalg.generic {addf} ins(%c, %bias)          tensor<BxSxHxDxT>
    %y = linalg.generic {transpose} ins(%h)            tensor<BxHxSxDxT>
    %z = linalg.batch_matmul ins(%y, %k)

Root: an elementwise op whose operands of all dimensions are read in one other order, one of them a
contraction's result, and which contractions alone use. The op becomes an epilogue of the first
contraction; attention and contractions take the transpose into their indexing maps. Importers of
StableHLO move transposes into elementwise ops. Static sizes, any element type. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import ops


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds an elementwise op between contractions that reads another order than it writes."""
    if not ops.is_elementwise(root) or len(root.results) != 1 or ops.in_region(root):
        return None
    if ops.is_projection(root) or ops.reads_index(root) or ops.reads_inits(root):
        return None
    if None in ops.indexing_maps(root) or None in ops.shape(root.results[0]):
        return None
    *read, written = ops.plain_maps(root)
    whole = tuple(range(len(ops.iterator_types(root))))
    orders = {index_map for index_map in read if len(index_map) == len(whole)}
    if written != whole or orders <= {whole}:
        return None
    if not any(_is_contracted(value) for value in ops.inputs(root)):
        return None
    users = ops.users_through_reshapes(root.results[0])
    if not users or not all(ops.is_contraction(user) for user in users):
        return None
    if len(orders) > 1 or any(set(order) != set(whole) for order in orders):
        return NoMatch(Reason.INDEXING_MAP, "the operands are read in several orders")
    return Match(root, (root,), orders.pop())


def _is_contracted(value: ir.Value) -> bool:
    """Whether a contraction computes a value, or the tensor that it is a reshape of."""
    op = ops.defining_op(ops.strip_views(value, ops.RESHAPES))
    return op is not None and ops.is_contraction(op)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the op in the order of its operands, and the transpose."""
    root, order = match.root, match.data
    place = {loop: dim for dim, loop in enumerate(order)}
    maps = [
        tuple(None if loop is None else place[loop] for loop in index_map)
        for index_map in ops.plain_maps(root)[:-1]
    ]
    result = root.results[0]
    sizes = ops.shape(result)
    with ir.InsertionPoint(root), root.location:
        new = builders.generic(
            ops.inputs(root),
            [builders.empty([sizes[loop] for loop in order], ops.element_type(result))],
            [*maps, tuple(range(len(order)))],
            ops.iterator_types(root),
            builders.body_of(root),
        )
        transposed = builders.transpose(new.results[0], order)
    result.replace_all_uses_with(transposed)
    root.erase()
    return new


PASS = FusionPass(
    name="epilogue_transpose_rewrite",
    summary="Ops between contractions are epilogues in the first one's order, then transposed",
    roots=("linalg.generic",),
    where=ops.is_generic,
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    source="mlirfuse",
)
