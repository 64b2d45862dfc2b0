"""Fuse a contraction with an activation in its elementwise epilogue, in one dispatch.

    %c = linalg.matmul ins(%a, %b)                     tensor<MxNxT>
    %d = linalg.generic {addf} ins(%c, %bias)          tensor<MxNxT>, optional
    %y = linalg.generic {gelu} ins(%d)                 tensor<MxNxT>
  becomes
    %y = flow.dispatch.region { all of it }

Root: the contraction. The activation is gelu (erf or tanh form), silu, sigmoid or tanh, cut into
any number of ops and recognized by its values, so that every constant in it is verified; the
elementwise epilogue is fused as long as only its last op has users elsewhere. Any contraction,
batched or not; sizes static or dynamic; T f16, bf16, f32. Numerics: exact.
Source: MindSpore matmul_elem_gelu_fusion.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext
from mlirfuse.structured.expr import activations
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.legality import legal_float
from mlirfuse.structured.recognize import contractions, epilogues


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a contraction whose epilogue contains a smooth activation."""
    return contractions.match_with_epilogue(
        root, ctx, lambda group: epilogues.has_activation(group, activations.SMOOTH)
    )


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses element types that the group's code generation was not tested for."""
    return legal_float(match)


PASS = FusionPass(
    name="matmul_elem_gelu_fusion",
    summary="Contraction with its bias and gelu, silu, sigmoid or tanh in one dispatch",
    roots=contractions.ROOTS,
    where=ops.is_contraction,
    match=match,
    legal=legal,
    rewrite=fuse,
    kind=Kind.EPILOGUE,
    source="MindSpore matmul_elem_gelu_fusion",
)
