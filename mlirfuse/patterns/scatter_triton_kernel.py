"""Let a Triton kernel compute a scatter with the ops that compute its updates and indices.

    %y = flow.dispatch.region { elementwise ops; iree_linalg_ext.scatter outs(%x) }
  becomes
    %y = hal.dispatch.extern "scatter_kernel"(%u, %i, %x) -> %x { a lane for each element }

Root: the region, whichever pass formed it, that ends in one `iree_linalg_ext.scatter`: sums,
products, extremes, bits or any other function of the element and an update, or updates that replace
elements. The destination is updated in place: sums, extremes and bits by atomic ops, others by
compare-and-swap, unique indices and replaced elements by stores. Elements of 32 and 64 bits, of any
width with stores. Indices out of bounds change nothing. Static sizes. Numerics: reassociating (the
order of updates changes from run to run).
Source: Tillet, Kung, Cox, Triton, 2019.
"""

from __future__ import annotations

from mlirfuse.kernels import passes
from mlirfuse.kernels.scatter.family import SCATTER

PASS = passes.kernel_pass(
    name="scatter_triton_kernel",
    summary="Scatter with the computation of its updates as one Triton kernel",
    supports=SCATTER.plan,
    source="Tillet, Kung, Cox 2019",
)
