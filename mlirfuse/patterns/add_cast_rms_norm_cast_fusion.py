"""Fuse a residual add with the RMS norm of the result: f16 or bf16 outside, f32 inside.

    %h = %x + %r                                       tensor<MxNxf16>
    %y = truncf(rms_norm(extf(%h)) * %gamma)           tensor<MxNxf16>, statistics f32
  becomes
    %y, %h = flow.dispatch.region { all of it }        // %h only if used elsewhere

Root: the norm's last elementwise op, a cast or the scale after it. The addends and the result are
f16 or bf16 and the statistics f32: no f32 tensor is written. The addition is in either type, gamma
before or after the cast. M static or dynamic, N static. The sum and the reciprocal root become
further results where other ops use them. Reshapes between the addition and the norm vanish.
Numerics: exact (operations and their order are unchanged).
Source: MindSpore add_cast_rms_norm_cast_fusion.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.iteration_space_builder import fuse_norm
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext
from mlirfuse.structured.recognize.norm_matches import (
    is_narrow_outside,
    is_whole,
    legal_norm,
    match_norm,
    may_end_narrow_norm,
)


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the norm with 16-bit operands and f32 statistics that ends at `root`."""
    found = match_norm(root, centered=False, add=True)
    if not isinstance(found, Match) or not is_narrow_outside(found) or not is_whole(found):
        return None
    return found


PASS = FusionPass(
    name="add_cast_rms_norm_cast_fusion",
    summary="Residual add and RMS norm in one dispatch, 16 bits outside and f32 inside",
    roots=("linalg.generic",),
    where=may_end_narrow_norm,
    match=match,
    legal=legal_norm,
    rewrite=fuse_norm,
    aliases=("AddCastRmsNormCast",),
    source="MindSpore add_cast_rms_norm_cast_fusion",
)
