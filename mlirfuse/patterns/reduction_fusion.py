"""Fuse elementwise ops and reductions over the same rows into one dispatch.

    %e = linalg.generic {exp} ins(%x)                  tensor<MxNxT>
    %s = linalg.generic {addf} ins(%e)                 tensor<MxNxT> -> tensor<MxT>
    %y = linalg.generic {divf} ins(%e, %s)             tensor<MxNxT>
  becomes
    %y = flow.dispatch.region { all of it }

Root: the last op over the rows. Every reduction of the group reduces the same trailing loops of the
same size; every elementwise op covers the whole space, the rows alone, or something broadcast that
only one op reads. Bodies of arithmetic only. M static or dynamic, N static; any element type.
Numerics: exact (operations and their order are unchanged).
Source: the row-fusion that norms and softmax are special cases of.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import form_region
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext, Reason
from mlirfuse.structured import growth, ops


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Grows the rows' computation that ends at `root`."""
    if not ops.is_generic(root) or not growth.has_scalar_body(root) or ops.is_contraction(root):
        return None
    if growth.is_epilogue_of_compute(root):
        return None
    group = growth.grow(root, _accept)
    reductions = [op for op in group if not ops.is_elementwise(op)]
    if not reductions:
        return None
    spaces = {_reduced(op) for op in reductions}
    if len(spaces) != 1:
        return NoMatch(Reason.SHAPE_MISMATCH, "the reductions cover different rows")
    if None in spaces:
        return NoMatch(Reason.WRONG_AXIS, "a reduction is not over the trailing loops")
    return Match(root, tuple(group))


def _reduced(op: ir.Operation) -> tuple[tuple[int | None, ...], int] | None:
    """The loop sizes of a reduction over its trailing loops, and how many they are."""
    kinds = ops.iterator_types(op)
    count = kinds.count("reduction")
    if kinds[len(kinds) - count :] != ("reduction",) * count:
        return None
    return ops.loop_sizes(op), count


def _accept(producer: ir.Operation, reader: ir.Operation, value: ir.Value) -> bool:
    if not growth.has_scalar_body(producer) or ops.is_contraction(producer):
        return False
    if growth.is_epilogue_of_compute(producer):
        return False
    index_map = growth.read_map(reader, value)
    if index_map is None or None in index_map or list(index_map) != sorted(index_map):  # type: ignore[type-var]
        return False
    leading = index_map == tuple(range(len(index_map)))
    if not ops.is_elementwise(producer):
        return _reduced(producer) is not None and leading
    return leading or len(ops.users(value)) == 1


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses rows of unknown length: the code generators tile them by their size."""
    for op in match.ops:
        if ops.is_elementwise(op):
            continue
        sizes, kinds = ops.loop_sizes(op), ops.iterator_types(op)
        if any(s is None and k == "reduction" for s, k in zip(sizes, kinds, strict=True)):
            return NoMatch(Reason.DYNAMIC_SHAPE, "the reduced dimension is dynamic")
    return None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Puts the ops into one dispatch region."""
    return form_region(list(match.ops))


PASS = FusionPass(
    name="reduction_fusion",
    summary="Elementwise ops and reductions over the same rows in one dispatch",
    roots=("linalg.generic",),
    match=match,
    legal=legal,
    rewrite=rewrite,
    retries=True,
    source="row fusion",
)
