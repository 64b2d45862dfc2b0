"""Let a kernel in the vector dialect compute a group of reductions: norms, softmax, sums of rows.

    %y = flow.dispatch.region { reductions over the last dimensions, elementwise ops }
  becomes
    %y = flow.dispatch @vector_kernel::@rows(%x, ...)

Root: the region, whichever pass formed it, or a reduction in no group, with elementwise ops and
other reductions over the same loops: those that compute its operands, and those that read its
result. Rows are the loops that reductions keep, columns those that they reduce. Columns are
contiguous in each tensor that has them, or segments that are: the pixels of a channel in all
images. Where a kept loop is the last dimension in memory, its elements are lanes: sums of a
matrix's columns, norms over the channels of images with channels first; of fewer elements than a
vector has, several rows are in a vector. Few rows or tiles are divided among workgroups: each loop
over the columns is a kernel then, which stores totals of its parts, and a last one combines them.
Sums, products, extremes, and, or, xor; any number of dependent reductions, results and elementwise
ops. T f16, bf16, f32, with accumulators of f32; integers; booleans. Static sizes. Where rows have
fewer elements than two vectors, lanes are rows, of which there is a vector at least.
Numerics: reassociating (an accumulator for each lane, sums of floats in blocks).
Source: mlirfuse.
"""

from __future__ import annotations

from collections.abc import Iterator

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext
from mlirfuse.kernels.reduction.grouping import Growth, is_root
from mlirfuse.kernels.vector import passes, rows
from mlirfuse.kernels.vector.stages import Stages
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.ir.strided_views import strided_view
from mlirfuse.structured.recognize import epilogues


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Plans the kernel of a region, or of a reduction in no group with its neighbors."""
    if ctx.target.cpu is None or root.name == ops.REGION:
        return passes.match_region(root, ctx, rows.plan)
    if ops.in_region(root) or not is_root(root) or not any(map(ops.users, root.results)):
        return None
    refusal: NoMatch | None = None
    for group in _groups(root, ctx.target.max_operands):
        if _is_computed_by_iree(group) or slices.cycle(group) is not None:
            continue
        planned = rows.plan_group(group, slices.results_of(group), ctx.target.cpu)
        if isinstance(planned, Stages):
            return Match(root, tuple(group))
        refusal = refusal or planned
    return refusal


def _groups(root: ir.Operation, max_operands: int) -> Iterator[list[ir.Operation]]:
    """Groups of a reduction, the largest first."""
    growth = Growth(root, max_operands)
    growth.add_producers()
    growth.add_neighbors()
    yield growth.members
    group, work = [root], [root]
    while work:
        for value in ops.inputs(work.pop()):
            op = ops.defining_op(value)
            if op is not None and op not in group and _feeds_only(op, group):
                group.append(op)
                work.append(op)
    if len(root.results) == 1:
        group += epilogues.epilogue(root, max_operands)
    bound = len(slices.operands_of(group)) + len(slices.results_of(group))
    if bound <= max_operands:
        yield slices.in_order(group)


def _feeds_only(op: ir.Operation, group: list[ir.Operation]) -> bool:
    """Whether an elementwise op computes operands of a group alone."""
    if not ops.is_generic(op) or not ops.is_elementwise(op) or slices.is_clonable(op):
        return False
    same_block = op.block == group[0].block
    return same_block and all(u in group for r in op.results for u in ops.users(r))


def _is_computed_by_iree(group: list[ir.Operation]) -> bool:
    """Whether IREE would compute an operand in the same dispatch, and the kernel cannot."""
    for value in slices.operands_of(group):
        op = ops.defining_op(value)
        if op is None or slices.is_clonable(op):
            continue
        if op.name.startswith("tensor.") and op.name not in ops.RESHAPES:
            view = strided_view(value)
            if view is None or view.strides[-1:] != (1,):
                return True
        if ops.is_generic(op) and ops.is_elementwise(op):
            return True
    return False


PASS = passes.kernel_pass(
    name="row_vector_kernel",
    summary="Norms, softmax and other reductions as one kernel for CPUs",
    plan=rows.plan,
    replace=rows.replace,
    source="mlirfuse",
    roots=(ops.REGION, "linalg.generic"),
    match=match,
    takes_single_op=True,
)
