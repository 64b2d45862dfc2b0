"""Let a Triton kernel compute the indices that sort a dimension.

    %i = flow.dispatch.region { ranks by comparing all pairs, the index of each rank }
  becomes
    %i = hal.dispatch.extern "sort_kernel"(%x) { rows in registers, a bitonic network }
  or, of rows that registers do not hold,
    %r = hal.dispatch.extern "sort_chunks_kernel"(%x) { chunks of rows in registers }
    or "sort_selection_kernel", which selects few elements of each chunk, and
    %i = hal.dispatch.extern "sort_merge_kernel"(%r) { places by bisection; one for each level }

Root: the region that `sort_fusion` formed. Any rank and any sorted dimension. Static sizes; f16,
bf16, f32 and integers of up to 32 bits.
Numerics: exact.
Source: Batcher, Sorting networks and their applications, 1968.
"""

from __future__ import annotations

from mlirfuse.kernels import passes
from mlirfuse.kernels.sort.family import SORT

PASS = passes.kernel_pass(
    name="sort_triton_kernel",
    summary="Indices that sort a dimension as Triton kernels",
    supports=SORT.plan,
    source="Batcher 1968",
)
