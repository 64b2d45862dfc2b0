"""Group a contraction that is in no group with its elementwise epilogue, for a kernel.

    %c = linalg.matmul ins(%a, %b)                     tensor<MxNxf32>
    %y = linalg.generic {truncf} ins(%c)               tensor<MxNxf16>, optional
  becomes
    %y = flow.dispatch.region { all of it }

Root: the contraction, of element types and loops that `matmul_triton_kernel` supports. IREE would
make one dispatch of it without a group; kernel passes look for groups. The elementwise epilogue is
fused as long as only its last op has users elsewhere, with the elementwise ops that compute its
other operands alone: a gate, a triangle. IREE drops the unit dimension of a matmul with M = 1
before the epilogue: the epilogue is computed with it again, and the reshape comes last. Nothing is
grouped where Triton is missing. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.reshape_builder import form_unmerged_region
from mlirfuse.core import Kind, Match, NoMatch, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.matmul.analysis import can_take
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import contractions, epilogues


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a contraction for which there is a kernel."""
    if not triton_compiler.supports(ctx.target) or not can_take(root):
        return None
    return Match(root, tuple(epilogues.with_epilogue(root, ctx.target.max_operands)))


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Puts the ops into one region; a reshape of the contraction's result moves after it."""
    return form_unmerged_region(list(match.ops))


PASS = passes.group_pass(
    name="contraction_fusion",
    summary="Contraction in no group with its elementwise epilogue, for a kernel",
    roots=contractions.ROOTS,
    where=ops.is_contraction,
    match=match,
    rewrite=rewrite,
    kind=Kind.EPILOGUE,
)
