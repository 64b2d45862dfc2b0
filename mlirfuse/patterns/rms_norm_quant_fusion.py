"""Quantize an RMS norm to 8 bits in the dispatch that computes it.

    %y = rms_norm(%x, %gamma)                          tensor<MxNxT>
    %q = clamp(roundeven(%y * %scale + %offset))       tensor<MxNxi8>
  becomes
    %q, %y = flow.dispatch.region { both }             // %y only if used elsewhere

Root: the conversion to i8, or `iree_linalg_ext.quantize_affine`. Rounds half to even and clamps to
the range of 8 bits, signed or not, both verified. Scale and offset are scalars or vary over the
normalized axes; the scale multiplies or divides, the offset is added before or after the rounding.
M static or dynamic, N static; T f16, bf16, f32.
Numerics: exact (operations and their order are unchanged).
Source: MindSpore rms_norm_quant_fusion.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext
from mlirfuse.structured.recognize.quantization import QUANTIZE, legal_quantized, match_quantized


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the quantized norm that ends at `root`."""
    return match_quantized(root, add=False)


PASS = FusionPass(
    name="rms_norm_quant_fusion",
    summary="RMS norm and its quantization to 8 bits in one dispatch",
    roots=("linalg.generic", QUANTIZE),
    match=match,
    legal=legal_quantized,
    rewrite=fuse,
    aliases=("RmsNormQuant",),
    source="MindSpore rms_norm_quant_fusion",
)
