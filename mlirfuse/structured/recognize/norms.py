"""Recognition of normalizations over rows: layer norm and RMS norm, however they are written.

A norm is `y = c * rstd * gamma + beta` with `rstd = rsqrt(mean(c * c) + epsilon)` or the division
by the square root; `c = x - mean(x)` for a layer norm and `c = x` for an RMS norm. The variance of
a layer norm may also be `mean(x * x) - mean(x) * mean(x)`. Factors and addends may have any order
and association, with casts between them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.expr.arithmetic import (
    Divisor,
    Factor,
    Mean,
    addends,
    factors,
    mean,
    scaled_sum,
    square_base,
)
from mlirfuse.structured.expr.comparison import Binding, same
from mlirfuse.structured.expr.expressions import loops, number, source, start, tensors, uncast
from mlirfuse.structured.expr.nodes import Apply, Expr
from mlirfuse.structured.ir import analysis_cache, ops


@dataclasses.dataclass(frozen=True, slots=True)
class Norm:
    """A recognized normalization.

    Attributes:
      centered: True for a layer norm, False for an RMS norm.
      x: input, as an expression at the result's loops.
      read: the same input at the loops of the mean and the variance.
      gamma: scales; empty without one.
      beta: shift, or None.
      epsilon: constant added to the variance.
      axes: normalized dimensions of the result, ascending.
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
    """A computation that is a norm except for one fact.

    Attributes:
      centered: whether a mean is subtracted.
      refusal: the fact.
    """

    centered: bool
    refusal: NoMatch


@analysis_cache.until_change
def find_norm(value: ir.Value) -> Norm | NearNorm | None:
    """Recognizes the normalization whose result the value is.

    Returns:
      The norm; a refusal when the value is a norm except for a constant or an axis; None for any
      other computation.
    """
    return norm_of(start(value), len(ops.shape(value)))


def norm_of(result: Expr, rank: int, *, trailing: bool = True) -> Norm | NearNorm | None:
    """Recognizes a normalization from the expression of its elements, as `find_norm` does.

    Args:
      result: an element at the loops of a tensor.
      rank: rank of that tensor.
      trailing: whether the normalized axes must be the last ones.
    """
    near: NearNorm | None = None
    for product, beta in [(result, None), *addends(result)]:
        found = scaled_norm(product)
        if isinstance(found, Norm):
            if beta is not None:
                if not varying_loops(beta) <= set(found.axes):
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


def varying_loops(expr: Expr) -> set[int]:
    """The loops over which the expression varies: none for a splat."""
    return set() if number(expr) is not None else loops(expr)


def _near(centered: bool, reason: Reason, detail: str) -> NearNorm:
    return NearNorm(centered, NoMatch(reason, detail))


def scaled_norm(product: Expr, *, by_channel: bool = False) -> Norm | NearNorm | None:
    """Recognizes a normalization without a shift.

    Args:
      product: an element at the loops of a tensor.
      by_channel: whether scales may vary over dimensions that are not normalized.
    """
    near: NearNorm | None = None
    for variance, rest in _variances(product):
        for moment, shift in [*addends(variance), (variance, None)]:
            found = _match_moment(moment, shift, rest, by_channel)
            if isinstance(found, Norm):
                return found
            near = near or found
    return near


def _variances(product: Expr) -> Iterator[tuple[Expr, tuple[Factor, ...]]]:
    """The variances by whose square root a product is divided, each with the other factors."""
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
            "the epsilon under the square root is not constant",
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
        squared.centered, Reason.STRUCTURE, "the scaled value is not the one in the variance"
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Squared:
    """A second moment.

    Attributes:
      arg: the squared expression.
      average: the mean of the squares.
      raw: whether the squared mean is subtracted from the moment, not the mean from `arg`.
    """

    arg: Expr
    average: Mean
    raw: bool = False

    @property
    def centered(self) -> bool:
        return self.raw or _is_centered(self.arg)


def _squared(moment: Expr) -> _Squared | NearNorm | None:
    average = mean(moment)
    base = None if average is None else square_base(uncast(average.arg))
    if average is not None and base is not None:
        return _Squared(base, average)
    node = uncast(moment)
    parts = node.args if isinstance(node, Apply) and node.op in ("arith.divf", "arith.mulf") else ()
    for part in (moment, *parts):
        total = scaled_sum(part)
        base = None if total is None else square_base(uncast(total.arg))
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
                f"the sum of {total.count} squares is scaled by a value that is not constant",
            )
        if total.type:
            return _near(
                _is_centered(base),
                Reason.CONSTANT_UNVERIFIED,
                f"the sum of {total.count} squares is divided by {1.0 / total.scale:g}",
            )
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
    base = square_base(uncast(node.args[1]))
    first = None if base is None else mean(base)
    if not isinstance(second, _Squared) or first is None:
        return None
    binding: Binding = {}
    if not same(first.arg, second.arg, binding) or {
        binding.get(loop) for loop in first.loops
    } != set(second.average.loops):
        return _near(
            True, Reason.STRUCTURE, "the mean in the variance is not the mean of the squared value"
        )
    return _Squared(second.arg, second.average, raw=True)


def _minuend(expr: Expr) -> Expr:
    node = uncast(expr)
    return node.args[0] if isinstance(node, Apply) and node.op == "arith.subf" else expr


def _is_centered(expr: Expr) -> bool:
    """Whether the expression subtracts a scaled sum: a mean, or a wrongly scaled one."""
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
        over = varying_loops(scale)
        if not (over < loops(inner) if by_channel else over <= set(normalized)):
            return None
        gamma.append(scale)
    node = uncast(inner)
    if not _is_centered(inner) or not isinstance(node, Apply):
        return Norm(False, inner, (squared.arg,), tuple(gamma), None, epsilon, normalized)
    x, subtracted = node.args
    average = mean(subtracted)
    if average is None:
        return _near(
            True, Reason.CONSTANT_UNVERIFIED, "the subtracted sum is not divided by its size"
        )
    bound: Binding = {}
    if not same(average.arg, x, bound):
        return _near(True, Reason.STRUCTURE, "the subtracted mean is not the mean of the input")
    if {bound.get(loop) for loop in average.loops} != set(normalized):
        return _near(True, Reason.WRONG_AXIS, "mean and variance are taken over different axes")
    read = (squared.arg if squared.raw else _minuend(squared.arg), average.arg)
    return Norm(True, x, read, tuple(gamma), None, epsilon, normalized)
