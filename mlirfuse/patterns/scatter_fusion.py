"""Group a scatter with the ops that compute its updates and indices, for a kernel.

    %v = linalg.generic {mulf} ins(%u, %s)             tensor<NxWxf32>
    %j = tensor.collapse_shape %i                      tensor<AxBxi64> to tensor<Nxi64>
    %y = iree_linalg_ext.scatter {addf} ins(%v, %j) outs(%x)
  becomes
    %y = flow.dispatch.region { all of it }

    %y = iree_linalg_ext.scatter ins(%v, %j) outs(%argument)
  becomes
    %c = flow.dispatch.region { linalg.generic { yield } ins(%argument) }
    %y = flow.dispatch.region { iree_linalg_ext.scatter ins(%v, %j) outs(%c) }

Root: the scatter. Elementwise producers of the updates that only it uses join it, also through
reshapes, slices and concatenations; those of indices join it as copies where others use them, too.
An argument of the program, which the scatter must not change, is copied by a kernel: IREE's copy
of 3 MB takes 5.3 us on an H200, a kernel's 2.5. (It copies a constant, too: a kernel of constants
alone runs when the program is loaded.) Nothing is grouped where Triton is missing. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import form_region, own_copies
from mlirfuse.core import Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.alignment import VIEWS
from mlirfuse.kernels.scatter.analysis import ScatterAnalysis, analyze_ops
from mlirfuse.kernels.scatter.family import plan_scatter
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import scatters

_ARGUMENT = "hal.tensor.import"


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a scatter and the most ops before it for which there is a kernel."""
    if not triton_compiler.supports(ctx.target) or ops.in_region(root):
        return None
    if not ops.users(root.results[0]):
        return None
    refusal: NoMatch | None = None
    for feeding in scatters.feeding(root):
        refusal = _refusal(feeding, ctx)
        if refusal is None:
            return Match(root, feeding.own, feeding.shared)
    return refusal


def _refusal(feeding: scatters.Feeding, ctx: PassContext) -> NoMatch | None:
    """Why there is no kernel for a scatter with these ops; None if there is one."""
    limit = ctx.target.max_operands
    blocked = slices.check(list(feeding.own), limit, on_demand=True)
    if blocked is not None:
        return blocked
    bound = len(slices.operands_of(feeding.ops)) + 1
    if bound > limit:
        return NoMatch(Reason.TOO_MANY_OPERANDS, f"{bound} tensors, the limit is {limit}")
    analysis = analyze_ops(feeding.ops, feeding.own[-1].results)
    if not isinstance(analysis, ScatterAnalysis):
        return analysis
    plan = plan_scatter(analysis, ctx.target)
    return plan if isinstance(plan, NoMatch) else None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Puts the ops into a region, those that others use as copies; copies an argument."""
    destination = match.root.operands[len(match.root.operands) - 1]
    if _is_argument(destination):
        _copy_destination(match.root, destination)
    return form_region(own_copies(list(match.data), list(match.ops)))


def _is_argument(destination: ir.Value) -> bool:
    """Whether a tensor of static sizes is an argument of the program."""
    owner = ops.defining_op(ops.strip_views(destination, VIEWS))
    return owner is not None and owner.name == _ARGUMENT and None not in ops.shape(destination)


def _copy_destination(scatter: ir.Operation, destination: ir.Value) -> None:
    """Lets a scatter update a copy, which a group of its own makes."""
    rank = len(ops.shape(destination))
    with ir.InsertionPoint(scatter), scatter.location:
        copy = builders.generic(
            [destination],
            [builders.empty(ops.shape(destination), ops.element_type(destination))],
            [tuple(range(rank))] * 2,
            ["parallel"] * rank,
            lambda arguments: arguments[:1],
        )
    scatter.operands[len(scatter.operands) - 1] = copy.results[0]
    form_region([copy])


PASS = passes.group_pass(
    name="scatter_fusion",
    summary="Scatter with the ops that compute its updates and indices, for a kernel",
    roots=(scatters.SCATTER,),
    match=match,
    rewrite=rewrite,
    computes_on_demand=True,
)
