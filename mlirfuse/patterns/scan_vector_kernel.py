"""Let a kernel in the vector dialect compute a scan with its elementwise neighbors.

    %y = flow.dispatch.region { scan, elementwise ops, flips }
  becomes
    %y = flow.dispatch @vector_kernel::@scan(%x, ...)

Root: the region, whichever pass formed it, with one `iree_linalg_ext.scan` along any dimension,
inclusive or not, of any associative combiner of one value. Flips along the scanned dimension make
it run backwards. Lanes are elements behind the scanned dimension in memory where these fill a
vector; else the lanes of a vector are scanned in steps, with a carry from one to the next. Static
sizes; T f16, bf16, f32, f64 and integers; sums and products of f32 have accumulators of f64 unless
they are rounded to 16 bits. Numerics: reassociating (lanes are combined by a tree).
Source: Hillis and Steele, Data parallel algorithms, 1986.
"""

from __future__ import annotations

from mlirfuse.kernels.vector import passes, scans

PASS = passes.kernel_pass(
    name="scan_vector_kernel",
    summary="Scan with its elementwise neighbors as one kernel for CPUs",
    plan=scans.plan,
    replace=scans.replace,
    source="Hillis and Steele 1986",
)
