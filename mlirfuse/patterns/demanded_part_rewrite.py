"""Compute the rows that a slice takes, in place of a whole matmul, layer or einsum.

    %y = linalg.matmul ins(%x, %w)                     tensor<128xNxT>, 4 samples of 32 tokens
    %e = tensor.expand_shape %y                        tensor<4x32xNxT>
    %s = tensor.extract_slice %e[0, 0, 0] [4, 1, N]    the first token of each
  becomes
    %r = tensor.extract_slice %x[0, 0] [4, K] [32, 1]
    %y = linalg.matmul ins(%r, %w)                     tensor<4xNxT>
    %s = tensor.collapse_shape (tensor.expand_shape %y)

Root: a static slice of at most half of a tensor, which takes part of the result of a contraction,
directly or through elementwise ops, reductions, transposes and reshapes. The classifier of a
transformer reads one token: behind the last attention nothing else of the last layer is computed.
All of these ops are computed in part, up to tensors of which more is needed. Static sizes; any
element type. Numerics: exact (each element is computed as before).
Source: MLIR, bubbling up of tensor.extract_slice; mlirfuse for several users and for reshapes.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.part_builder import compute_parts
from mlirfuse.core import FusionPass, Kind, Match, PassContext
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.demanded_parts import demand_of

MAX_SHARE = 0.5
"""Share of a tensor that a slice takes at most: of a larger one rows lose their alignment."""


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds the ops that are computed for a slice alone."""
    source, result = root.operands[0], root.results[0]
    if ops.in_region(root) or None in (*ops.shape(source), *ops.shape(result)):
        return None
    if not ops.shape(result) or 0 in ops.shape(result):
        return None
    if ops.num_elements(result) > MAX_SHARE * ops.num_elements(source):
        return None
    found = demand_of(root)
    if found is None or not any(map(ops.is_contraction, found.members)):
        return None
    return Match(root, tuple([*found.members, *found.cuts]), found)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the ops on their parts."""
    return compute_parts(match.data)


PASS = FusionPass(
    name="demanded_part_rewrite",
    summary="Only the part of a contraction that a slice takes is computed",
    roots=("tensor.extract_slice",),
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    source="MLIR, bubbling up of tensor.extract_slice",
)
