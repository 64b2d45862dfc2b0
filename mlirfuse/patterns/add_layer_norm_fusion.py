"""Fuse a residual add with the layer norm of the result, in one dispatch.

    %h = %x + %r                                       tensor<MxNxT>
    %y = layer_norm(%h, %gamma, %beta)                 tensor<MxNxT>
  becomes
    %y, %h = flow.dispatch.region { both }             // %h only if used elsewhere

Root: the norm's last elementwise op. M static or dynamic, N static; T f16, bf16, f32. The sum, the
mean and the reciprocal standard deviation become further results where other ops use them. Reshapes
between the addition and the norm vanish: all ops are written over the norm's dimensions.
Numerics: exact (operations and their order are unchanged).
Source: MindSpore add_layer_norm_fusion.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.iteration_space_builder import fuse_norm
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext
from mlirfuse.structured.recognize.norm_matches import legal_norm, match_norm, may_end_layer_norm


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the norm that ends at `root`."""
    return match_norm(root, centered=True, add=True)


PASS = FusionPass(
    name="add_layer_norm_fusion",
    summary="Residual add and the layer norm of the result in one dispatch",
    roots=("linalg.generic",),
    where=may_end_layer_norm,
    match=match,
    legal=legal_norm,
    rewrite=fuse_norm,
    source="MindSpore add_layer_norm_fusion",
)
