"""Let a Triton kernel compute a contraction and the elementwise ops after it.

    %y = flow.dispatch.region { contraction; bias, activation, residual, casts }
  becomes
    %y = hal.dispatch.extern "matmul_kernel"(%a, %b, ...) { the ops after it on sums in registers }

Root: the region, whichever pass formed it. One contraction of f16 or bf16 that adds in f32, with
one dimension each of rows, columns and terms and any number of batch dimensions, operands
transposed or not; any elementwise epilogue, several results. Dimensions static but for the rows.
Numerics: reassociating (sums are taken in blocks).
Source: Tillet, Kung, Cox, Triton, 2019.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import FusionPass, Kind, Match, NoMatch, Numerics, PassContext
from mlirfuse.kernels import matmul, passes


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a region of one contraction that a kernel can compute."""
    return passes.matched(root, ctx, lambda region: matmul.supports(region, ctx.target.arch))


PASS = FusionPass(
    name="matmul_triton_kernel",
    summary="Contraction with its elementwise epilogue as one Triton kernel",
    roots=passes.ROOTS,
    match=match,
    prepare=passes.prepare,
    rewrite=passes.rewrite,
    numerics=Numerics.REASSOCIATING,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cuda"}),
    source="Tillet, Kung, Cox 2019",
)
