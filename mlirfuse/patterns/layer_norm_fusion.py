"""Fuse a layer normalization over the trailing axes into one dispatch.

    %m = mean(%x), %v = mean((%x - %m)^2)              tensor<MxNxT> -> tensor<MxT>
    %y = (%x - %m) * rsqrt(%v + eps) * %gamma + %beta  tensor<MxNxT>
  becomes
    %y = flow.dispatch.region { all of it }

Root: the norm's last elementwise op. M static or dynamic, N static; T f16, bf16, f32, the
statistics in any of them. The variance may be mean(x^2) - mean(x)^2. Gamma and beta are optional.
Numerics: exact (operations and their order are unchanged).
Source: Ba, Kiros, Hinton, Layer Normalization, 2016, equations 2 to 4.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext
from mlirfuse.structured.recognize.norm_matches import legal_norm, match_norm, may_end_layer_norm


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the norm that ends at `root`."""
    return match_norm(root, centered=True, add=False)


PASS = FusionPass(
    name="layer_norm_fusion",
    summary="Layer norm over the trailing axes in one dispatch",
    roots=("linalg.generic",),
    where=may_end_layer_norm,
    match=match,
    legal=legal_norm,
    rewrite=fuse,
    source="Ba, Kiros, Hinton 2016, equations 2-4",
)
