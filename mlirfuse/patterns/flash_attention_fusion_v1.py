"""Make masked attention one `iree_linalg_ext.attention` in one dispatch.

    %s = scale * (%q %k^T) + %mask                     tensor<BxMxKxT>
    %o = softmax(%s) %v                                tensor<BxMxNxT>
  becomes
    %o = flow.dispatch.region { mask; iree_linalg_ext.attention ins(%q, %k, %v, scale, mask) }

Root: the contraction with v. The mask is added, or selected with -inf or a large negative number,
or computed from indices (causal, sliding window): the region computes it, so only the tensors that
it is made of are read. Fully masked rows keep the graph's values: NaN after -inf, the mean of v
after finite numbers, zero after PyTorch's select, or that of its ONNX export where the weights are
NaN: there a row whose scores have a NaN stays NaN. Shapes and element types as in
flash_attention_fusion_v2.
Numerics: reassociating (online softmax).
Source: MindSpore FlashAttentionFusionV1.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.attention_builder import fuse_attention
from mlirfuse.core import FusionPass, Match, NoMatch, Numerics, PassContext
from mlirfuse.kernels.attention.family import needs_provider
from mlirfuse.kernels.vector.attention import profitable
from mlirfuse.structured.recognize.attention import may_end_attention
from mlirfuse.structured.recognize.attention_matches import (
    Options,
    legal_attention,
    match_attention,
)
from mlirfuse.structured.recognize.contractions import ROOTS


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the attention whose contraction with v is `root`."""
    return match_attention(root, masked=True)


PASS = FusionPass(
    name="flash_attention_fusion_v1",
    summary="Attention with an additive, boolean or causal mask as one dispatch",
    roots=ROOTS,
    where=may_end_attention,
    match=match,
    legal=legal_attention,
    profitable=profitable,
    prepare=needs_provider,
    rewrite=fuse_attention,
    numerics=Numerics.REASSOCIATING,
    options=Options,
    # As for flash_attention_fusion_v2.
    targets=frozenset({"cpu", "cuda", "rocm"}),
    aliases=(
        "masked_attention_fusion",
        "FlashAttentionFusionV1",
    ),
    source="MindSpore FlashAttentionFusionV1",
)
