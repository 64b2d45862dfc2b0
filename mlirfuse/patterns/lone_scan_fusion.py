"""Group a scan with its elementwise neighbors and flips, for a kernel.

    %f = linalg.generic { tensor.extract %x[i, N - 1 - j] }          tensor<MxNxT>
    %s = iree_linalg_ext.scan dimension(1) {addf} ins(%f)
    %y = linalg.generic { tensor.extract %s[i, N - 1 - j] }
  becomes
    %y = flow.dispatch.region { all of it }

Root: the scan, alone or with neighbors: elementwise producers that only the group uses, also those
that a flip reads, and the elementwise ops after it, each of them the only user of the one before,
as far as one kernel computes all of them. `scan_fusion` forms groups for IREE's code generation,
which buffers whole rows, has no scan alone and no flips. On CPUs the kernel is
`scan_vector_kernel`, elsewhere `scan_triton_kernel`: nothing is grouped where Triton is missing.
Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.scan.analysis import SCAN, ScanAnalysis, analyze_ops
from mlirfuse.kernels.scan.family import plan_scan
from mlirfuse.kernels.vector.scans import plan_analysis
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import gathers


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a scan and the longest chain after it for which there is a kernel."""
    on_cpu = ctx.target.cpu is not None
    if (not on_cpu and not triton_compiler.supports(ctx.target)) or ops.in_region(root):
        return None
    chain = _chain(root)
    while True:
        near = _with_producers([root, *chain])
        for group in (gathers.with_sources(near, _with_producers), near):
            refusal = _refusal(group, ctx)
            if refusal is None:
                return Match(root, tuple(group))
        if not chain:
            break
        chain.pop()
    return Match(root, (root,)) if _refusal([root], ctx) is None else refusal


def _with_producers(group: list[ir.Operation]) -> list[ir.Operation]:
    """The ops, in order, with the elementwise ops and flips that only they use."""
    feeding = gathers.feeding(group, set(group), takes_epilogues=False)
    return slices.in_order([*feeding, *group])


def _chain(root: ir.Operation) -> list[ir.Operation]:
    """The elementwise ops after a scan, each the only user of the one before."""
    found: list[ir.Operation] = []
    value = root.results[0]
    while len(users := {ops.ancestor_in(root.block, user) for user in ops.users(value)}) == 1:
        (user,) = users
        if user is None or not ops.is_elementwise(user) or len(user.results) != 1:
            break
        if ops.in_region(user) or ops.num_elements(user.results[0]) != ops.num_elements(
            root.results[0]
        ):
            break
        found.append(user)
        value = user.results[0]
    return found


def _refusal(group: list[ir.Operation], ctx: PassContext) -> NoMatch | None:
    """Why there is no kernel for ops as a group; None if there is one."""
    blocked = slices.check(group, ctx.target.max_operands, on_demand=True)
    if blocked is not None:
        return blocked
    analysis = analyze_ops(group, slices.results_of(group))
    if not isinstance(analysis, ScanAnalysis):
        return analysis
    device = ctx.target.cpu
    plan = plan_scan(analysis, ctx.target) if device is None else plan_analysis(analysis, device)
    return plan if isinstance(plan, NoMatch) else None


PASS = passes.group_pass(
    name="lone_scan_fusion",
    summary="Scan, alone or with neighbors and flips, for a kernel",
    roots=(SCAN,),
    match=match,
    computes_on_demand=True,
    targets=frozenset({"cpu", "cuda", "rocm"}),
)
