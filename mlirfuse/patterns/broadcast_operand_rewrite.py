"""Read a broadcast at its source in the elementwise ops that use it.

    %v = linalg.generic {copy} ins(%bias)              tensor<NxT> -> tensor<MxNxT>
    %y = linalg.generic {addf} ins(%c, %v)             tensor<MxNxT>
  becomes
    %y = linalg.generic {addf} ins(%c, %bias)          %bias read as (n)

Root: an elementwise op with an operand that is a copy over more loops than its source has
dimensions, as StableHLO's `broadcast_in_dim` becomes. The epilogue of a contraction and the body of
a norm read the small tensor, and no kernel writes the large one. Contractions and reductions keep
their operands. Sizes static or dynamic, any element type. Numerics: exact.
Source: MLIR, fusion of elementwise ops through indexing maps; MindSpore has no such pass.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, PassContext
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.permutations import broadcast, read_at_source


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds an elementwise op that reads broadcasts."""
    if not ops.is_elementwise(root) or ops.in_region(root) or None in ops.indexing_maps(root):
        return None
    found = {value: op for value in ops.inputs(root) if (op := _broadcast(value, root)) is not None}
    return Match(root, (root,), found) if found else None


def _broadcast(value: ir.Value, user: ir.Operation) -> ir.Operation | None:
    """The copy that repeats a tensor over some loops; None for any other value."""
    op = broadcast(value)
    if op is None or op.block != user.block or not ops.is_generic(op):
        return None
    return None if any(None in index_map for index_map in ops.plain_maps(op)) else op


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the op on the sources of the broadcasts."""
    root, found = match.root, match.data
    inputs: list[ir.Value] = []
    maps: list[ops.IndexMap] = []
    for value, index_map in zip(ops.inputs(root), ops.plain_maps(root), strict=False):
        op = found.get(value)
        if op is None:
            inputs.append(value)
            maps.append(index_map)
            continue
        inputs.append(op.operands[0])
        maps.append(read_at_source(op, index_map))
    maps += ops.plain_maps(root)[len(inputs) :]
    with ir.InsertionPoint(root), root.location:
        new = builders.generic(
            inputs, ops.inits(root), maps, ops.iterator_types(root), builders.body_of(root)
        )
    for old, made in zip(root.results, new.results, strict=True):
        old.replace_all_uses_with(made)
    root.erase()
    return new


PASS = FusionPass(
    name="broadcast_operand_rewrite",
    summary="Elementwise ops read a broadcast at its source",
    roots=("linalg.generic",),
    where=ops.is_generic,
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    contained=True,
    source="MLIR linalg elementwise fusion",
)
