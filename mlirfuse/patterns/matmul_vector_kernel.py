"""Let a kernel in the vector dialect compute a matmul and its epilogue, with a packed operand.

    %y = flow.dispatch.region { linalg.matmul ins(%a, %w); bias, activation, residual, casts }
  becomes
    %p = util.global.load @packed_filter                       packed when the program is loaded
    %y = flow.dispatch @vector_kernel::@matmul(%a, %p, ...)

Root: the region, whichever pass formed it, or the contraction alone. One contraction of f16, bf16
or f32 with f32 accumulators, or of i8 with i32 ones, of any static M, N and K, any batches, and any
order of their dimensions; one operand may be f16 or bf16 where the other is f32. The packed operand
is the constant one. Of two computed ones the second is read in place where its columns are
contiguous and the cache holds them, is transposed on the stack where K is contiguous, or is packed
in each call where it pays for the rows of the first. Any elementwise epilogue, several results.
With AMX, 16 rows or more of bf16 or i8 are multiplied by tile registers.
Numerics: reassociating (accumulation in blocks); integers exact.
Source: Goto and van de Geijn, Anatomy of high-performance matrix multiplication, 2008.
"""

from __future__ import annotations

import functools

from iree.compiler import ir

from mlirfuse.builders.reshape_builder import form_unmerged_region
from mlirfuse.core import Match, NoMatch, PassContext
from mlirfuse.kernels.vector import convolution, passes
from mlirfuse.kernels.vector.roles import classify_contraction
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import contractions, epilogues

_plan = functools.partial(convolution.plan, classify=classify_contraction)


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Plans the kernel of a region around a contraction, or finds a contraction alone."""
    if ctx.target.cpu is None or root.name == ops.REGION:
        return passes.match_region(root, ctx, _plan)
    if ops.in_region(root) or not ops.is_contraction(root):
        return None
    if not convolution.takes(root, classify_contraction):
        return None
    if convolution.left_to_iree(root, classify_contraction, ctx.target.cpu):
        return None
    return Match(root, tuple(epilogues.with_epilogue(root, ctx.target.max_operands)))


PASS = passes.kernel_pass(
    name="matmul_vector_kernel",
    summary="Matmul with its elementwise epilogue as one kernel for CPUs",
    plan=_plan,
    replace=convolution.replace,
    source="Goto and van de Geijn 2008",
    roots=(ops.REGION, *contractions.ROOTS),
    match=match,
    form=form_unmerged_region,
    core=ops.is_contraction,
    takes_single_op=True,
)
