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
StableHLO move transposes into elementwise ops, and IREE those of PyTorch.

A kernel for a GPU writes rows of a norm in their own order for the same reason: there one of the
operands may also be what an elementwise op computes, if no reshape in front of the contractions
merges dimensions, and further elementwise ops may be between the root and the contractions, which
read nothing else of all dimensions.
Static sizes, any element type. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import triton_compiler
from mlirfuse.structured.ir import ops


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds an elementwise op between contractions that reads another order than it writes."""
    if not _is_plain(root):
        return None
    *read, written = ops.plain_maps(root)
    whole = tuple(range(len(ops.iterator_types(root))))
    orders = {index_map for index_map in read if len(index_map) == len(whole)}
    if written != whole or orders <= {whole}:
        return None
    contracted = any(map(_is_contracted, ops.inputs(root)))
    for_kernel = triton_compiler.supports(ctx.target)
    computed = contracted or (for_kernel and any(map(_is_elementwise, ops.inputs(root))))
    chain = _until_contractions(root, longer=for_kernel) if computed else None
    if chain is None or not (contracted or _is_read_in_order(chain[-1].results[0])):
        return None
    if len(orders) > 1 or any(set(order) != set(whole) for order in orders):
        return NoMatch(Reason.INDEXING_MAP, "the operands are read in several orders")
    return Match(root, tuple(chain), orders.pop())


def _is_plain(op: ir.Operation) -> bool:
    """Whether an op is elementwise arithmetic of static sizes, with one result."""
    return (
        ops.is_elementwise(op)
        and len(op.results) == 1
        and not ops.in_region(op)
        and not ops.is_projection(op)
        and not ops.reads_index(op)
        and not ops.reads_inits(op)
        and None not in ops.indexing_maps(op)
        and None not in ops.shape(op.results[0])
    )


def _until_contractions(root: ir.Operation, *, longer: bool) -> list[ir.Operation] | None:
    """The op and the elementwise ops behind it up to contractions, which alone use the last one.

    Args:
      root: the op.
      longer: whether there may be ops behind it.
    """
    chain = [root]
    while True:
        value = chain[-1].results[0]
        direct = ops.users(value)
        if longer and len(direct) == 1 and _follows(direct[0], value):
            chain.append(direct[0])
            continue
        users = ops.users_through_reshapes(value)
        return chain if users and all(map(ops.is_contraction, users)) else None


def _follows(op: ir.Operation, value: ir.Value) -> bool:
    """Whether an elementwise op keeps the order of a tensor, and reads no other one as large."""
    if not _is_plain(op):
        return False
    whole = tuple(range(len(ops.iterator_types(op))))
    *read, written = ops.plain_maps(op)
    return written == whole and all(
        index_map == whole if operand == value else len(index_map) < len(whole)
        for operand, index_map in zip(ops.inputs(op), read, strict=True)
    )


def _is_contracted(value: ir.Value) -> bool:
    """Whether a contraction computes a value, or the tensor that it is a reshape of."""
    op = ops.defining_op(ops.strip_views(value, ops.RESHAPES))
    return op is not None and ops.is_contraction(op)


def _is_elementwise(value: ir.Value) -> bool:
    """Whether elementwise arithmetic computes a value, or the tensor that it is a reshape of."""
    op = ops.defining_op(ops.strip_views(value, ops.RESHAPES))
    return op is not None and _is_plain(op)


def _is_read_in_order(value: ir.Value) -> bool:
    """Whether reshapes of a tensor only add or drop dimensions of size one.

    A contraction does not take a transpose in front of dimensions that are merged.
    """
    for user in ops.users(value):
        if user.name in ops.RESHAPES:
            shapes = (ops.shape(user.operands[0]), ops.shape(user.results[0]))
            if not ops.merges_units(ops.reassociation(user), max(shapes, key=len)):
                return False
    return True


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the ops in the order of the first one's operands, and the transpose."""
    chain, order = match.ops, match.data
    place = {loop: dim for dim, loop in enumerate(order)}
    whole = tuple(range(len(order)))
    computed: dict[ir.Value, ir.Value] = {}
    for op in chain:
        maps = [
            whole
            if value in computed
            else tuple(None if loop is None else place[loop] for loop in index_map)
            for value, index_map in zip(ops.inputs(op), ops.plain_maps(op), strict=False)
        ]
        result = op.results[0]
        sizes = ops.shape(result)
        with ir.InsertionPoint(op), op.location:
            new = builders.generic(
                [computed.get(value, value) for value in ops.inputs(op)],
                [builders.empty([sizes[loop] for loop in order], ops.element_type(result))],
                [*maps, whole],
                ops.iterator_types(op),
                builders.body_of(op),
            )
        computed[result] = new.results[0]
    with ir.InsertionPoint(chain[-1]), chain[-1].location:
        result.replace_all_uses_with(builders.transpose(new.results[0], order))
    for op in reversed(chain):
        op.erase()
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
