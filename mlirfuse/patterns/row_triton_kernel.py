"""Let a Triton kernel compute a group that reduces rows: softmax or a norm, prologue and epilogue.

    %y = flow.dispatch.region { reductions over rows, elementwise ops }
  becomes
    %y = hal.dispatch.extern "row_kernel"(%x) { one pass over the rows, held in registers }

Root: the region, whichever pass formed it. Rows of at most 32768 columns, on sm_90 262144, which
the CTAs of a cluster share; every op of the region runs over rows and columns, or one of them.
Dimensions static but for one or more of the rows, the first; T f16, bf16, f32, and integers that
are computed from them. Numerics: reassociating (sums are taken by a tree; exp, tanh and erf are
wrong by 1e-5 where all results have 16 bits or less).
Source: Milakov, Gimelshein 2018; Tillet, Kung, Cox, Triton, 2019.
"""

from __future__ import annotations

from mlirfuse.kernels import passes
from mlirfuse.kernels.reduction.family import REDUCTION, profitable

PASS = passes.kernel_pass(
    name="row_triton_kernel",
    summary="Softmax, norms and other row reductions as one Triton kernel",
    supports=REDUCTION.plan,
    profitable=profitable,
    source="Milakov, Gimelshein 2018",
)
