"""Let a Triton kernel compute a scan with its elementwise neighbors.

    %y = flow.dispatch.region { scan, elementwise ops, flips }
  becomes
    %y = hal.dispatch.extern "scan_kernel"(%x) { blocks with a carried prefix }

Root: the region, whichever pass formed it, with one `iree_linalg_ext.scan` along any dimension,
inclusive or not, of any associative combiner of one value. Flips along the scanned dimension after
the scan make it run backwards. Few and long scans are split: `scan_totals_kernel` combines the
elements of each segment first. Static sizes; T f16, bf16, f32, and integers. Numerics:
reassociating (blocks are combined by a tree).
Source: Blelloch, Prefix sums and their applications, 1990.
"""

from __future__ import annotations

from mlirfuse.kernels import passes
from mlirfuse.kernels.scan.family import SCAN

PASS = passes.kernel_pass(
    name="scan_triton_kernel",
    summary="Scan with its elementwise neighbors as one Triton kernel",
    supports=SCAN.plan,
    source="Blelloch 1990",
)
