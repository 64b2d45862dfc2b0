"""Fuse a residual add with a layer norm whose scale or shift is missing or of another type.

    %h = %x + %r                                       tensor<MxNxf16>
    %y = layer_norm(%h, %gamma)                        tensor<MxNxf16>, %gamma tensor<Nxf32>
  becomes
    %y, %h = flow.dispatch.region { both }             // %h only if used elsewhere

Root: the norm's last elementwise op. Gamma, beta or both are missing, or one of them has another
element type than the sum. M static or dynamic, N static; T f16, bf16, f32. The sum, the mean and
the reciprocal standard deviation become further results where other ops use them. Reshapes between
the addition and the norm vanish.
Numerics: exact (operations and their order are unchanged).
Source: MindSpore add_layer_norm_ext_fusion.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.iteration_space_builder import fuse_norm
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext
from mlirfuse.structured.recognize.norm_matches import (
    has_plain_affine,
    is_whole,
    legal_norm,
    match_norm,
    may_end_layer_norm,
)


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the norm with an incomplete or mixed affine part that ends at `root`."""
    found = match_norm(root, centered=True, add=True)
    if not isinstance(found, Match) or has_plain_affine(found.data.norm) or not is_whole(found):
        return None
    return found


PASS = FusionPass(
    name="add_layer_norm_ext_fusion",
    summary="Residual add and a layer norm with a missing or mixed affine part in one dispatch",
    roots=("linalg.generic",),
    where=may_end_layer_norm,
    match=match,
    legal=legal_norm,
    rewrite=fuse_norm,
    aliases=(
        "add_layer_norm_partial_affine_fusion",
        "AddLayerNormExt",
    ),
    source="MindSpore add_layer_norm_ext_fusion",
)
