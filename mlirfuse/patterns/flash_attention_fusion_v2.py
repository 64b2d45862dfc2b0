"""Make unmasked attention one `iree_linalg_ext.attention` in one dispatch.

    %s = scale * (%q %k^T) + constant                  tensor<BxMxKxT>
    %o = softmax(%s) %v                                tensor<BxMxNxT>
  becomes
    %o = flow.dispatch.region { iree_linalg_ext.attention ins(%q, %k, %v, scale) }

Root: the contraction with v. The scale is read from the graph, on q, k or the scores; a constant
added to all scores is verified to leave softmax as it is. The scores may have a soft cap, `scale *
tanh(cap * %q %k^T)`, where a GPU's kernel may compute the group. Any number of batch and head
dimensions, grouped and shared heads, different lengths of q and k. Head sizes are static; batch and
the number of queries may be dynamic, that of keys with an option or where a kernel may compute the
group. T f16, bf16, f32; scores and softmax are f32. Numerics: reassociating (online softmax; the
weights are rounded to v's type where the graph rounds them, or the result, to as few bits).
Source: MindSpore FlashAttentionFusionV2; Gemma Team, Gemma 2, 2024 (soft caps).
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
    return match_attention(root, masked=False)


PASS = FusionPass(
    name="flash_attention_fusion_v2",
    summary="Attention without a mask as one dispatch with an online softmax",
    roots=ROOTS,
    where=may_end_attention,
    match=match,
    legal=legal_attention,
    profitable=profitable,
    prepare=needs_provider,
    rewrite=fuse_attention,
    numerics=Numerics.REASSOCIATING,
    options=Options,
    # On a CPU for a kernel: IREE's code is slower than the decomposed form. 4x12x128x32 f32 on 2
    # threads takes 800 us in three dispatches, 1770 us as attention with IREE's tile sizes and 840
    # us with the best of eight sets of them. IREE has no code generation for attention in SPIR-V.
    targets=frozenset({"cpu", "cuda", "rocm"}),
    aliases=(
        "attention_fusion",
        "FlashAttentionFusionV2",
    ),
    source="MindSpore FlashAttentionFusionV2",
)
