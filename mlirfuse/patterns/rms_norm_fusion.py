"""Fuse an RMS normalization over the trailing axes into one dispatch.

    %s = mean(%x^2)                                    tensor<MxNxT> -> tensor<MxT>
    %y = %x * rsqrt(%s + eps) * %gamma                 tensor<MxNxT>
  becomes
    %y = flow.dispatch.region { all of it }

Root: the norm's last elementwise op. M static or dynamic, N static; T f16, bf16, f32, the
statistics in any of them. Gamma is optional. Numerics: exact (operations and their order are
unchanged).
Source: Zhang, Sennrich, Root Mean Square Layer Normalization, 2019, equation 4.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext
from mlirfuse.structured.recognize.norm_matches import legal_norm, match_norm, may_end_norm


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the norm that ends at `root`."""
    return match_norm(root, centered=False, add=False)


PASS = FusionPass(
    name="rms_norm_fusion",
    summary="RMS norm over the trailing axes in one dispatch",
    roots=("linalg.generic",),
    where=may_end_norm,
    match=match,
    legal=legal_norm,
    rewrite=fuse,
    source="Zhang, Sennrich 2019, equation 4",
)
