"""Let a Triton kernel compute an attention that was recognized as one.

    %o = flow.dispatch.region { mask; iree_linalg_ext.attention ins(%q, %k, %v, scale, mask) }
  becomes
    %o = hal.dispatch.extern "attention_kernel"(%q, %k, %v) { scores in registers }

Root: the region, whichever pass formed it. q, k and v of f16, bf16 or f32
(`--float32-matmul-precision`), scores and accumulators in f32; any batch and head dimensions,
shared heads of k and v; a mask of i1 or numbers, from memory or computed from indices; a causal
mask halves the work. Few queries use split-KV (flash decoding), and a second kernel combines the
splits. The first batch dimension, the queries and the keys may be dynamic; head sizes of at most
256, in f32 128.
Numerics: reassociating (online softmax), as the attention op itself.
Source: Dao, FlashAttention-2, 2023, algorithm 1.
"""

from __future__ import annotations

from mlirfuse.kernels import passes
from mlirfuse.kernels.attention.family import ATTENTION

PASS = passes.kernel_pass(
    name="attention_triton_kernel",
    summary="Attention as one Triton kernel with an online softmax",
    supports=ATTENTION.plan,
    source="Dao 2023, algorithm 1",
)
