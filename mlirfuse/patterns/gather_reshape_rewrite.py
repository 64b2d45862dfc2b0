"""Gather over the dimensions that its indices are computed over, for a kernel.

    %i = linalg.generic {index arithmetic}             tensor<BxHxWxi64>
    %c = tensor.collapse_shape %i [[0], [1, 2]]        tensor<Bx(H*W)xi64>
    %g = linalg.generic {tensor.extract %x} ins(%c)    tensor<BxCx(H*W)xT>
    %e = tensor.expand_shape %g [[0], [1], [2, 3]]     tensor<BxCxHxWxT>
  becomes
    %e = linalg.generic {tensor.extract %x} ins(%i)    tensor<BxCxHxWxT>

The arithmetic of the indices, the gathers and their users, as in `grid_sample`, are then ops
without a reshape between them, and one group. Root: a gather in no group whose only user is an
expansion that undoes the collapse of an operand which an elementwise op computes. Static sizes, any
element type. Numerics: exact.
Source: MLIR, propagation of reshapes through linalg ops.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import reshape_builder
from mlirfuse.core import FusionPass, Kind, Match, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import gathers


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds a gather between a collapse of computed indices and the expansion that undoes it."""
    if not triton_compiler.supports(ctx.target) or ops.in_region(root):
        return None
    if not gathers.is_gather(root) or None in ops.shape(root.results[0]):
        return None
    expand = gathers.expansion(root)
    if expand is None:
        return None
    sources = (ops.defining_op(op.operands[0]) for op in gathers.unmerged(root, expand))
    if not any(op is not None and ops.is_elementwise(op) for op in sources):
        return None
    return Match(root, (root, expand), expand)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the gather over the split dimensions."""
    return reshape_builder.widen(match.data, match.root)


PASS = FusionPass(
    name="gather_reshape_rewrite",
    summary="A gather is computed over the dimensions of its indices, without reshapes around it",
    roots=("linalg.generic",),
    where=ops.is_elementwise,
    match=match,
    prepare=passes.needs_provider,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cuda", "rocm"}),
    source="MLIR linalg reshape propagation",
)
