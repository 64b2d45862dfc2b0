"""Let a kernel in the vector dialect compute a sort of rows, or the first elements of sorted rows.

    %r = linalg.generic {addi} ins(%before)            tensor<MxNxNxi32> to tensor<MxNxi32>
    %i = linalg.generic {addi} ins(%selected)          tensor<MxKxNxi32> to tensor<MxKxi32>
    %v = linalg.generic {tensor.extract %x} ins(%i)    tensor<MxKxT>
  becomes
    %i, %v = flow.dispatch @vector_kernel::@sort(%x)

Root: the sum that selects the index of each rank, an `iree_linalg_ext.sort` whose comparator
compares one function of both elements, or an `iree_linalg_ext.topk` of integers. With it go the
ops that compute the ranks, the indices in another type, the elements with these indices, and
slices of the first elements. Any rank and any sorted dimension, one row or many. Static sizes;
floats of 16 to 64 bits and integers of 8 to 64. The order is stable; by ranks, NaN is the largest
number and both zeros are equal; a comparator says so itself.

Short rows are in lanes, sorted by a network; longer ones, too, by merges of such blocks; where rows
are few or very long, each is sorted by the digits of its keys. The first elements of long rows are
selected by comparing vectors with the last of the best so far: few are kept in order in registers,
others are collected and sorted. A model of the cycles chooses.

Numerics: exact. `oge` and `ole` of floats give no order of NaN, and the place of NaN in IREE's
result depends on all elements: here NaN is the largest number. An element of `topk` that is the
least integer has its index, for which IREE's result has the largest integer.
Source: Knuth, The Art of Computer Programming, volume 3, 5.2.5.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.builders import form_region
from mlirfuse.core import Match, NoMatch, Numerics, PassContext, Reason
from mlirfuse.kernels.vector import passes, sorting
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import orders, sorts


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """Options of the pass.

    Attributes:
      partial_orders: whether sorts are taken whose comparator gives no order of NaN.
    """

    partial_orders: bool = True


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Plans the kernel of a sort in no group."""
    if ctx.target.cpu is None or ops.in_region(root) or not any(map(ops.users, root.results)):
        return None
    found = sorts.sort(root, ctx.target.max_operands)
    if found is None or isinstance(found, NoMatch):
        return found
    if not found.comparator.is_total and not ctx.options.partial_orders:
        return NoMatch(Reason.NUMERICS_LIMIT, "a comparator that gives no order of NaN")
    plan = sorting.plan(found, ctx.target.cpu)
    return plan if isinstance(plan, NoMatch) else Match(root, found.group, plan)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Calls the kernel."""
    return sorting.replace(form_region(list(match.ops)), match.data)


PASS = passes.kernel_pass(
    name="sort_vector_kernel",
    summary="Sorts of rows and their first elements as one kernel for CPUs",
    plan=lambda region, device: None,
    replace=sorting.replace,
    source="Knuth, The Art of Computer Programming, volume 3, 5.2.5",
    roots=(orders.ROOT, sorts.SORT, sorts.TOPK),
    match=match,
    rewrite=rewrite,
    numerics=Numerics.EXACT,
    takes_single_op=True,
    options=Options,
)
