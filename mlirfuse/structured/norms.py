"""Recognition of normalizations over rows: layer norm and RMS norm, in any writing.

A norm is `y = c * rstd * gamma + beta` with `rstd = rsqrt(mean(c * c) + epsilon)` or the division
by the square root; `c = x - mean(x)` for a layer norm and `c = x` for an RMS norm. The variance of
a layer norm may also be `mean(x * x) - mean(x) * mean(x)`. Factors and addends come in any order
and association; casts between them do not matter.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, Reason
from mlirfuse.structured import ops, slices
from mlirfuse.structured.expressions import (
    Apply,
    Binding,
    Divisor,
    Element,
    Expr,
    Factor,
    Mean,
    addends,
    factors,
    loops,
    mean,
    number,
    same,
    source,
    start,
    tensors,
    uncast,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Norm:
    """A recognized normalization.

    Attributes:
      centered: True for a layer norm, False for an RMS norm.
      x: what is normalized, as an expression at the result's loops.
      gamma: the scales; empty when there are none.
      beta: the shift, or None.
      epsilon: the number added to the variance.
      axes: the result's dimensions that are normalized, ascending.
      stops: the tensors that the group reads: x, the scales and the shift.
    """

    centered: bool
    x: Expr
    gamma: tuple[Expr, ...]
    beta: Expr | None
    epsilon: float
    axes: tuple[int, ...]

    @property
    def stops(self) -> frozenset[ir.Value]:
        """The tensors at which the group's backward slice ends."""
        ends = [self.x, *self.gamma] + ([] if self.beta is None else [self.beta])
        return frozenset(v for e in ends for v in tensors(source(e)))


@dataclasses.dataclass(frozen=True, slots=True)
class NearNorm:
    """A computation that is a norm up to one fact; `centered` when a mean is taken off."""

    centered: bool
    refusal: NoMatch


def find_norm(value: ir.Value) -> Norm | NearNorm | None:
    """Recognizes the normalization whose result the value is.

    Returns:
      The norm; a refusal when the value is a norm up to a constant or an axis; None when it is
      something else.
    """
    result = start(value)
    near: NearNorm | None = None
    for product, beta in [(result, None), *addends(result)]:
        found = _scaled_norm(product)
        if isinstance(found, Norm):
            if beta is not None:
                if not loops(beta) <= set(found.axes):
                    continue
                found = dataclasses.replace(found, beta=beta)
            rank = len(ops.shape(value))
            if found.axes == tuple(range(rank - len(found.axes), rank)):
                return found
            found = _near(
                found.centered,
                Reason.WRONG_AXIS,
                f"normalizes axes {list(found.axes)} of a tensor of rank {rank}",
            )
        near = near or found
    return near


def _near(centered: bool, reason: Reason, detail: str) -> NearNorm:
    return NearNorm(centered, NoMatch(reason, detail))


def _scaled_norm(product: Expr) -> Norm | NearNorm | None:
    near: NearNorm | None = None
    for inner, others in factors(product):
        variance = _under_root(inner)
        rest = others
        if variance is None:
            divisors = [o for o in others if isinstance(o, Divisor)]
            for divisor in divisors:
                root = uncast(divisor.expr)
                if isinstance(root, Apply) and root.op == "math.sqrt":
                    variance = root.args[0]
                    rest = (inner, *(o for o in others if o is not divisor))
                    break
        if variance is None:
            continue
        for moment, shift in [*addends(variance), (variance, None)]:
            found = _match_moment(moment, shift, rest)
            if isinstance(found, Norm):
                return found
            near = near or found
    return near


def _under_root(expr: Expr) -> Expr | None:
    node = uncast(expr)
    if isinstance(node, Apply) and node.op == "math.rsqrt":
        return node.args[0]
    if isinstance(node, Apply) and node.op == "arith.divf" and number(node.args[0]) == 1:
        root = uncast(node.args[1])
        if isinstance(root, Apply) and root.op == "math.sqrt":
            return root.args[0]
    return None


def _match_moment(
    moment: Expr, shift: Expr | None, rest: tuple[Factor, ...]
) -> Norm | NearNorm | None:
    squared = _squared(moment) or _difference_of_moments(moment)
    if squared is None:
        return None
    epsilon = 0.0 if shift is None else number(shift)
    if epsilon is None:
        centered = squared.raw or _minuend(squared.arg) is not squared.arg
        return _near(
            centered,
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
            found = _assemble(inner, squared.average, binding, scales, float(epsilon))
            if squared.raw and isinstance(found, Norm) and not found.centered:
                continue
            return found
    centered = squared.raw or _minuend(squared.arg) is not squared.arg
    return _near(centered, Reason.STRUCTURE, "what is scaled is not what the variance was taken of")


@dataclasses.dataclass(frozen=True, slots=True)
class _Squared:
    """What a second moment is the mean square of; `raw` when the mean was taken off afterwards."""

    arg: Expr
    average: Mean
    raw: bool = False


def _squared(moment: Expr) -> _Squared | None:
    average = mean(moment)
    base = None if average is None else _square_base(average.arg)
    return None if average is None or base is None else _Squared(base, average)


def _square_base(expr: Expr) -> Expr | None:
    node = uncast(expr)
    if isinstance(node, Apply) and node.op == "arith.mulf" and same(*node.args):
        return node.args[0]
    if isinstance(node, Apply) and node.op in ("math.powf", "math.fpowi"):
        return node.args[0] if number(node.args[1]) == 2 else None
    return None


def _difference_of_moments(moment: Expr) -> _Squared | None:
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
    if second is None or first is None:
        return None
    binding: Binding = dict(zip(first.loops, second.average.loops, strict=False))
    if not same(first.arg, second.arg, binding):
        return None
    return _Squared(second.arg, second.average, raw=True)


def _minuend(expr: Expr) -> Expr:
    node = uncast(expr)
    return node.args[0] if isinstance(node, Apply) and node.op == "arith.subf" else expr


def _assemble(
    inner: Expr,
    average: Mean,
    binding: Binding,
    scales: tuple[Factor, ...],
    epsilon: float,
) -> Norm | NearNorm | None:
    axes = [binding.get(loop) for loop in average.loops]
    if not all(isinstance(a, int) for a in axes):
        return None
    normalized = tuple(sorted(a for a in axes if isinstance(a, int)))
    gamma: list[Expr] = []
    for scale in scales:
        if isinstance(scale, Divisor) or not loops(scale) <= set(normalized):
            return None
        gamma.append(scale)
    node = uncast(inner)
    x, centered = inner, False
    if isinstance(node, Apply) and node.op == "arith.subf":
        average_x = mean(node.args[1])
        if average_x is not None:
            bound: Binding = {}
            if not same(average_x.arg, node.args[0], bound):
                return _near(
                    True, Reason.STRUCTURE, "the mean taken off is the mean of something else"
                )
            if {bound.get(loop) for loop in average_x.loops} != set(normalized):
                return _near(True, Reason.WRONG_AXIS, "mean and variance are taken over other axes")
            x, centered = node.args[0], True
    return Norm(centered, x, tuple(gamma), None, epsilon, normalized)


@dataclasses.dataclass(frozen=True, slots=True)
class Residual:
    """The add of two tensors of the result's shape that a norm reads."""

    op: ir.Operation
    parts: tuple[ir.Value, ir.Value]


def residual(norm: Norm) -> Residual | None:
    """The residual add that feeds the norm, if there is one."""
    x = source(norm.x)
    op = ops.defining_op(x.value) if isinstance(x, Element) else None
    if not isinstance(x, Element) or op is None or not ops.is_elementwise(op):
        return None
    total = uncast(x)
    if not isinstance(total, Apply) or total.op != "arith.addf" or total.owner != op:
        return None
    parts = [p.value for a in total.args if isinstance(p := source(a), Element)]
    if len(parts) != 2 or any(ops.shape(p) != ops.shape(x.value) for p in parts):
        return None
    return Residual(op, (parts[0], parts[1]))


def match_norm(root: ir.Operation, *, centered: bool, add: bool) -> Match | NoMatch | None:
    """The match of one of the norm passes at its last elementwise op.

    Args:
      root: the op whose result may be a norm.
      centered: a layer norm if true, else an RMS norm.
      add: whether the residual add belongs to the group; a norm without one is then no match.
    """
    if not ops.is_elementwise(root) or len(root.results) != 1 or ops.is_projection(root):
        return None
    found = find_norm(root.results[0])
    if found is None or found.centered != centered:
        return None
    if isinstance(found, NearNorm):
        return None if add else found.refusal
    stops = found.stops
    if add:
        total = residual(found)
        if total is None:
            return None
        stops = (stops - set(total.op.results)) | set(total.parts)
    return Match(root, tuple(slices.backward_slice(root, stops)), found)


def legal_norm(match: Match) -> NoMatch | None:
    """The guards that all norm passes share: element types and static normalized sizes."""
    for op in match.ops:
        for value in (*op.operands, *op.results):
            if not ops.is_float(value):
                return NoMatch(Reason.ELEMENT_TYPE, ops.element_type(value))
    return None
