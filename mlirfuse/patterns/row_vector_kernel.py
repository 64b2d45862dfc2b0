"""Let a kernel in the vector dialect compute a group of reductions: norms, softmax, sums of rows.

    %y = flow.dispatch.region { reductions over the last dimensions, elementwise ops }
  becomes
    %y = flow.dispatch @vector_kernel::@rows(%x, ...)

Root: the region, whichever pass formed it. Rows are the loops that reductions keep, columns those
that they reduce; each tensor has all columns as its last dimensions, or none. Sums, products,
extremes, and, or, xor; any number of dependent reductions, results and elementwise ops. T f16,
bf16, f32, with accumulators of f32, and integers. Static sizes, rows of two vectors at least.
Numerics: reassociating (an accumulator for each lane).
Source: mlirfuse.
"""

from __future__ import annotations

from mlirfuse.kernels.vector import passes, rows

PASS = passes.kernel_pass(
    name="row_vector_kernel",
    summary="Norms, softmax and other reductions of rows as one kernel for CPUs",
    plan=rows.plan,
    replace=rows.replace,
    source="mlirfuse",
)
