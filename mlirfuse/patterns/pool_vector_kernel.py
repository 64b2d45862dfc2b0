"""Let a kernel in the vector dialect compute a pooling, the padding of its image and its epilogue.

    %y = flow.dispatch.region { pad; pooling; elementwise ops }
  becomes
    %y = flow.dispatch @vector_kernel::@pooling(%x, ...)

Root: the region. One pooling by maximum, minimum or sum of f16, bf16 or f32, channels last in the
image: any number of dimensions, stride, dilation and result layout, windows of at most 81 elements.
Elements of 16 bits are combined in f32. Static sizes.
Numerics: reassociating (sums are taken in another order, and rounded once).
Source: mlirfuse.
"""

from __future__ import annotations

from mlirfuse.kernels.vector import passes, pooling

PASS = passes.kernel_pass(
    name="pool_vector_kernel",
    summary="Pooling with its padding and elementwise epilogue as one kernel for CPUs",
    plan=pooling.plan,
    replace=pooling.replace,
    source="mlirfuse",
)
