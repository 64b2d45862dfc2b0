"""Make attention with a mask one `iree_linalg_ext.attention` in one dispatch.

    %s = scale * (%q %k^T) + %mask                     tensor<BxMxKxT>
    %o = softmax(%s) %v                                tensor<BxMxNxT>
  becomes
    %o = flow.dispatch.region { mask; iree_linalg_ext.attention ins(%q, %k, %v, scale, mask) }

Root: the contraction with v. The mask is added, or selected with -inf or a number that masks, or
computed from indices (causal, windowed): the region computes it, so that only the tensors it is
made of are read. Rows that are masked throughout stay what the graph makes of them: NaN after
-inf, the mean of v after finite numbers, zero after PyTorch's select. Shapes, element types and
numerics as in flash_attention_fusion_v2. Source: MindSpore FlashAttentionFusionV1.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.attention_builder import form_attention
from mlirfuse.core import FusionPass, Match, NoMatch, Numerics, PassContext
from mlirfuse.kernels.attention.family import needs_provider
from mlirfuse.structured.recognize.attention import (
    Options,
    legal_attention,
    match_attention,
    may_end_attention,
    profitable_attention,
)
from mlirfuse.structured.recognize.contractions import ROOTS


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the attention whose contraction with v is `root`."""
    return match_attention(root, masked=True)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the mask and the attention op in a dispatch region."""
    return form_attention(match.data, match.ops)


PASS = FusionPass(
    name="flash_attention_fusion_v1",
    summary="Attention with an additive, boolean or causal mask as one dispatch",
    roots=ROOTS,
    where=may_end_attention,
    match=match,
    legal=legal_attention,
    profitable=profitable_attention,
    prepare=needs_provider,
    rewrite=rewrite,
    numerics=Numerics.REASSOCIATING,
    options=Options,
    # As for flash_attention_fusion_v2.
    targets=frozenset({"cuda", "rocm"}),
    aliases=("FlashAttentionFusionV1",),
    source="MindSpore FlashAttentionFusionV1",
)
