"""Group a contraction with reductions of its rows, where a tile of its kernel has whole rows.

    %c = linalg.matmul ins(%a, %b)                     tensor<MxNxf32>, N at most 256
    %m = linalg.generic {maximumf} ins(%c)             tensor<Mxf32>
    ...                                                exp, sum, quotient
  becomes
    %y = flow.dispatch.region { all of it }

Root: a reduction of the rows of a contraction, one of a softmax, of a norm, or a sum. The group is
that of `axis_reduction_fusion` with the contraction and its epilogue, which nothing else reads, and
the elementwise ops that compute other operands of the epilogue, before the patterns of norms take
the reductions alone. It is formed where the kernel's plan succeeds, and where its modelled time is
less than that of two kernels, which exchange the product in memory. Static N and K; element types
of `matmul_triton_kernel`. Numerics: exact.
Source: mlirfuse; epilogues with reductions are those of CUTLASS (`examples/35_gemm_softmax`).
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.matmul import analysis as matmul_analysis
from mlirfuse.kernels.matmul.analysis import MatmulAnalysis
from mlirfuse.kernels.matmul.cost_model import BLOCK_LATENCY, copy_time, time
from mlirfuse.kernels.matmul.family import MATMUL
from mlirfuse.kernels.matmul.heuristics import dot_config
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.reduction.analysis import ReductionAnalysis
from mlirfuse.kernels.reduction.grouping import Growth, is_root, takes
from mlirfuse.structured.ir import fusable_neighbors, ops, slices
from mlirfuse.targets.base import Target


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Grows the group of a reduction up to the contraction."""
    if not triton_compiler.supports(ctx.target) or not any(map(ops.users, root.results)):
        return None
    if ops.in_region(root) or not reads_product(root):
        return None
    growth = Growth(root, ctx.target.max_operands)
    if not isinstance(growth.analysis(), ReductionAnalysis):
        return None
    growth.add_producers()
    growth.add_neighbors()
    members = _with_contraction(growth.members)
    if members is None:
        return None
    bound = len(slices.operands_of(members)) + len(slices.results_of(members))
    if bound > ctx.target.max_operands or slices.cycle(members) is not None:
        return None
    found = matmul_analysis.analyze_ops(members, slices.results_of(members))
    if isinstance(found, NoMatch):
        return found
    planned = MATMUL.plan_analysis(found, ctx.target, None)
    if not isinstance(planned, Plan):
        return planned
    if not _gains(found, ctx.target):
        return NoMatch(Reason.NOT_PROFITABLE, "tiles of whole rows take longer than they save")
    return Match(root, tuple(members))


def reads_product(root: ir.Operation) -> bool:
    """Whether an op may read the rows of a contraction, of few columns."""
    seen, work = {root}, [root]
    while work and len(seen) <= fusable_neighbors.MAX_GROUP_OPS:
        for value in ops.inputs(work.pop()):
            op = ops.defining_op(value)
            if op is None or op in seen or op.block != root.block:
                continue
            if ops.is_contraction(op) and matmul_analysis.can_take(op):
                return matmul_analysis.has_short_rows(op)
            if takes(op, root.block):
                seen.add(op)
                work.append(op)
    return False


def _with_contraction(members: list[ir.Operation]) -> list[ir.Operation] | None:
    """A group with the ops that compute its operands alone, up to one contraction, and that."""
    found, contraction = set(members), None
    work = [*members]
    while work:
        for value in work.pop().operands:
            op = ops.defining_op(value)
            if op is None or op in found or op.block != members[0].block:
                continue
            if any(user not in found for result in op.results for user in ops.users(result)):
                continue
            if ops.is_contraction(op):
                if contraction is not None:
                    return None
                contraction = op
                found.add(op)
            elif ops.is_elementwise(op) and (
                fusable_neighbors.is_among_epilogues(op) or fusable_neighbors.feeds_epilogue(op)
            ):
                found.add(op)
                work.append(op)
    return slices.in_order(found) if contraction is not None else None


def _gains(found: MatmulAnalysis, target: Target) -> bool:
    """Whether one kernel takes less time than two, and the product to and from memory.

    None of those that split a long K gained: a softmax of 2048x4096x64 f16 took 14.2 us in one
    kernel on an H200, 11.1 in three. Where warps split K, a CTA waits for fewer blocks of it: a
    layer norm of 16x4096x16 bf16 took 9.3 and 6.3 us.
    """
    whole = matmul_analysis.problem_of(found)
    alone = dataclasses.replace(whole, whole_rows=False)
    configs = [(each, dot_config(each, target)) for each in (whole, alone)]
    one, two = (time(config, each, target) for each, config in configs)
    product = found.contraction.results[0]
    saved = copy_time(ops.num_elements(product), ops.element_bits(product), target)
    blocks, fewer = (-(-whole.k // config.block_k) for _, config in configs)
    if configs[1][1].split_k > 1:
        one += (blocks - fewer) * BLOCK_LATENCY
    return configs[1][1].k_splits == 1 and one < two + saved


PASS = passes.group_pass(
    name="contraction_row_fusion",
    summary="Reductions of the rows of a contraction with it, for a kernel",
    roots=("linalg.generic",),
    where=is_root,
    match=match,
    for_kernel=True,
)
