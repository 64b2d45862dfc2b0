"""Recognition of group norms: layer norms that are scaled or shifted by channel."""

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
    norm = scaled_norm(product, by_channel=True)
    if not isinstance(norm, Norm) or not norm.centered:
        return None
    normalized = set(norm.axes)
    over = [varying_loops(part) for part in (*norm.gamma, *shift)]
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
        if not isinstance(norm, Norm) or not norm.centered or any(map(varying_loops, norm.gamma)):
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
