"""Let a Triton kernel compute a pooling, the padding of its image and its epilogue.

    %y = flow.dispatch.region { pad; pooling; elementwise ops }
  becomes
    %y = hal.dispatch.extern "pool_kernel"(%x, ...) { epilogue on values in registers }

Root: the region. One pooling by maximum, minimum or sum, of f16, bf16 or f32: any layout, stride
and dilation, windows of at most 81 elements. The image is in memory, padded there or in the region.
Dimensions static but for the first.
Numerics: reassociating (sums of f16 and bf16 are taken in f32).
Source: Tillet, Kung, Cox, Triton, 2019.
"""

from __future__ import annotations

from mlirfuse.kernels import passes
from mlirfuse.kernels.pooling.family import POOLING

PASS = passes.kernel_pass(
    name="pool_triton_kernel",
    summary="Pooling with its padding and elementwise epilogue as one Triton kernel",
    supports=POOLING.plan,
    source="Tillet et al. 2019",
)
