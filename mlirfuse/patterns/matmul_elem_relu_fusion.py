"""Fuse a contraction with a ReLU-like activation in its elementwise epilogue, in one dispatch.

    %c = linalg.matmul ins(%a, %b)                     tensor<MxNxT>
    %d = linalg.generic {addf} ins(%c, %bias)          tensor<MxNxT>, optional
    %y = linalg.generic {relu} ins(%d)                 tensor<MxNxT>
  becomes
    %y = flow.dispatch.region { all of it }

Root: the contraction. The activation is relu, relu6 or leaky relu with a slope between 0 and 1,
written with maximum and minimum or with comparisons and selections, and recognized by its values: a
clamp at another bound than 6 is none of them. The elementwise epilogue is fused as long as only its
last op has users elsewhere. Any contraction, batched or not; sizes static or dynamic; T f16, bf16,
f32. Numerics: exact.
Source: MindSpore matmul_elem_relu_fusion.
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
    """Finds a contraction whose epilogue contains a ReLU-like activation."""
    return contractions.match_with_epilogue(
        root, ctx, lambda group: epilogues.has_activation(group, activations.RAMPS)
    )


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses element types that the group's code generation was not tested for."""
    return legal_float(match)


PASS = FusionPass(
    name="matmul_elem_relu_fusion",
    summary="Contraction with its bias and relu, relu6 or leaky relu in one dispatch",
    roots=contractions.ROOTS,
    where=ops.is_contraction,
    match=match,
    legal=legal,
    rewrite=fuse,
    kind=Kind.EPILOGUE,
    source="MindSpore matmul_elem_relu_fusion",
)
