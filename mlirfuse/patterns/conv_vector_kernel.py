"""Let a kernel in the vector dialect compute a convolution, its zero padding and its epilogue.

    %y = flow.dispatch.region { pad; convolution; bias, batch norm, residual, activation, casts }
  becomes
    %p = util.global.load @packed_filter                       packed when the program is loaded
    %y = flow.dispatch @vector_kernel::@convolution(%x, %p, ...)

Root: the region, whichever pass formed it. One convolution of f16, bf16 or f32 with f32
accumulators: of any layout, number of dimensions, stride, dilation, groups, padding, which costs no
copy, and number of channels; a depthwise one has channels last in its image. The zeros between the
elements of a transposed convolution's image are neither in memory nor multiplied: each residue
class of the stride has its own taps, and is stored at its place. A filter that is no constant is
packed in each call. Any elementwise prologue of channels and epilogue, several results.
Static sizes. Register tiles and blocks are computed from the CPU's vectors, registers and caches.
Numerics: reassociating (accumulation in blocks).
Source: Georganas et al., Anatomy of high-performance deep learning convolutions, 2018.
"""

from __future__ import annotations

from mlirfuse.kernels.vector import convolution, passes

PASS = passes.kernel_pass(
    name="conv_vector_kernel",
    summary="Convolution with its padding and elementwise epilogue as one kernel for CPUs",
    plan=convolution.plan,
    replace=convolution.replace,
    source="Georganas et al. 2018",
)
