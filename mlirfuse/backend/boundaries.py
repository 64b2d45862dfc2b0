"""Why the tensors between the kernels of a program exist: the refusal or the property that decided.

The order of the questions: did the user forbid it; is it impossible for these two kinds of kernel;
did a pass consider ops of both and refuse; which property of the two kernels keeps IREE from it.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence

from mlirfuse.backend.exchanges import LOOP, Exchange
from mlirfuse.backend.final_program import FinalProgram
from mlirfuse.boundaries import Boundary, BoundaryReason
from mlirfuse.core import Decision, Kind, Reason, Report
from mlirfuse.final_kernels import IREE, FinalKernel
from mlirfuse.structured.ir import kernel_roles as roles
from mlirfuse.structured.ir.fusable_neighbors import nests

Why = tuple[Reason | BoundaryReason, str]
"""A reason and its detail."""

_ASKED = frozenset(
    {
        *(Reason.NEVER_FUSE, Reason.SKIPPED_OP_KIND, Reason.DISABLED, Reason.FUSION_LIMIT),
        *(Reason.MUST_FUSE, Reason.FELL_BACK),
    }
)
"""Refusals that decide alone: the user, or a failure of code generation."""

_RESHAPES = ("flow.tensor.reshape", "tensor.reshape", "tensor.expand_shape")
_PARTS = ("flow.tensor.slice", "flow.tensor.update", "tensor.insert_slice", "tensor.extract_slice")


def record(report: Report, program: FinalProgram) -> None:
    """Writes the kernels of a program and the boundaries between them into its report."""
    found = of_program(program, report.decisions)
    report.kernels, report.boundaries = list(program.kernels), found


def of_program(program: FinalProgram, decisions: Sequence[Decision]) -> list[Boundary]:
    """The boundaries of a program, in the order of the kernels that read.

    Args:
      program: the kernels and the tensors between them.
      decisions: the decisions of the engine that grouped it.
    """
    refused = [d for d in decisions if not d.taken and d.reason and d.kind is not Kind.SIBLING]
    found = []
    for exchange in sorted(program.exchanges, key=lambda e: (e.target, e.source)):
        one, other = program.kernels[exchange.source], program.kernels[exchange.target]
        both = [d for d in refused if _considered(d, one, other)]
        kinds = program.roles[exchange.source], program.roles[exchange.target]
        reason, detail = _why(exchange, one, other, kinds, both)
        found.append(
            Boundary(
                source=exchange.source,
                target=exchange.target,
                source_name=one.name,
                target_name=other.name,
                shape=exchange.shape,
                dtype=exchange.dtype,
                bytes=exchange.bytes,
                reason=reason,
                detail=detail,
                source_ops=tuple(dict.fromkeys(one.ops)),
                target_ops=tuple(dict.fromkeys(other.ops)),
            )
        )
    return found


def _why(
    exchange: Exchange,
    one: FinalKernel,
    other: FinalKernel,
    kinds: tuple[str, str],
    both: Sequence[Decision],
) -> Why:
    """The first reason that holds."""
    for decision in both:
        if decision.reason in _ASKED:
            return _refusal(decision)
    if (impossible := _impossible(exchange, kinds)) is not None:
        return impossible
    if both:
        return _refusal(min(both, key=lambda d: len(d.ops)))
    return _structural(exchange, one, other, kinds)


def _refusal(decision: Decision) -> Why:
    assert decision.reason is not None
    detail = f"{decision.pass_name}: {decision.detail}" if decision.detail else decision.pass_name
    return decision.reason, detail


def _impossible(exchange: Exchange, kinds: tuple[str, str]) -> Why | None:
    """A property of the two kinds of kernel that no pass overcomes."""
    if LOOP in exchange.through:
        return BoundaryReason.LOOP, ""
    if kinds == (roles.CONTRACTION, roles.CONTRACTION):
        return BoundaryReason.TWO_CONTRACTIONS, ""
    if roles.OPAQUE in kinds:
        return BoundaryReason.OWN_KERNEL, ""
    return None


def _structural(
    exchange: Exchange, one: FinalKernel, other: FinalKernel, kinds: tuple[str, str]
) -> Why:
    """The property of the two kernels that keeps IREE from one dispatch."""
    first, second = kinds
    if roles.MOVEMENT in kinds:
        mover = one if first == roles.MOVEMENT else other
        return BoundaryReason.DATA_MOVEMENT, mover.name
    if second == roles.CONTRACTION:
        return BoundaryReason.CONTRACTION_OPERAND, ""
    if (first, second) == (roles.CONTRACTION, roles.REDUCTION):
        return BoundaryReason.ROWS_OF_TILES, ""
    if any(name in _PARTS for name in exchange.through):
        return BoundaryReason.COPIED_PART, ""
    if second == roles.GATHER:
        return BoundaryReason.COMPUTED_INDICES, ""
    if exchange.users > 1:
        return BoundaryReason.SEVERAL_USERS, f"{exchange.users} kernels"
    if any(name in _RESHAPES for name in exchange.through) and _cuts_differently(exchange, other):
        return BoundaryReason.RESHAPED, ""
    if (group := next(filter(_is_group, (one, other)), None)) is not None:
        return BoundaryReason.GROUP_ENDS, group.pass_name or ""
    if {one.code, other.code} != {IREE}:
        ours = one if one.code != IREE else other
        return BoundaryReason.KERNEL_CODE, ours.code
    if first == roles.REDUCTION and second == roles.REDUCTION:
        return BoundaryReason.NEXT_REDUCTION, ""
    if first == roles.REDUCTION:
        return BoundaryReason.REDUCTION_FIRST, ""
    if not _same_space(one, other):
        return BoundaryReason.DIFFERENT_SPACES, ""
    return BoundaryReason.NOT_TAKEN_TOGETHER, ""


def _cuts_differently(exchange: Exchange, reader: FinalKernel) -> bool:
    """Whether no tensor that the kernel reads splits or collapses dimensions of the one written."""
    same = [o.shape for o in reader.operands if not o.is_result and o.bytes == exchange.bytes]
    return not any(nests(exchange.shape, shape) for shape in same)


def _is_group(kernel: FinalKernel) -> bool:
    """Whether a pass formed the kernel of several ops, and did not only give it its code."""
    return kernel.pass_name not in (None, kernel.code)


def _same_space(one: FinalKernel, other: FinalKernel) -> bool:
    """Whether the two kernels write tensors of one shape."""
    written = [{o.shape for o in kernel.operands if o.is_result} for kernel in (one, other)]
    return not written[0].isdisjoint(written[1])


def _considered(decision: Decision, one: FinalKernel, other: FinalKernel) -> bool:
    """Whether the candidate has ops of both kernels, as far as source lines tell them apart."""
    if len(decision.ops) < 2 or "-" in decision.ops:
        return False
    places = set(decision.ops)
    if set(one.ops).isdisjoint(other.ops):
        return not places.isdisjoint(one.ops) and not places.isdisjoint(other.ops)
    candidate = _named(decision.op_names, decision.ops)
    first, second = _named(one.op_names, one.ops), _named(other.op_names, other.ops)
    inside_one = candidate <= first or candidate <= second
    return candidate <= first + second and not inside_one


def _named(names: Iterable[str], places: Iterable[str]) -> collections.Counter[tuple[str, str]]:
    return collections.Counter(zip(names, places, strict=False))
