"""Recognition of normalizations over rows: layer norm and RMS norm, in any writing.

A norm is `y = c * rstd * gamma + beta` with `rstd = rsqrt(mean(c * c) + epsilon)` or the division
by the square root; `c = x - mean(x)` for a layer norm and `c = x` for an RMS norm. The variance of
a layer norm may also be `mean(x * x) - mean(x) * mean(x)`. Factors and addends come in any order
and association; casts between them do not matter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext, Reason
from mlirfuse.structured.expr import upstream_math
from mlirfuse.structured.expr.arithmetic import (
    Divisor,
    Factor,
    Mean,
    addends,
    factors,
    mean,
    scaled_sum,
)
from mlirfuse.structured.expr.comparison import Binding, same
from mlirfuse.structured.expr.expressions import (
    CASTS,
    Apply,
    Element,
    Expr,
    loops,
    number,
    source,
    start,
    step_through,
    tensors,
    uncast,
)
from mlirfuse.structured.ir import analysis_cache, ops, slices
from mlirfuse.structured.ir.common_iteration_space import Space, common_space


@dataclasses.dataclass(frozen=True, slots=True)
class Norm:
    """A recognized normalization.

    Attributes:
      centered: True for a layer norm, False for an RMS norm.
      x: what is normalized, as an expression at the result's loops.
      read: the same x where mean and variance read it, at their own loops.
      gamma: the scales; empty when there are none.
      beta: the shift, or None.
      epsilon: the number added to the variance.
      axes: the result's dimensions that are normalized, ascending.
    """

    centered: bool
    x: Expr
    read: tuple[Expr, ...]
    gamma: tuple[Expr, ...]
    beta: Expr | None
    epsilon: float
    axes: tuple[int, ...]

    @property
    def stops(self) -> frozenset[ir.Value]:
        """The tensors at which the group's backward slice ends."""
        ends = [source(e, whole=True) for e in (self.x, *self.read)]
        ends += [source(e) for e in (*self.gamma, *(() if self.beta is None else (self.beta,)))]
        return frozenset(v for e in ends for v in tensors(e))


@dataclasses.dataclass(frozen=True, slots=True)
class NearNorm:
    """A computation that is a norm up to one fact; `centered` when a mean is taken off."""

    centered: bool
    refusal: NoMatch


@analysis_cache.remembered
def find_norm(value: ir.Value) -> Norm | NearNorm | None:
    """Recognizes the normalization whose result the value is.

    Returns:
      The norm; a refusal when the value is a norm up to a constant or an axis; None when it is
      something else.
    """
    return norm_of(start(value), len(ops.shape(value)))


def norm_of(result: Expr, rank: int, *, trailing: bool = True) -> Norm | NearNorm | None:
    """Recognizes a normalization from the expression of its elements, as `find_norm` does.

    Args:
      result: an element at the loops of a tensor.
      rank: of that tensor.
      trailing: whether the normalized axes have to be the last ones.
    """
    near: NearNorm | None = None
    for product, beta in [(result, None), *addends(result)]:
        found = _scaled_norm(product)
        if isinstance(found, Norm):
            if beta is not None:
                if not _varies_over(beta) <= set(found.axes):
                    continue
                found = dataclasses.replace(found, beta=beta)
            if not trailing or found.axes == tuple(range(rank - len(found.axes), rank)):
                return found
            found = _near(
                found.centered,
                Reason.WRONG_AXIS,
                f"normalizes axes {list(found.axes)} of a tensor of rank {rank}",
            )
        near = near or found
    return near


def _varies_over(expr: Expr) -> set[int]:
    """The loops that the expression depends on: none for a tensor that is one number throughout."""
    return set() if number(expr) is not None else loops(expr)


def _near(centered: bool, reason: Reason, detail: str) -> NearNorm:
    return NearNorm(centered, NoMatch(reason, detail))


def _scaled_norm(product: Expr, *, by_channel: bool = False) -> Norm | NearNorm | None:
    near: NearNorm | None = None
    for variance, rest in _variances(product):
        for moment, shift in [*addends(variance), (variance, None)]:
            found = _match_moment(moment, shift, rest, by_channel)
            if isinstance(found, Norm):
                return found
            near = near or found
    return near


def _variances(product: Expr) -> Iterator[tuple[Expr, tuple[Factor, ...]]]:
    """What a product divides by the square root of, with the other factors."""
    for inner, others in factors(product):
        variance = _under_reciprocal_root(inner)
        rest = others
        if variance is None:
            for divisor in others:
                variance = _under_root(divisor.expr) if isinstance(divisor, Divisor) else None
                if variance is not None:
                    rest = (inner, *(o for o in others if o is not divisor))
                    break
        if variance is not None:
            yield variance, rest


def _under_root(expr: Expr) -> Expr | None:
    node = uncast(expr)
    if isinstance(node, Apply) and (
        node.op == "math.sqrt" or (node.op == "math.powf" and number(node.args[1]) == 0.5)
    ):
        return node.args[0]
    return None


def _under_reciprocal_root(expr: Expr) -> Expr | None:
    node = uncast(expr)
    if isinstance(node, Apply) and (
        node.op == "math.rsqrt" or (node.op == "math.powf" and number(node.args[1]) == -0.5)
    ):
        return node.args[0]
    return None


def _match_moment(
    moment: Expr, shift: Expr | None, rest: tuple[Factor, ...], by_channel: bool
) -> Norm | NearNorm | None:
    squared = _squared(moment) or _difference_of_moments(moment)
    if squared is None or isinstance(squared, NearNorm):
        return squared
    epsilon = 0.0 if shift is None else number(shift)
    if epsilon is None:
        return _near(
            squared.centered,
            Reason.CONSTANT_UNVERIFIED,
            "the epsilon under the square root is not a constant",
        )
    for position, factor in enumerate(rest):
        if isinstance(factor, Divisor):
            continue
        for inner, others in factors(factor):
            binding: Binding = {}
            if not same(squared.arg, _minuend(inner) if squared.raw else inner, binding):
                continue
            scales = (*others, *rest[:position], *rest[position + 1 :])
            found = _assemble(inner, squared, binding, scales, float(epsilon), by_channel)
            if squared.raw and isinstance(found, Norm) and not found.centered:
                continue
            return found
    return _near(
        squared.centered, Reason.STRUCTURE, "what is scaled is not what the variance was taken of"
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Squared:
    """What a second moment is the mean square of; `raw` when the mean was taken off afterwards."""

    arg: Expr
    average: Mean
    raw: bool = False

    @property
    def centered(self) -> bool:
        return self.raw or _is_centered(self.arg)


def _squared(moment: Expr) -> _Squared | NearNorm | None:
    average = mean(moment)
    base = None if average is None else _square_base(average.arg)
    if average is not None and base is not None:
        return _Squared(base, average)
    node = uncast(moment)
    parts = node.args if isinstance(node, Apply) and node.op in ("arith.divf", "arith.mulf") else ()
    for part in (moment, *parts):
        total = scaled_sum(part)
        base = None if total is None else _square_base(total.arg)
        if total is None or base is None:
            continue
        if total.count is None:
            return _near(
                _is_centered(base), Reason.DYNAMIC_SHAPE, "the normalized size is not static"
            )
        if part is not moment:
            return _near(
                _is_centered(base),
                Reason.CONSTANT_UNVERIFIED,
                f"the sum of {total.count} squares is scaled by what is not a constant",
            )
        if total.type:
            return _near(
                _is_centered(base),
                Reason.CONSTANT_UNVERIFIED,
                f"the sum of {total.count} squares is divided by {1.0 / total.scale:g}",
            )
    return None


def _square_base(expr: Expr) -> Expr | None:
    node = uncast(expr)
    if isinstance(node, Apply) and node.op == "arith.mulf" and same(node.args[0], node.args[1]):
        return node.args[0]
    if isinstance(node, Apply) and node.op in ("math.powf", "math.fpowi"):
        return node.args[0] if number(node.args[1]) == 2 else None
    return None


def _difference_of_moments(moment: Expr) -> _Squared | NearNorm | None:
    """`mean(x * x) - mean(x) * mean(x)`, also clamped at zero."""
    node = uncast(moment)
    if isinstance(node, Apply) and node.op in ("arith.maximumf", "arith.maxnumf"):
        zero = [number(a) == 0 for a in node.args]
        if True in zero:
            node = uncast(node.args[1 - zero.index(True)])
    if not isinstance(node, Apply) or node.op != "arith.subf":
        return None
    second = _squared(node.args[0])
    base = _square_base(node.args[1])
    first = None if base is None else mean(base)
    if not isinstance(second, _Squared) or first is None:
        return None
    binding: Binding = {}
    if not same(first.arg, second.arg, binding) or {
        binding.get(loop) for loop in first.loops
    } != set(second.average.loops):
        return _near(
            True, Reason.STRUCTURE, "the mean in the variance is the mean of something else"
        )
    return _Squared(second.arg, second.average, raw=True)


def _minuend(expr: Expr) -> Expr:
    node = uncast(expr)
    return node.args[0] if isinstance(node, Apply) and node.op == "arith.subf" else expr


def _is_centered(expr: Expr) -> bool:
    """Whether a scaled sum is subtracted last: the mean of a layer norm, or what stands for it."""
    node = uncast(expr)
    if not isinstance(node, Apply) or node.op != "arith.subf":
        return False
    total = scaled_sum(node.args[1])
    return total is not None and total.type != ""


def _assemble(
    inner: Expr,
    squared: _Squared,
    binding: Binding,
    scales: tuple[Factor, ...],
    epsilon: float,
    by_channel: bool,
) -> Norm | NearNorm | None:
    bound_axes = {binding.get(loop) for loop in squared.average.loops}
    normalized = tuple(sorted(a for a in bound_axes if isinstance(a, int)))
    if len(normalized) != len(squared.average.loops):
        return None
    gamma: list[Expr] = []
    for scale in scales:
        if isinstance(scale, Divisor):
            return None
        over = _varies_over(scale)
        if not (over < loops(inner) if by_channel else over <= set(normalized)):
            return None
        gamma.append(scale)
    node = uncast(inner)
    if not _is_centered(inner) or not isinstance(node, Apply):
        return Norm(False, inner, (squared.arg,), tuple(gamma), None, epsilon, normalized)
    x, taken_off = node.args
    average = mean(taken_off)
    if average is None:
        return _near(
            True, Reason.CONSTANT_UNVERIFIED, "what is taken off is not divided by its size"
        )
    bound: Binding = {}
    if not same(average.arg, x, bound):
        return _near(True, Reason.STRUCTURE, "the mean taken off is the mean of something else")
    if {bound.get(loop) for loop in average.loops} != set(normalized):
        return _near(True, Reason.WRONG_AXIS, "mean and variance are taken over other axes")
    read = (squared.arg if squared.raw else _minuend(squared.arg), average.arg)
    return Norm(True, x, read, tuple(gamma), None, epsilon, normalized)


# --- group norms ---------------------------------------------------------------------------------


def find_group_norm(value: ir.Value) -> frozenset[ir.Value] | None:
    """Recognizes a layer norm that is scaled or shifted by channel, in its own shape or another.

    Each scale and shift depends on some, not on all dimensions of the result; where the shape is
    the norm's own, one of them depends on a dimension that is not normalized.

    Returns:
      The tensors that it is computed from; None when the value is something else.
    """
    result = start(value)
    everything = set(range(len(ops.shape(value))))
    for product, beta in [(result, None), *addends(result)]:
        shift = () if beta is None else (beta,)
        stops = _in_one_shape(product, shift) or _behind_reshape(product, shift, everything)
        if stops is not None:
            return stops
    return None


def _in_one_shape(product: Expr, shift: tuple[Expr, ...]) -> frozenset[ir.Value] | None:
    norm = _scaled_norm(product, by_channel=True)
    if not isinstance(norm, Norm) or not norm.centered:
        return None
    normalized = set(norm.axes)
    over = [_varies_over(part) for part in (*norm.gamma, *shift)]
    # A layer norm's own scale, or one by batch and normalized axis.
    if any(axes & normalized and (axes <= normalized or 0 in axes) for axes in over):
        return None
    return _stops(norm, shift) if any(over) else None


def _behind_reshape(
    product: Expr, shift: tuple[Expr, ...], everything: set[int]
) -> frozenset[ir.Value] | None:
    for inner, others in factors(product):
        value = _reshaped(inner)
        if value is None:
            continue
        scales = [o for o in others if not isinstance(o, Divisor)]
        # Loops, since weights that were not trained are one number throughout.
        over = [loops(part) for part in (*scales, *shift)]
        if len(scales) < len(others) or any(o >= everything for o in over):
            continue
        norm = norm_of(start(value), len(ops.shape(value)), trailing=False)
        if not isinstance(norm, Norm) or not norm.centered or any(map(_varies_over, norm.gamma)):
            continue
        if any(over) or _is_cast_behind_reshape(norm.x, ops.shape(value)):
            return _stops(norm, (*scales, *shift))
    return None


def _is_cast_behind_reshape(expr: Expr, shape: tuple[int | None, ...]) -> bool:
    """Whether the element is one of narrow tensors in another shape."""
    narrow = tensors(_narrow_source(expr))
    return any(ops.shape(v) != shape and ops.element_type(v) in _NARROW for v in narrow)


def _reshaped(expr: Expr) -> ir.Value | None:
    """The computed tensor that the element is read from, when a reshape lies between."""
    reshaped = False
    while isinstance(expr, Element):
        step = step_through(expr)
        if isinstance(step, Element):
            owner = ops.defining_op(expr.value)
            reshaped = reshaped or (owner is not None and owner.name in ops.RESHAPES)
            expr = step
        elif reshaped:
            return expr.value
        elif isinstance(step, Apply) and step.op in CASTS:
            expr = step.args[0]
        else:
            return None
    return None


def _stops(norm: Norm, parts: tuple[Expr, ...]) -> frozenset[ir.Value]:
    ends = [_narrow_source(e) for e in (norm.x, *norm.read)]
    ends += [source(e) for e in (*norm.gamma, *parts)]
    return frozenset(v for e in ends for v in tensors(e))


def _narrow_source(expr: Expr) -> Expr:
    """The element under the lowest cast, reshapes above it passed over."""
    lowest = source(expr)
    while isinstance(expr, Element):
        step = step_through(expr)
        if isinstance(step, Apply) and step.op in CASTS:
            lowest = source(step.args[0])
            step = step.args[0]
        if not isinstance(step, Element):
            break
        expr = step
    return lowest


# --- matches -------------------------------------------------------------------------------------


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


@analysis_cache.kept
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
    scales = [g for g in norm.gamma if _varies_over(g)]
    if not scales or norm.beta is None or not _varies_over(norm.beta):
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
    for op in match.ops:
        tensors_of = [v for v in (*op.operands, *op.results) if ops.ranked(v) is not None]
        for value in tensors_of:
            if not ops.is_float(value) and ops.element_type(value) not in integers:
                return NoMatch(Reason.ELEMENT_TYPE, ops.element_type(value))
        for nested in ops.nested_ops(op):
            if any(ops.element_type(v) == "f64" for v in nested.results):
                return NoMatch(Reason.ELEMENT_TYPE, f"f64 inside {op.name}")
    return None
