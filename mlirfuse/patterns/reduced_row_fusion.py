"""Group a reduction of normalized rows with the norm, for a kernel.

    %p = exp(%x - max(%x)), %y = %p / sum(%p)          tensor<NxCxT>
    %s = linalg.generic {addf (mulf %y, %v)}           tensor<NxT>
  becomes
    %s = flow.dispatch.region { all of it }

Root: a reduction that reads another one over the same dimensions for each of its elements, and that
no element of the rows reads: an entropy, an expected value, the divergence of two softmaxes, the
length of a normalized row. Or one behind two others, whatever reads it: a norm of a norm, a softmax
of one, the gradient of a softmax; such rows have to stay in registers. The group is that of
`axis_reduction_fusion`, before the patterns of norms take the first reductions alone and write the
normalized rows. Nothing is grouped where Triton is missing. Any rank; reduced dimensions static.
Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext
from mlirfuse.kernels import passes
from mlirfuse.kernels.codegen.row_reductions import reduces
from mlirfuse.kernels.reduction.analysis import ReductionAnalysis, analyze_ops
from mlirfuse.kernels.reduction.chains import NORM_REDUCTIONS, is_behind_norm, is_last
from mlirfuse.kernels.reduction.grouping import is_root
from mlirfuse.kernels.reduction.heuristics import choose_config
from mlirfuse.kernels.reduction.region_problem import problem_of
from mlirfuse.patterns import axis_reduction_fusion
from mlirfuse.structured.ir import slices
from mlirfuse.targets.base import Target


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Grows the group of the last reduction, which has to reach another one."""
    ends = is_last(root)
    if not ends and not is_behind_norm(root):
        return None
    found = axis_reduction_fusion.match(root, ctx)
    if not isinstance(found, Match):
        return found
    whole = sum(map(reduces, found.ops)) > 1 if ends else _holds_norm(found, ctx.target)
    return found if whole else None


def _holds_norm(found: Match, target: Target) -> bool:
    """Whether a group has a norm and more, and a kernel that reads its rows once."""
    group = list(found.ops)
    analysis = analyze_ops(group, slices.results_of(group))
    if sum(map(reduces, group)) <= NORM_REDUCTIONS or not isinstance(analysis, ReductionAnalysis):
        return False
    config = choose_config(problem_of(analysis), target)
    return config.block_columns <= 1 and config.splits == 1


PASS = passes.group_pass(
    name="reduced_row_fusion",
    summary="Reductions of normalized rows with the norm, for a kernel",
    roots=("linalg.generic",),
    where=is_root,
    match=match,
    for_kernel=True,
)
