"""Let a Triton kernel compute the indices that sort a dimension.

    %i = flow.dispatch.region { ranks by comparing all pairs, the index of each rank }
  becomes
    %i = hal.dispatch.extern "sort_kernel"(%x) { rows in registers, a bitonic network }
  or, where registers do not hold a row,
    %r = hal.dispatch.extern "sort_chunks_kernel"(%x) { sorted chunks, their first elements }
    %i = hal.dispatch.extern "sort_merge_kernel"(%r) { places by bisection; several times }

`sort_selection_kernel` takes the place of the first one for few elements of long chunks.
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
