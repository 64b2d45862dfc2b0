"""Write a softmax in no group as reductions and elementwise ops, for a kernel.

    %y = linalg.softmax dimension(1) ins(%x)           tensor<NxCxHxWxT>
  becomes
    %m = max(%x), %p = exp(%x - %m), %s = sum(%p)      in f32
    %y = %p / %s

Root: a `linalg.softmax` along any dimension, of static size, which no other pass has taken.
`axis_reduction_fusion` groups the ops with their elementwise neighbors: IREE's own code for a
softmax is several times slower than a kernel. Nothing is written where Triton is missing. T f16,
bf16, f32. Numerics: exact (f16 and bf16 are rounded once, at the end).
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import softmax_ops
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.structured.ir import ops


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a softmax that a kernel can compute."""
    if not triton_compiler.supports(ctx.target) or ops.in_region(root):
        return None
    value = root.operands[0]
    if not ops.is_float(value):
        return NoMatch(Reason.ELEMENT_TYPE, ops.element_type(value))
    sizes = ops.shape(value)
    axis = ops.softmax_axis(root)
    if sizes[axis] is None or None in sizes[1:]:
        return NoMatch(Reason.DYNAMIC_SHAPE, "only the first dimension may be dynamic")
    if 0 in sizes:
        return None
    return Match(root, (root,))


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Writes the maximum, the exponentials, their sum and the quotients."""
    return softmax_ops.decompose(match.root)


PASS = FusionPass(
    name="lone_softmax_rewrite",
    summary="Softmax in no group as reductions and elementwise ops, for a kernel",
    roots=("linalg.softmax",),
    match=match,
    prepare=passes.needs_provider,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cuda", "rocm"}),
    source="mlirfuse",
)
