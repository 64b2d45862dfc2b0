"""Let a Triton kernel compute an elementwise group where IREE's code was measured to be slower.

    %y = flow.dispatch.region { elementwise ops, slices, gathers, transposes }
  becomes
    %y = hal.dispatch.extern "elementwise_kernel"(%x, %bias) { vectorized loads of 16 bytes }

Root: the region, whichever pass formed it. Every op of the region is elementwise, over the axes of
its largest result or some of them; operands are whole, sliced, broadcast, transposed, or gathered
from at computed indices. Dimensions static but for the first of the result; T f16, bf16, f32, and
integers. Numerics: reassociating (computed in f32, rounded where it is stored).
Source: Tillet, Kung, Cox, Triton, 2019.
"""

from __future__ import annotations

from mlirfuse.kernels import passes
from mlirfuse.kernels.pointwise.family import POINTWISE
from mlirfuse.kernels.pointwise.profitability import profitable

PASS = passes.kernel_pass(
    name="elementwise_triton_kernel",
    summary="Elementwise group as one Triton kernel",
    supports=POINTWISE.plan,
    profitable=profitable,
    source="Tillet, Kung, Cox 2019",
)
