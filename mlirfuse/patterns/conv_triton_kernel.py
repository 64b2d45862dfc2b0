"""Let a Triton kernel compute a convolution, its zero padding and its epilogue.

    %y = flow.dispatch.region { pad; convolution; bias, batch norm, residual, activation, casts }
  becomes
    %y = hal.dispatch.extern "conv_kernel"(%x, %w, ...) { implicit GEMM, epilogue in registers }

Root: the region, whichever pass formed it. One convolution of f16, bf16 or f32 with f32
accumulators, or a 1x1 one that is a contraction: of any rank, layout, stride, dilation, number of
filter taps and groups. Few tiles with a long K have CTAs that split K, and a second kernel that
adds the parts; a filter with rows of an odd number of channels may be copied first. Groups of few
channels, as those of depthwise convolutions, are computed directly, without matrix instructions,
where that takes fewer than a gather of several taps would. The image is in memory, padded there or
in the region, or has zeros between its elements that a `tensor.insert_slice` of the region puts
there, as that of a transposed convolution, which is computed by residue classes of the stride
without these zeros. Any elementwise prologue and epilogue, several results. Dimensions static but
for the first.
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
    supports_alone=CONVOLUTION.plan_alone,
    source="Chetlur et al. 2014",
)
