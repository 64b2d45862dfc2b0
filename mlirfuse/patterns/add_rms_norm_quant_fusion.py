"""Quantize the RMS norm of a residual add to 8 bits in the dispatch that computes it.

    %h = %x + %r                                       tensor<MxNxT>
    %y = rms_norm(%h, %gamma)                          tensor<MxNxT>
    %q = clamp(roundeven(%y * %scale + %offset))       tensor<MxNxi8>
  becomes
    %q, %h, %y = flow.dispatch.region { all of it }    // %h and %y only if used elsewhere

Root: the conversion to i8, or `iree_linalg_ext.quantize_affine`. The quantization is verified as in
`rms_norm_quant_fusion`. M static or dynamic, N static; T f16, bf16, f32. Reshapes between the
addition and the norm vanish.
Numerics: exact (operations and their order are unchanged).
Source: MindSpore add_rms_norm_quant_fusion.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.iteration_space_builder import fuse_norm
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext
from mlirfuse.structured.recognize.quantization import QUANTIZE, legal_quantized, match_quantized


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the quantized norm that ends at `root`."""
    return match_quantized(root, add=True)


PASS = FusionPass(
    name="add_rms_norm_quant_fusion",
    summary="Residual add, RMS norm and its quantization to 8 bits in one dispatch",
    roots=("linalg.generic", QUANTIZE),
    match=match,
    legal=legal_quantized,
    rewrite=fuse_norm,
    aliases=("AddRmsNormQuant",),
    source="MindSpore add_rms_norm_quant_fusion",
)
