"""Let a Triton kernel compute a convolution, its zero padding and its epilogue.

    %y = flow.dispatch.region { pad; convolution; bias, batch norm, residual, activation, casts }
  becomes
    %y = hal.dispatch.extern "conv_kernel"(%x, %w, ...) { implicit GEMM, epilogue in registers }

Root: the region, whichever pass formed it. One convolution of f16 or bf16 with f32 accumulators, or
a 1x1 one that is a contraction: any layout, stride, dilation and number of filter taps, one loop
each of channels and output channels, no groups. The image is in memory, padded there or in the
region; any elementwise prologue and epilogue, several results. Dimensions static but for the first.
Numerics: reassociating (accumulation in blocks).
Source: Chetlur et al., cuDNN, 2014; Tillet, Kung, Cox, Triton, 2019.
"""

from __future__ import annotations

from mlirfuse.kernels import passes
from mlirfuse.kernels.convolution.family import CONVOLUTION

PASS = passes.kernel_pass(
    name="conv_triton_kernel",
    summary="Convolution with its padding and elementwise epilogue as one Triton kernel",
    supports=CONVOLUTION.plan,
    source="Chetlur et al. 2014",
)
