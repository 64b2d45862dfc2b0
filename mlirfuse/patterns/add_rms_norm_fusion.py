"""Fuse a residual add with the RMS norm of the result, in one dispatch.

    %h = %x + %r                                       tensor<MxNxT>
    %y = rms_norm(%h, %gamma)                          tensor<MxNxT>
  becomes
    %y, %h = flow.dispatch.region { both }             // %h only if used elsewhere

Root: the norm's last elementwise op. M static or dynamic, N static; T f16, bf16, f32. The sum and
the reciprocal root become further results where other ops use them. Reshapes between the addition
and the norm vanish.
Numerics: exact (operations and their order are unchanged).
Source: MindSpore add_rms_norm_fusion.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.iteration_space_builder import fuse_norm
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext
from mlirfuse.structured.recognize.norm_matches import legal_norm, match_norm, may_end_norm


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the norm that ends at `root`."""
    return match_norm(root, centered=False, add=True)


PASS = FusionPass(
    name="add_rms_norm_fusion",
    summary="Residual add and the RMS norm of the result in one dispatch",
    roots=("linalg.generic",),
    where=may_end_norm,
    match=match,
    legal=legal_norm,
    rewrite=fuse_norm,
    source="MindSpore add_rms_norm_fusion",
)
