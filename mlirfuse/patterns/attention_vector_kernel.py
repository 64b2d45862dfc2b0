"""Let a kernel in the vector dialect compute an attention, its mask and its epilogue.

    %o = flow.dispatch.region { mask; iree_linalg_ext.attention; elementwise ops }
  becomes
    %o = flow.dispatch @vector_kernel::@attention(%q, %k, %v, ...)

Root: the region, as `flash_attention_fusion_v1` and `_v2` form it. Any static number of batches,
heads, queries and keys, heads that share keys, head sizes that fit the stack. Queries are the lanes
of vectors, or keys where they are few; the keys of few queries may be divided among workgroups, and
a second kernel merges the parts; q, k and v in f16,
bf16 or f32, softmax and accumulators in f32; tile registers multiply bf16, with weights rounded to
bf16. The mask is an elementwise computation of tensors and indices, and is in memory only where the
graph has it there; it may be added or select the keys. Blocks that a causal mask hides are skipped.
Numerics: reassociating (online softmax over blocks of keys).
Source: Dao et al., FlashAttention, 2022; Milakov and Gimelshein, Online normalizer calculation for
softmax, 2018; Dao et al., Flash-Decoding, 2023.
"""

from __future__ import annotations

from mlirfuse.kernels.vector import attention, passes, stages

PASS = passes.kernel_pass(
    name="attention_vector_kernel",
    summary="Attention with its mask and elementwise epilogue as one kernel for CPUs",
    plan=attention.plan,
    replace=stages.replace,
    source="Dao et al. 2022",
)
