"""Let Triton kernels compute a group of reductions: softmax, a norm, a loss, with their neighbors.

    %y = flow.dispatch.region { reductions over the same dimensions, elementwise ops }
  becomes
    %y = hal.dispatch.extern "row_kernel"(%x) { one pass over the rows, held in registers }
  or
    %p = hal.dispatch.extern "reduction_kernel"(%x) { loops over columns, partial results }
    %y = hal.dispatch.extern "reduction_kernel"(%p, %x) { combines them }

Root: the region, whichever pass formed it. Rows are the loops that reductions keep, columns those
that they reduce, in any order in memory; every op of the region runs over rows and columns, or one
of them. Registers hold rows of at most 32768 columns, on sm_90 262144, which the CTAs of a cluster
share; where columns are outer dimensions, a tile of all columns and some adjacent rows. Else CTAs
loop over columns, once for each of the dependent reductions; a mean and the sum of squares around
it, as in a variance, take one loop, by Welford's update, and so do a maximum and the sum of
exponentials around it, as in a softmax. Where rows are too few for the device, several CTAs share
the columns, and a kernel combines their results in a fixed order: of rows that registers would
hold, too, where a model of the device's time says that reading them twice takes less. Dimensions
static but for one or more of the rows, the first; T f16, bf16, f32, and integers of 1 to 64 bits.
Numerics: reassociating (sums are taken by a tree; exp, tanh and erf are wrong by 1e-5 where all
results have 16 bits or less).
Source: Milakov, Gimelshein 2018; Tillet, Kung, Cox, Triton, 2019; Chan, Golub, LeVeque, 1983.
"""

from __future__ import annotations

from mlirfuse.kernels import passes
from mlirfuse.kernels.reduction.family import REDUCTION, profitable

PASS = passes.kernel_pass(
    name="row_triton_kernel",
    summary="Softmax, norms, losses and other reductions as Triton kernels",
    supports=REDUCTION.plan,
    supports_alone=REDUCTION.plan_alone,
    profitable=profitable,
    source="Milakov, Gimelshein 2018",
)
