"""Let a Triton kernel compute a contraction and its elementwise epilogue.

    %y = flow.dispatch.region { dequantization; contraction; bias, activation, residual, casts }
  becomes
    %y = hal.dispatch.extern "matmul_kernel"(%a, %b, ...) { epilogue on accumulators in registers }

Root: the region, whichever pass formed it. One contraction of f16, bf16 or f32 that accumulates in
f32 (`--float32-matmul-precision`), of f64, or of i8 in i32, with one loop each of M and N, one or
two of K (two: groups that share a scale), and any number of batch loops, operands transposed or
not, in memory or computed elementwise (i8 and i4 weights with in-loop dequantization); any
elementwise epilogue, several results. A contraction of several results that share the left operand:
both halves of a gated unit in one CTA, the slices of a split in CTAs of their own. Dimensions
static but for M.
Numerics: reassociating (accumulation in blocks).
Source: Tillet, Kung, Cox, Triton, 2019.
"""

from __future__ import annotations

from mlirfuse.kernels import passes
from mlirfuse.kernels.matmul.family import MATMUL

PASS = passes.kernel_pass(
    name="matmul_triton_kernel",
    summary="Contraction with its elementwise epilogue as one Triton kernel",
    supports=MATMUL.plan,
    supports_alone=MATMUL.plan_alone,
    source="Tillet, Kung, Cox 2019",
)
