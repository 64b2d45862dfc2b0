"""Let a Triton kernel compute a convolution, the zeros around its image and the ops after it.

    %y = flow.dispatch.region { pad; convolution; bias, batch norm, residual, activation, casts }
  becomes
    %y = hal.dispatch.extern "conv_kernel"(%x, %w, ...) { the ops after it on sums in registers }

Root: the region, whichever pass formed it. One convolution of f16 or bf16, with sums in f32, or a
1x1 one that is a contraction: any layout, stride, dilation and number of places, one loop each of
channels and output channels, no groups. The image is in memory, padded there or in the region; any
elementwise ops around the sums, several results. Dimensions static but for the first.
Numerics: reassociating (sums are taken in blocks).
Source: Chetlur et al., cuDNN, 2014; Tillet, Kung, Cox, Triton, 2019.
"""

from __future__ import annotations

from mlirfuse.kernels import passes
from mlirfuse.kernels.convolution import planner as convolution

PASS = passes.kernel_pass(
    name="conv_triton_kernel",
    summary="Convolution with its padding and elementwise epilogue as one Triton kernel",
    supports=convolution.supports,
    source="Chetlur et al. 2014",
)
