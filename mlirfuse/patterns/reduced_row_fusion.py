"""Group a reduction of normalized rows with the norm, for a kernel.

    %p = exp(%x - max(%x)), %y = %p / sum(%p)          tensor<NxCxT>
    %s = linalg.generic {addf (mulf %y, %v)}           tensor<NxT>
  becomes
    %s = flow.dispatch.region { all of it }

Root: a reduction that reads another one over the same dimensions for each of its elements, and that
no element of the rows reads: an entropy, an expected value, the divergence of two softmaxes, the
length of a normalized row. The group is that of `axis_reduction_fusion`, before the patterns of
norms take the first reductions alone and write the normalized rows. Nothing is grouped where Triton
is missing. Any rank; reduced dimensions static. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext
from mlirfuse.kernels import passes
from mlirfuse.kernels.codegen.row_reductions import reduces
from mlirfuse.kernels.reduction.chains import is_last
from mlirfuse.kernels.reduction.grouping import is_root
from mlirfuse.patterns import axis_reduction_fusion


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Grows the group of the last reduction, which has to reach another one."""
    if not is_last(root):
        return None
    found = axis_reduction_fusion.match(root, ctx)
    if isinstance(found, Match) and sum(map(reduces, found.ops)) < 2:
        return None
    return found


PASS = passes.group_pass(
    name="reduced_row_fusion",
    summary="Reductions of normalized rows with the norm, for a kernel",
    roots=("linalg.generic",),
    where=is_root,
    match=match,
    for_kernel=True,
)
