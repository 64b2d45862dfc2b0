"""Let a Triton kernel compute a convolution, the zeros around its image and the ops after it.

    %y = flow.dispatch.region { pad; convolution; bias, batch norm, residual, activation, casts }
  becomes
    %y = hal.dispatch.extern "conv_kernel"(%x, %w, ...) { its epilogue on accumulators }

Root: the region, whichever pass formed it. One convolution of f16 or bf16, accumulated in f32, or
a 1x1 one that is a contraction: any layout, stride, dilation and number of spatial dimensions, one
loop each of input and output channels, no groups. The image is in memory, padded there or in the
region; any elementwise prologue of the epilogue's operands, any elementwise epilogue, several
results. Dimensions static but for the number of images.
Numerics: reassociating (K is accumulated in blocks).
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
