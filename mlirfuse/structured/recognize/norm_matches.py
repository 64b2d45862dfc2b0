"""Matches of the norm passes: their groups of ops, filters and guards."""

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
    """The add of two tensors of the result's shape that feeds a norm.

    Attributes:
      op: the add.
      parts: the two tensors.
    """

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


# Last scalar ops of a norm: a scale, a shift, a quotient, or a cast.
_LAST = frozenset({"arith.mulf", "arith.addf", "arith.divf", "arith.truncf", "arith.extf"})


@analysis_cache.per_op
def last_scalar_op(op: ir.Operation) -> str:
    """Name of the scalar op whose result the body yields; empty without one."""
    if not ops.is_generic(op) or not op.results:
        return ""
    scalars = ops.body(op).operations
    yielded = ops.defining_op(scalars[len(scalars) - 1].operation.operands[0])
    return "" if yielded is None else yielded.name


def may_end_norm(root: ir.Operation) -> bool:
    """Whether the op may be the last one of a norm: a fast filter before `find_norm`.

    Its last scalar op fits, and a square root is computed upstream. The filter rejects most ops at
    a tenth of the cost of recognition.
    """
    if not upstream_math.computes(root, upstream_math.ROOT) or len(root.results) != 1:
        return False
    return last_scalar_op(root) in _LAST and ops.is_elementwise(root)


def may_end_layer_norm(root: ir.Operation) -> bool:
    """`may_end_norm` with a subtraction upstream, as that of a mean."""
    return may_end_norm(root) and upstream_math.computes(root, upstream_math.DIFFERENCE)


@dataclasses.dataclass(frozen=True, slots=True)
class NormGroup:
    """The data of a norm pass's match.

    Attributes:
      norm: the normalization.
      space: common iteration space of the group, if reshapes separate its add and its norm; else
        None.
    """

    norm: Norm
    space: Space | None = None


def match_norm(root: ir.Operation, *, centered: bool, add: bool) -> Match | NoMatch | None:
    """The match of one of the norm passes at its last elementwise op.

    Args:
      root: the op whose result may be a norm.
      centered: whether the pass takes layer norms or RMS norms.
      add: whether the group includes the residual add; a norm without one is then no match.
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
) -> Match | NoMatch | None:
    """The match of a norm and its epilogue up to the root.

    Args:
      root: the group's last op.
      norm: the norm.
      stops: the tensors at which the group ends without an add.
      add: whether the group includes the residual add.

    Returns:
      The match with its `NormGroup`; a refusal where IREE would not compile the group; None when
      it cannot include the required add.
    """
    if not add:
        return _alone(root, norm, slices.backward_slice(root, stops))
    total = residual(norm)
    if total is None:
        return None
    between = _between_add_and_norm(norm.x) | set(total.op.results)
    group = slices.backward_slice(root, (stops - between) | total.parts)
    if total.op not in group:
        return None
    owners = (ops.defining_op(value) for value in between)
    if not any(op is not None and op.name in ops.RESHAPES for op in owners):
        return None if _splits_and_moves(group) else Match(root, tuple(group), NormGroup(norm))
    space = common_space(group)
    return Match(root, tuple(group), NormGroup(norm, space)) if isinstance(space, Space) else None


def _alone(root: ir.Operation, norm: Norm, group: list[ir.Operation]) -> Match | NoMatch:
    """The match of a norm without an add."""
    if _splits_and_moves(group):
        return NoMatch(Reason.INDEXING_MAP, "the norm's rows are split by a reshape, and moved")
    return Match(root, tuple(group), NormGroup(norm))


def _splits_and_moves(group: list[ir.Operation]) -> bool:
    """Whether a group reshapes rows and moves them, as those of an image into windows.

    They are in no common iteration space: IREE does not distribute such a group over workgroups,
    and refuses it.
    """
    return any(op.name in ops.RESHAPES for op in group) and any(map(_permutes, group))


def _permutes(op: ir.Operation) -> bool:
    """Whether an op reads an operand, or writes its result, in another order of its loops."""
    if not ops.is_generic(op):
        return False
    known = ([d for d in m if d is not None] for m in ops.indexing_maps(op) if m is not None)
    return any(dims != sorted(dims) for dims in known)


def _between_add_and_norm(expr: Expr) -> frozenset[ir.Value]:
    """The tensors between a residual add and the norm that reads it, with the add's result.

    Empty if a transpose or a broadcast separates them, since those stay outside the group.
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
    """Whether the norm ends at the match's root: no user of it is a later op of the same norm."""
    for user in ops.users(match.root.results[0]):
        if may_end_norm(user) and isinstance(find_norm(user.results[0]), Norm):
            return False
    return True


def has_plain_affine(norm: Norm) -> bool:
    """Whether the norm has scale and shift, both in the element type of its input."""
    scales = [g for g in norm.gamma if varying_loops(g)]
    if not scales or norm.beta is None or not varying_loops(norm.beta):
        return False
    types = {_types(part) for part in (norm.x, *scales, norm.beta)}
    return len(types) == 1


def _types(expr: Expr) -> frozenset[str]:
    """Element types of the tensors in memory under the casts."""
    return frozenset(ops.element_type(value) for value in tensors(source(expr)))


_NARROW = frozenset({"f16", "bf16"})


def may_end_narrow_norm(root: ir.Operation) -> bool:
    """`may_end_norm` for norms with f16 or bf16 results."""
    narrow = all(ops.element_type(value) in _NARROW for value in root.results)
    return narrow and may_end_norm(root)


def is_narrow_outside(match: Match) -> bool:
    """Whether a norm with its residual add reads f16 or bf16 tensors and computes in f32."""
    reductions = [op for op in match.ops if ops.is_generic(op) and not ops.is_elementwise(op)]
    if {ops.element_type(op.results[0]) for op in reductions} != {"f32"}:
        return False
    total = residual(match.data.norm)
    ends = () if total is None else total.parts
    return all(ops.element_type(value) in _NARROW for value in ends)


def legal_norm(
    match: Match, ctx: PassContext, integers: frozenset[str] = frozenset()
) -> NoMatch | None:
    """The `legal` of all norm passes: element types of tensors and scalars.

    Args:
      match: the match of a norm.
      ctx: context of the pass.
      integers: further legal element types of tensors.
    """
    refusal = legal_float(match, integers)
    if refusal is not None:
        return refusal
    for op in match.ops:
        for nested in ops.nested_ops(op):
            if any(ops.element_type(v) == "f64" for v in nested.results):
                return NoMatch(Reason.ELEMENT_TYPE, f"f64 inside {op.name}")
    return None
