"""Why the tensors between the kernels of a program exist: the refusal or property that decided.

The order of the questions: did the user forbid it; is it impossible; did a pass consider ops of
both and refuse; are the two kinds of kernel never one; did a pass perhaps consider ops of both;
which property of the two kernels keeps IREE from it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

from mlirfuse.backend.considered import Candidates, Refusals
from mlirfuse.backend.exchanges import LOOP, Exchange
from mlirfuse.backend.final_program import FinalProgram
from mlirfuse.backend.tensor_accesses import COPIES
from mlirfuse.boundaries import Boundary, BoundaryReason
from mlirfuse.core import Decision, Reason, Report
from mlirfuse.final_kernels import IREE, FinalKernel
from mlirfuse.patterns import PASSES
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


@dataclasses.dataclass(frozen=True, slots=True)
class _Pair:
    """Two kernels that exchange a tensor.

    Attributes:
      exchange: the tensor.
      source: the kernel that writes it.
      target: the kernel that reads it.
      roles: roles of the two kernels.
      moves_axes: whether the second kernel reads and writes tensors in different orders of axes.
      other_path: whether a third kernel is after the first and before the second one.
      refusals: the refusals of passes about the two.
    """

    exchange: Exchange
    source: FinalKernel
    target: FinalKernel
    roles: tuple[str, str]
    moves_axes: bool
    other_path: bool
    refusals: Refusals


def record(report: Report, program: FinalProgram) -> None:
    """Writes the kernels of a program and the boundaries between them into its report."""
    found = of_program(program, report.decisions)
    report.kernels, report.boundaries = list(program.kernels), found
    report.detached = program.detached


def of_program(program: FinalProgram, decisions: Sequence[Decision]) -> list[Boundary]:
    """The boundaries of a program, in the order of the kernels that read.

    Args:
      program: the kernels and the tensors between them.
      decisions: the decisions of the engine that grouped it.
    """
    candidates = Candidates(program.kernels, decisions)
    before = _before(program)
    found = []
    for exchange in sorted(program.exchanges, key=lambda e: (e.target, e.source)):
        source, target = exchange.source, exchange.target
        pair = _Pair(
            exchange,
            program.kernels[source],
            program.kernels[target],
            (program.roles[source], program.roles[target]),
            target in program.moving_axes,
            any(source in before[e.source] for e in program.exchanges if e.target == target),
            candidates.of(source, target),
        )
        reason, detail = _why(pair)
        found.append(
            Boundary(
                source=source,
                target=target,
                source_name=pair.source.name,
                target_name=pair.target.name,
                shape=exchange.shape,
                dtype=exchange.dtype,
                bytes=exchange.bytes,
                reason=reason,
                detail=detail,
                source_ops=tuple(dict.fromkeys(pair.source.ops)),
                target_ops=tuple(dict.fromkeys(pair.target.ops)),
            )
        )
    return found


def _before(program: FinalProgram) -> list[set[int]]:
    """For each kernel those whose results it needs, directly or through others."""
    found: list[set[int]] = [set() for _ in program.kernels]
    for exchange in sorted(program.exchanges, key=lambda e: e.target):
        if exchange.source < exchange.target:  # a loop has later ones too
            found[exchange.target] |= {exchange.source, *found[exchange.source]}
    return found


_ALONG_ROWS = frozenset(
    f"{op}_{provider}_kernel" for op in ("scan", "sort") for provider in ("triton", "vector")
)
"""Kernels of ours for ops that need all elements of a row. Without them IREE has a kernel of its
own for the op: nothing is fused if the code is left to IREE."""


def _why(pair: _Pair) -> Why:
    """The first reason that holds."""
    certain = pair.refusals.certain
    for decision in certain:
        if decision.reason in _ASKED:
            return _refusal([decision])
    if (impossible := _impossible(pair)) is not None:
        return impossible
    if certain:
        return _code_of_one_op(pair) or _refusal(certain)
    if (kind := _of_kinds(pair)) is not None:
        return kind
    if (spaces := _of_spaces(pair)) is not None:
        return spaces
    if refused := (*pair.refusals.patterns, *pair.refusals.possible):
        return _refusal(refused)
    return _structural(pair)


def _refusal(decisions: Sequence[Decision]) -> Why:
    """The reason of the refusal about the fewest ops, of a pass with a pattern if there is one."""
    decision = min(decisions, key=lambda d: (_grows(d.pass_name), len(d.ops)))
    assert decision.reason is not None
    detail = f"{decision.pass_name}: {decision.detail}" if decision.detail else decision.pass_name
    return decision.reason, detail


def _grows(name: str) -> bool:
    """Whether a pass grows groups by general rules, and has no pattern of its own."""
    known = PASSES.get(name)
    return known is not None and known.rules is not None


def _impossible(pair: _Pair) -> Why | None:
    """A property of the two kernels that no pass overcomes."""
    if LOOP in pair.exchange.through:
        return BoundaryReason.LOOP, ""
    if pair.other_path:
        return BoundaryReason.OTHER_PATH, ""
    kernels = zip((pair.source, pair.target), pair.roles, strict=True)
    if any(role == roles.OPAQUE and kernel.code == IREE for kernel, role in kernels):
        return BoundaryReason.OWN_KERNEL, ""
    return None


def _of_kinds(pair: _Pair) -> Why | None:
    """A property of the two kinds of kernel, which only a pass for the pair overcomes."""
    first, second = pair.roles
    if pair.roles == (roles.CONTRACTION, roles.CONTRACTION):
        return BoundaryReason.TWO_CONTRACTIONS, ""
    if roles.MOVEMENT in pair.roles:
        mover = pair.source if first == roles.MOVEMENT else pair.target
        return BoundaryReason.DATA_MOVEMENT, _movement(mover)
    if second == roles.CONTRACTION:
        return BoundaryReason.CONTRACTION_OPERAND, ""
    if first == roles.CONTRACTION and (
        second == roles.REDUCTION or pair.target.code in _ALONG_ROWS
    ):
        return BoundaryReason.ROWS_OF_TILES, ""
    return None


def _movement(kernel: FinalKernel) -> str:
    """The ops of a kernel that IREE calls a copy, whatever it copies; else the kernel's name."""
    names = dict.fromkeys(kernel.op_names)
    return " + ".join(names) if names and names.keys() <= COPIES else kernel.name


def _of_spaces(pair: _Pair) -> Why | None:
    """A difference of the iteration spaces, across which neither IREE nor a pass fuses."""
    exchange, one, other = pair.exchange, pair.source, pair.target
    first, second = pair.roles
    if any(name in _PARTS for name in exchange.through):
        return BoundaryReason.COPIED_PART, ""
    if second == roles.GATHER:
        return BoundaryReason.COMPUTED_INDICES, ""
    if any(name in _RESHAPES for name in exchange.through):
        if _cuts_differently(exchange, other):
            return BoundaryReason.RESHAPED, ""
        if first != roles.REDUCTION and pair.moves_axes:
            return BoundaryReason.RESHAPED, "the second kernel has its axes in another order"
    if first != roles.REDUCTION and second != roles.OPAQUE and _repeats(exchange, other):
        return BoundaryReason.REPEATED_ELEMENTS, ""
    if second == roles.ELEMENTWISE and not (_repeats(exchange, other) or _same_space(one, other)):
        return BoundaryReason.DIFFERENT_SPACES, ""
    return None


def _structural(pair: _Pair) -> Why:
    """The property of the two kernels that keeps IREE from one dispatch."""
    exchange, one, other = pair.exchange, pair.source, pair.target
    if pair.roles[0] == roles.REDUCTION and _repeats(exchange, other):
        return BoundaryReason.REDUCTION_FIRST, ""
    if pair.roles == (roles.REDUCTION, roles.REDUCTION) and _is_reduced(exchange, one):
        return BoundaryReason.NEXT_REDUCTION, ""
    if exchange.users > 1:
        return BoundaryReason.SEVERAL_USERS, f"{exchange.users} kernels"
    kernels = [*zip((one, other), pair.roles, strict=True)]
    for kernel, role in kernels:
        # IREE's code for an op that it calls opaque takes no other ops either.
        if kernel.pass_name not in (None, kernel.code) or _is_our_opaque(kernel, role):
            return BoundaryReason.GROUP_ENDS, kernel.pass_name or kernel.code
    if (ours := next((k for k, _ in kernels if k.code != IREE), None)) is not None:
        return BoundaryReason.KERNEL_CODE, ours.code
    return BoundaryReason.NOT_TAKEN_TOGETHER, ""


def _code_of_one_op(pair: _Pair) -> Why | None:
    """A kernel of ours for an op that passes with general rules left alone.

    They refused the two, which IREE may fuse all the same, if it generates the code.
    """
    if pair.exchange.users > 1 or not all(_grows(d.pass_name) for d in pair.refusals.certain):
        return None
    if _of_kinds(pair) is not None or _of_spaces(pair) is not None:
        return None
    for kernel, role in zip((pair.source, pair.target), pair.roles, strict=True):
        if kernel.code != IREE and kernel.pass_name == kernel.code:
            return None if role == roles.OPAQUE else (BoundaryReason.KERNEL_CODE, kernel.code)
    return None


def _is_our_opaque(kernel: FinalKernel, role: str) -> bool:
    """Whether a kernel of ours computes an op for which IREE has a code generator of its own."""
    return kernel.code != IREE and role == roles.OPAQUE


def _cuts_differently(exchange: Exchange, reader: FinalKernel) -> bool:
    """Whether no tensor that the kernel reads splits or collapses dimensions of the one written."""
    same = [o.shape for o in reader.operands if not o.is_result and o.bytes == exchange.bytes]
    return not any(nests(exchange.shape, shape) for shape in same)


def _repeats(exchange: Exchange, reader: FinalKernel) -> bool:
    """Whether the kernel has fewer elements of the tensor than elements that it computes."""
    size = _count(exchange.shape)
    written = [_count(o.shape) for o in reader.operands if o.is_result]
    return size is not None and any(n is not None and n > size for n in written)


def _is_reduced(exchange: Exchange, writer: FinalKernel) -> bool:
    """Whether the tensor is the result of a reduction that does not keep the reduced elements."""
    size = _count(exchange.shape)
    read = [_count(o.shape) for o in writer.operands if not o.is_result]
    return size is not None and any(n is not None and n > size for n in read)


def _same_space(one: FinalKernel, other: FinalKernel) -> bool:
    """Whether the two kernels write tensors of one space, but for reshapes."""
    written = ([o.shape for o in kernel.operands if o.is_result] for kernel in (one, other))
    return any(_count(a) == _count(b) and nests(a, b) for a, b in itertools.product(*written))


def _count(shape: Sequence[int | None]) -> int | None:
    """The number of elements; None where a size is dynamic."""
    sizes = [size for size in shape if size is not None]
    return math.prod(sizes) if len(sizes) == len(shape) else None
