"""Group the ops that compute the indices which sort a dimension, and gathers, for a kernel.

    %r = linalg.generic {addi} ins(%before)            tensor<MxNxNxi32> to tensor<MxNxi32>
    %i = linalg.generic {addi} ins(%selected)          tensor<MxKxNxi32> to tensor<MxKxi32>
    %w = linalg.generic {extsi} ins(%i)                tensor<MxKxi64>
    %v = linalg.generic {tensor.extract %x} ins(%w)    tensor<MxKxT>
  becomes
    %v, %w = flow.dispatch.region { all of it, from the sorted tensor }

Root: the sum that selects the index of each rank; the ranks are sums of comparisons of all pairs of
elements. Sorts and selections of the first elements are imported so. Ops that others use, too, join
as copies. Casts of the indices, and gathers along them from tensors of the sorted one's sizes, join
where they can. Nothing is grouped where Triton is missing. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import form_region, own_copies
from mlirfuse.core import Match, NoMatch, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.sort.analysis import SortAnalysis, analyze_order, is_written
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import order_users, orders, sorts


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the indices that sort a dimension, if there is a kernel for them."""
    if not triton_compiler.supports(ctx.target) or ops.in_region(root):
        return None
    found = orders.order(root)
    if found is None:
        return None
    analysis = analyze_order(found)
    if not isinstance(analysis, SortAnalysis):
        return analysis
    own = order_users.exclusive(found)
    shared = tuple(op for op in found.group if op not in own)
    with_users = sorts.ranked(found, ctx.target.max_operands)
    if isinstance(with_users, sorts.Sort) and all(map(is_written, with_users.results)):
        return Match(root, with_users.group, shared)
    group = [op for op in found.group if op in own]
    blocked = slices.check(group, ctx.target.max_operands, any_result=True)
    return blocked or Match(root, tuple(group), shared)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Puts the ops into a region, those that others use as copies."""
    return form_region(own_copies(list(match.data), list(match.ops)))


PASS = passes.group_pass(
    name="sort_fusion",
    summary="Indices that sort a dimension, with gathers along them, for a kernel",
    roots=(orders.ROOT,),
    match=match,
    rewrite=rewrite,
)
