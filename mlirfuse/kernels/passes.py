"""Kernel passes: a planned region as a match, the build of its kernels, and the replacement."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from iree.compiler import ir

from mlirfuse.builders import form_region, fuse
from mlirfuse.core import (
    CompileFailedError,
    FusionPass,
    Kind,
    Match,
    NoMatch,
    NoOptions,
    Numerics,
    PassContext,
    Reason,
)
from mlirfuse.kernels import alignment, extern_dispatch, triton_compiler
from mlirfuse.kernels.plan import Kernel, Plan, Program
from mlirfuse.structured.ir import ops
from mlirfuse.support.contained import LOG, described, trace
from mlirfuse.targets.base import Target

Supports = Callable[[ir.Operation, Target], Plan | NoMatch | None]
"""Plans a kernel for a region and a target; None for another kind of region."""


Profitable = Callable[[Plan, Target], NoMatch | None]
"""Refuses a plan that would not be profitable."""


@dataclasses.dataclass(frozen=True, slots=True)
class SplitOptions:
    """Options of passes whose kernels may be split.

    Attributes:
      several_kernels: whether a further kernel may combine the parts of a split sum, or copy an
        operand; without it there is one kernel for a group, which may be slower.
    """

    several_kernels: bool = True


def kernel_pass(
    name: str,
    summary: str,
    supports: Supports,
    source: str,
    profitable: Profitable = lambda plan, target: None,
    supports_alone: Supports | None = None,
    root: str = ops.REGION,
) -> FusionPass:
    """A pass that replaces regions by kernels, whichever pass formed them.

    Args:
      name: as of `FusionPass`.
      summary: as of `FusionPass`.
      supports: plans the kernels of a region.
      source: as of `FusionPass`.
      profitable: refuses a plan.
      supports_alone: the same with one kernel, for a pass that has `SplitOptions`.
      root: name of the ops that kernels replace, where they are no regions.
    """
    return FusionPass(
        name=name,
        summary=summary,
        roots=(root,),
        inner_first=root != ops.REGION,
        match=functools.partial(_match, supports=supports, supports_alone=supports_alone),
        options=NoOptions if supports_alone is None else SplitOptions,
        profitable=lambda match, ctx: profitable(match.data, ctx.target),
        prefetch=prefetch,
        prepare=prepare,
        rewrite=lambda match, ctx: replace(match.root, match.data, ctx),
        numerics=Numerics.REASSOCIATING,
        kind=Kind.REWRITE,
        feature="kernels",
        targets=frozenset({"cuda", "rocm"}),
        source=source,
    )


def group_pass(
    name: str,
    summary: str,
    roots: tuple[str, ...],
    match: Callable[[ir.Operation, PassContext], Match | NoMatch | None],
    **others: Any,
) -> FusionPass:
    """A pass that groups ops, also one alone, for a kernel that a pass of `kernel_pass` builds.

    Args:
      name: as of `FusionPass`.
      summary: as of `FusionPass`.
      roots: as of `FusionPass`.
      match: as of `FusionPass`.
      **others: further attributes of it, in place of those that such passes have.
    """
    common: dict[str, Any] = {
        "prepare": needs_provider,
        "rewrite": fuse,
        "kind": Kind.REWRITE,
        "forms_group": True,
        "takes_single_op": True,
        "feature": "kernels",
        "targets": frozenset({"cuda", "rocm"}),
        "source": "mlirfuse",
    }
    return FusionPass(name=name, summary=summary, roots=roots, match=match, **{**common, **others})


def _match(
    region: ir.Operation, ctx: PassContext, supports: Supports, supports_alone: Supports | None
) -> Match | NoMatch | None:
    """The match of a kernel pass at a region, or at another op that a kernel replaces.

    On a target for which no kernels are built nothing is a match, and nothing is recorded; neither
    is a region whose results have no users.
    """
    if not triton_compiler.supports(ctx.target) or not region.results:
        return None
    if supports_alone is not None and not ctx.options.several_kernels:
        supports = supports_alone
    try:
        plan = supports(region, ctx.target)
    except Exception as error:
        return _refusal(error, ctx)
    if not isinstance(plan, Plan):
        return plan
    results = list(region.results)
    if region.name != ops.REGION:
        results = [value for value in results if ops.users(value)]
    elif len(set(region.operands)) > max(1, len(plan.sizes)):
        return NoMatch(Reason.DYNAMIC_SHAPE, "the results have more than one dynamic size")
    aligned = dispatchable(plan, results, ctx)
    if isinstance(aligned, NoMatch) and plan.instead is not None:
        aligned = dispatchable(plan.instead, results, ctx)
    return aligned if isinstance(aligned, NoMatch) else Match(region, (region,), aligned)


def dispatchable(plan: Plan, results: Sequence[ir.Value], ctx: PassContext) -> Plan | NoMatch:
    """The plan with the alignments of its buffers; a refusal where a kernel has too many.

    Args:
      plan: kernels.
      results: values that they compute.
      ctx: the target.
    """
    bound = max(_num_bindings(step, len(results)) for step in plan.kernels())
    if bound > ctx.target.max_operands:
        limit = ctx.target.max_operands
        return NoMatch(
            Reason.TOO_MANY_OPERANDS, f"{bound} operands and results, the limit is {limit}"
        )
    if plan.instead is None:
        return alignment.with_alignments(plan, list(results))
    instead = dispatchable(plan.instead, results, ctx)
    plan = dataclasses.replace(plan, instead=None if isinstance(instead, NoMatch) else instead)
    return alignment.with_alignments(plan, list(results))


def prefetch(matches: Sequence[Match], ctx: PassContext) -> None:
    """Begins to build the kernels of matches, several at a time."""
    if triton_compiler.missing() is None:
        for match in matches:
            programs = _programs(match.data, ctx)
            triton_compiler.prefetch(programs, ctx.target.arch)


def _num_bindings(step: Plan, results: int) -> int:
    """The tensors of one kernel, of which the last one has so many results."""
    read = len(step.operands) + (0 if step.before is None else len(step.before.scratch))
    return read + (len(step.scratch) or results) + len(step.workspaces)


def needs_provider(match: Match, ctx: PassContext) -> NoMatch | None:
    """Leaves ops that are grouped for a kernel to other passes where none can be built."""
    return triton_compiler.missing() if ctx.target.cpu is None else None


def prepare(match: Match, ctx: PassContext) -> NoMatch | None:
    """Builds the kernel; a kernel that cannot be built leaves the region unchanged."""
    refusal = triton_compiler.missing()
    if refusal is not None:
        return refusal
    try:
        _, kernels = _built(match.data, ctx)
    except CompileFailedError as error:
        return NoMatch(Reason.FELL_BACK, str(error))
    except Exception as error:
        return _refusal(error, ctx)
    limit = ctx.target.shared_memory
    used = max(kernel.workgroup_memory for kernel in kernels)
    if limit is not None and used > limit:
        return NoMatch(
            Reason.TARGET_UNSUPPORTED, f"{used} bytes of shared memory, the limit is {limit}"
        )
    return None


def _refusal(error: Exception, ctx: PassContext) -> NoMatch:
    """The refusal of a region whose kernel our own code cannot plan or build.

    Raises:
      Exception: `error`, where it is not to be contained.
    """
    if not ctx.contains:
        raise error
    trace(error)
    return NoMatch(Reason.FELL_BACK, described(error))


def _built(plan: Plan, ctx: PassContext) -> tuple[Plan, list[Kernel]]:
    """The kernels of a plan, or of the one in its place where Triton refuses a kernel, and which.

    Raises:
      CompileFailedError: Triton refused a kernel, and there is no plan in its place.
    """
    programs, arch = _programs(plan, ctx), ctx.target.arch
    triton_compiler.prefetch(programs, arch)
    try:
        return plan, [triton_compiler.build(program, arch) for program in programs]
    except CompileFailedError as error:
        if plan.instead is None:
            raise
        LOG.info("%s; the portable kernel in its place", error)
        return _built(plan.instead, ctx)


def _programs(plan: Plan, ctx: PassContext) -> list[Program]:
    """The programs of a plan's kernels, with the target's options."""
    programs = (step.program for step in plan.kernels())
    if ctx.target.contracts:
        return list(programs)
    return [dataclasses.replace(program, contracts=False) for program in programs]


def replace(region: ir.Operation, plan: Plan, ctx: PassContext) -> ir.Operation:
    """Puts the kernel of a plan, which `prepare` has built, in the place of a region or an op."""
    if region.name != ops.REGION:
        region = form_region([region])
    return extern_dispatch.replace(region, *_built(plan, ctx))
