"""Recognition of group norms: layer norms with a scale or shift per channel."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.structured.expr.arithmetic import (
    Divisor,
    addends,
    factors,
)
from mlirfuse.structured.expr.expansion import step_through
from mlirfuse.structured.expr.expressions import CASTS, loops, source, start, tensors
from mlirfuse.structured.expr.nodes import Apply, Element, Expr
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.norm_matches import _NARROW
from mlirfuse.structured.recognize.norms import Norm, norm_of, scaled_norm, varying_loops


def find_group_norm(value: ir.Value) -> frozenset[ir.Value] | None:
    """Recognizes a layer norm with a scale or shift per channel, in the norm's shape or another.

    Each scale and shift varies over some but not all dimensions of the result. In the norm's own
    shape, one of them varies over a dimension that is not normalized.

    Returns:
      The tensors that the group norm reads; None for any other computation.
    """
    result = start(value)
    all_axes = set(range(len(ops.shape(value))))
    for product, beta in [(result, None), *addends(result)]:
        shift = () if beta is None else (beta,)
        stops = _in_one_shape(product, shift) or _through_reshape(product, shift, all_axes)
        if stops is not None:
            return stops
    return None


def _in_one_shape(product: Expr, shift: tuple[Expr, ...]) -> frozenset[ir.Value] | None:
    norm = scaled_norm(product, by_channel=True)
    if not isinstance(norm, Norm) or not norm.centered:
        return None
    normalized = set(norm.axes)
    over = [varying_loops(part) for part in (*norm.gamma, *shift)]
    # The scale of a plain layer norm, or one over batch and a normalized axis.
    if any(axes & normalized and (axes <= normalized or 0 in axes) for axes in over):
        return None
    return _stops(norm, shift) if any(over) else None


def _through_reshape(
    product: Expr, shift: tuple[Expr, ...], all_axes: set[int]
) -> frozenset[ir.Value] | None:
    for inner, others in factors(product):
        value = _reshaped(inner)
        if value is None:
            continue
        scales = [o for o in others if not isinstance(o, Divisor)]
        # `loops`, not `varying_loops`: untrained weights are splats.
        over = [loops(part) for part in (*scales, *shift)]
        if len(scales) < len(others) or any(o >= all_axes for o in over):
            continue
        norm = norm_of(start(value), len(ops.shape(value)), trailing=False)
        if not isinstance(norm, Norm) or not norm.centered or any(map(varying_loops, norm.gamma)):
            continue
        if any(over) or _is_cast_after_reshape(norm.x, ops.shape(value)):
            return _stops(norm, (*scales, *shift))
    return None


def _is_cast_after_reshape(expr: Expr, shape: tuple[int | None, ...]) -> bool:
    """Whether the element is computed from narrow tensors of another shape."""
    narrow = tensors(_narrow_source(expr))
    return any(ops.shape(v) != shape and ops.element_type(v) in _NARROW for v in narrow)


def _reshaped(expr: Expr) -> ir.Value | None:
    """The computed tensor from which the element is read through a reshape; else None."""
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
    """The element under the innermost cast, through the reshapes above it."""
    innermost = source(expr)
    while isinstance(expr, Element):
        step = step_through(expr)
        if isinstance(step, Apply) and step.op in CASTS:
            innermost = source(step.args[0])
            step = step.args[0]
        if not isinstance(step, Element):
            break
        expr = step
    return innermost
