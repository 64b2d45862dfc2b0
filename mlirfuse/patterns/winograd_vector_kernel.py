"""Let a kernel compute a convolution with constant filter by minimal filtering, as Winograd's.

    %y = flow.dispatch.region { pad; convolution; bias, batch norm, residual, activation, casts }
  becomes
    %p = util.global.load @transformed_filter            transformed when the program is loaded
    %y, %scratch = flow.dispatch @vector_kernel::@winograd(%x, %p, ...)

Root: the region, whichever pass formed it. One convolution of f16, bf16 or f32 with f32
accumulators, a constant filter, channels last in its image, any number of dimensions with two to
five taps each, stride and dilation 1, no groups, any padding, any elementwise epilogue and several
results. F(2x2,3x3) takes 16 products for each channel where sums over taps take 36, F(4x4,3x3) 36
where they take 144. The kernel's cycles are modelled for windows of 4 and 6 elements along each
dimension; the convolution is left to `conv_vector_kernel` where they save too little.
Static sizes. Numerics: reassociating. The largest error is up to twice that of a sum in f32, and a
NaN or an infinity of the image reaches all results of its windows, up to three elements further
than in the definition.
Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016.
"""

from __future__ import annotations

from mlirfuse.kernels.vector import passes
from mlirfuse.kernels.vector.winograd import plan

PASS = passes.kernel_pass(
    name="winograd_vector_kernel",
    summary="Convolution with fewer multiplications, by minimal filtering, as one kernel for CPUs",
    plan=plan.plan,
    replace=plan.replace,
    source="Lavin and Gray 2016",
)
