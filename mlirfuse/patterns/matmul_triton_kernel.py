"""Compute a contraction, its prologue and its epilogue in one Triton kernel.

    %y = flow.dispatch.region { dequantization; contraction; bias, activation, residual, casts }
  becomes
    %y = hal.dispatch.extern "matmul_kernel"(%a, %b, ...) { epilogue on accumulators in registers }

Root: the region, whichever pass formed it. One contraction of f16 or bf16 with accumulators of f32,
or of i8 with i32, with one dimension each of M and N, one of K or two (groups of K that share a
scale), and any number of batch dimensions; operands transposed or not, in memory or computed
elementwise in the loop (weights of i8 and i4, dequantized there); any elementwise epilogue, several
results. A contraction of several results that share A: a gated unit in one CTA, the parts of a
split each in its own. Dimensions static but for M.
Numerics: reassociating (K is accumulated in blocks).
Source: Tillet, Kung, Cox, Triton, 2019.
"""

from __future__ import annotations

from mlirfuse.kernels import passes
from mlirfuse.kernels.matmul.family import MATMUL

PASS = passes.kernel_pass(
    name="matmul_triton_kernel",
    summary="Contraction with its elementwise epilogue as one Triton kernel",
    supports=MATMUL.plan,
    source="Tillet, Kung, Cox 2019",
)
