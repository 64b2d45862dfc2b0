"""Matches of the norm passes: the group of ops, guards, element types."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext, Reason
from mlirfuse.structured.expr import upstream_math
from mlirfuse.structured.expr.expansion import step_through
from mlirfuse.structured.expr.expressions import CASTS, loops, source, tensors, uncast
from mlirfuse.structured.expr.nodes import Apply, Element, Expr
from mlirfuse.structured.ir import analysis_cache, ops, slices
from mlirfuse.structured.ir.common_iteration_space import Space, common_space
from mlirfuse.structured.ir.legality import legal_float
from mlirfuse.structured.recognize.norms import NearNorm, Norm, find_norm, varying_loops


@dataclasses.dataclass(frozen=True, slots=True)
class Residual:
    """The add of two tensors of the result's shape that a norm reads."""

    op: ir.Operation
    parts: frozenset[ir.Value]


def residual(norm: Norm) -> Residual | None:
    """The residual add that feeds the norm, if there is one."""
    total = uncast(norm.x)
    if not isinstance(total, Apply) or total.op != "arith.addf":
        return None
    everywhere = loops(norm.x)
    if any(loops(part) != everywhere for part in total.args):
        return None
    parts = frozenset(v for part in total.args for v in tensors(source(part, whole=True)))
    return Residual(total.owner, parts) if len(parts) >= 2 else None


# What the last scalar op of a norm can be: a scale, a shift, a quotient, or a cast of one.
_LAST = frozenset({"arith.mulf", "arith.addf", "arith.divf", "arith.truncf", "arith.extf"})


@analysis_cache.per_op
def last_scalar_op(op: ir.Operation) -> str:
    """Name of the op that the scalar body yields; empty where there is none."""
    if not ops.is_generic(op):
        return ""
    scalars = ops.body(op).operations
    yielded = ops.defining_op(scalars[len(scalars) - 1].operation.operands[0])
    return "" if yielded is None else yielded.name


def may_end_norm(root: ir.Operation) -> bool:
    """Whether the op's last scalar op can be a norm's, and a square root is computed above it.

    Most ops end here, at a tenth of the cost of asking what they compute.
    """
    if not upstream_math.computes(root, upstream_math.ROOT) or len(root.results) != 1:
        return False
    return last_scalar_op(root) in _LAST and ops.is_elementwise(root)


def may_end_layer_norm(root: ir.Operation) -> bool:
    """`may_end_norm`, where a difference is computed above too: a mean is taken off."""
    return may_end_norm(root) and upstream_math.computes(root, upstream_math.DIFFERENCE)


@dataclasses.dataclass(frozen=True, slots=True)
class NormGroup:
    """What a norm pass found.

    Attributes:
      norm: the normalization.
      space: what the group's ops are written over when reshapes lie between its add and its norm;
        None when none do.
    """

    norm: Norm
    space: Space | None = None


def match_norm(root: ir.Operation, *, centered: bool, add: bool) -> Match | NoMatch | None:
    """The match of one of the norm passes at its last elementwise op.

    Args:
      root: the op whose result may be a norm.
      centered: a layer norm if true, else an RMS norm.
      add: whether the residual add belongs to the group; a norm without one is then no match.
    """
    if not may_end_norm(root):
        return None
    found = find_norm(root.results[0])
    if found is None or found.centered != centered:
        return None
    if isinstance(found, NearNorm):
        return None if add else found.refusal
    return form_match(root, found, found.stops, add=add)


def form_match(
    root: ir.Operation, norm: Norm, stops: frozenset[ir.Value], *, add: bool
) -> Match | None:
    """The match of a norm and what follows it up to the root.

    Args:
      root: the group's last op.
      norm: what was found.
      stops: the tensors at which the group ends when it has no add.
      add: whether the residual add belongs to the group.

    Returns:
      The match with its `NormGroup`; None when the add is asked for and cannot be had.
    """
    if not add:
        return Match(root, tuple(slices.backward_slice(root, stops)), NormGroup(norm))
    total = residual(norm)
    if total is None:
        return None
    between = _above_sum(norm.x) | set(total.op.results)
    group = slices.backward_slice(root, (stops - between) | total.parts)
    if total.op not in group:
        return None
    owners = (ops.defining_op(value) for value in between)
    if not any(op is not None and op.name in ops.RESHAPES for op in owners):
        return Match(root, tuple(group), NormGroup(norm))
    space = common_space(group)
    return Match(root, tuple(group), NormGroup(norm, space)) if isinstance(space, Space) else None


def _above_sum(expr: Expr) -> frozenset[ir.Value]:
    """The tensors between a norm and the sum that it reads, that sum's result among them.

    None where a transpose or a broadcast lies between: those stay outside.
    """
    between: set[ir.Value] = set()
    while True:
        step = step_through(expr) if isinstance(expr, Element) else expr
        if isinstance(expr, Element):
            between.add(expr.value)
            owner = ops.defining_op(expr.value)
            moved = isinstance(step, Element) and step.index != expr.index
            if moved and owner is not None and owner.name not in ops.RESHAPES:
                return frozenset()
        if isinstance(step, Apply) and step.op in CASTS:
            step = step.args[0]
        if not isinstance(step, Element):
            return frozenset(between)
        expr = step


def is_whole(match: Match) -> bool:
    """Whether the norm ends at the match's root: no reader of it is a later op of the same norm."""
    for reader in ops.users(match.root.results[0]):
        if may_end_norm(reader) and isinstance(find_norm(reader.results[0]), Norm):
            return False
    return True


def has_plain_affine(norm: Norm) -> bool:
    """Whether scale and shift are both there, in the element type of what is normalized."""
    scales = [g for g in norm.gamma if varying_loops(g)]
    if not scales or norm.beta is None or not varying_loops(norm.beta):
        return False
    types = {_types(part) for part in (norm.x, *scales, norm.beta)}
    return len(types) == 1


def _types(expr: Expr) -> frozenset[str]:
    """Element types under the casts: of the tensor in memory, or of those that a sum reads."""
    return frozenset(ops.element_type(value) for value in tensors(source(expr)))


_NARROW = frozenset({"f16", "bf16"})


def may_end_narrow_norm(root: ir.Operation) -> bool:
    """`may_end_norm`, for one that writes narrow tensors."""
    narrow = all(ops.element_type(value) in _NARROW for value in root.results)
    return narrow and may_end_norm(root)


def is_narrow_outside(match: Match) -> bool:
    """Whether a norm with its residual add reads narrow tensors and computes in f32."""
    sums = [op for op in match.ops if ops.is_generic(op) and not ops.is_elementwise(op)]
    if {ops.element_type(op.results[0]) for op in sums} != {"f32"}:
        return False
    total = residual(match.data.norm)
    ends = () if total is None else total.parts
    return all(ops.element_type(value) in _NARROW for value in ends)


def legal_norm(
    match: Match, ctx: PassContext, integers: frozenset[str] = frozenset()
) -> NoMatch | None:
    """The `legal` of all norm passes: element types of the tensors and of the scalars.

    Args:
      match: of a norm.
      ctx: of the pass.
      integers: further element types of tensors that are allowed.
    """
    refusal = legal_float(match, integers)
    if refusal is not None:
        return refusal
    for op in match.ops:
        for nested in ops.nested_ops(op):
            if any(ops.element_type(v) == "f64" for v in nested.results):
                return NoMatch(Reason.ELEMENT_TYPE, f"f64 inside {op.name}")
    return None
