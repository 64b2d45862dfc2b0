"""Let a Triton kernel compute a contraction and the elementwise ops after it.

    %y = flow.dispatch.region { dequantization; contraction; bias, activation, residual, casts }
  becomes
    %y = hal.dispatch.extern "matmul_kernel"(%a, %b, ...) { the ops after it on sums in registers }

Root: the region, whichever pass formed it. One contraction of f16 or bf16 that adds in f32, or of
i8 in i32, with one dimension each of rows and columns, one of terms or two (runs that share a
scale), and any number of batch dimensions, operands transposed or not, in memory or computed
elementwise (weights of i8 and i4 dequantized on the way); any elementwise epilogue, several
results. A contraction of several results that share the left operand: a gated unit in one
workgroup, the parts of a split each in its own. Dimensions static but for the rows.
Numerics: reassociating (sums are taken in blocks).
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
