"""Fuse a residual add with the layer norm of the result over several trailing axes.

    %h = %x + %r                                       tensor<MxAxBxT>
    %y = layer_norm(%h, %gamma, %beta)                 tensor<MxAxBxT>, axes A and B
  becomes
    %y, %h = flow.dispatch.region { both }             // %h only if used elsewhere

Root: the norm's last elementwise op. Two or more trailing axes; M static or dynamic, the rest
static; T f16, bf16, f32. Gamma and beta may be missing or have another element type. The sum, the
mean and the reciprocal standard deviation become further results where other ops use them. Reshapes
between the addition and the norm vanish: all ops are written over the common refinement of their
shapes.
Numerics: exact (operations and their order are unchanged).
Source: MindSpore AddLayerNormV3.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.iteration_space_builder import fuse_norm
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext
from mlirfuse.structured.recognize.norm_matches import legal_norm, match_norm, may_end_layer_norm


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the norm over several axes that ends at `root`."""
    found = match_norm(root, centered=True, add=True)
    return found if isinstance(found, Match) and len(found.data.norm.axes) > 1 else None


PASS = FusionPass(
    name="add_layer_norm_v3_fusion",
    summary="Residual add and the layer norm of the result over several axes in one dispatch",
    roots=("linalg.generic",),
    where=may_end_layer_norm,
    match=match,
    legal=legal_norm,
    rewrite=fuse_norm,
    aliases=(
        "add_layer_norm_multi_axis_fusion",
        "AddLayerNormV3",
    ),
    source="MindSpore AddLayerNormV3",
)
