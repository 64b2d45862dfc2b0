"""Fuse a contraction with the bias that is added to it, in one dispatch.

    %c = linalg.matmul ins(%a, %b)                     tensor<MxNxT>
    %y = linalg.generic {addf} ins(%c, %bias)          tensor<MxNxT>, %bias tensor<NxT>
  becomes
    %y = flow.dispatch.region { both }

Root: the contraction. The bias has rank one and is an addend of the first sum of the epilogue; the
elementwise epilogue is fused as long as only its last op has users elsewhere. Any contraction,
batched or not; sizes static or dynamic; T f16, bf16, f32. Numerics: exact.
Source: MindSpore matmul_elem_biasadd_fusion.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.legality import legal_float
from mlirfuse.structured.recognize import contractions, epilogue_addends


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a contraction whose epilogue starts by adding a rank-1 bias."""
    return contractions.match_with_epilogue(
        root, ctx, lambda group: epilogue_addends.has_addend(group, epilogue_addends.is_bias)
    )


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses element types that the group's code generation was not tested for."""
    return legal_float(match)


PASS = FusionPass(
    name="matmul_elem_biasadd_fusion",
    summary="Contraction with the rank-1 bias added to it in one dispatch",
    roots=contractions.ROOTS,
    where=ops.is_contraction,
    match=match,
    legal=legal,
    rewrite=fuse,
    kind=Kind.EPILOGUE,
    source="MindSpore matmul_elem_biasadd_fusion",
)
