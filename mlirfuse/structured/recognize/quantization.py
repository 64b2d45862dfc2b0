"""Recognition of an RMS norm that is quantized to 8 bits.

A quantization is `convert(clamp(roundeven(y * scale + offset)))`: scale and offset are numbers, or
depend on the normalized axes; the scale may divide, the offset be taken off, or be added after the
rounding; the clamp stands before or after the rounding and is a maximum and a minimum, or
comparisons with selections. PyTorch's and ONNX's own ops arrive as one
`iree_linalg_ext.quantize_affine`.
"""

from __future__ import annotations

import dataclasses
import math

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext, Reason
from mlirfuse.structured.expr import predicates
from mlirfuse.structured.expr.comparison import same
from mlirfuse.structured.expr.expressions import (
    define,
    loops,
    number,
    source,
    start,
    tensors,
    uncast,
)
from mlirfuse.structured.expr.nodes import Apply, Element, Expr
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.norm_matches import form_match, last_scalar_op, legal_norm
from mlirfuse.structured.recognize.norms import Norm, norm_of

QUANTIZE = "iree_linalg_ext.quantize_affine"

RANGES = {"arith.fptosi": (-128, 127), "arith.fptoui": (0, 255)}
"""What 8 bits hold, by the conversion to them."""

INTEGERS = frozenset({"i8", "i32", "i64"})
"""Element types of the result and of offsets."""


PEELED = 16
"""Ops between the conversion and the norm that are looked at; an ordinary quantization has six."""


@dataclasses.dataclass(frozen=True, slots=True)
class Quantized:
    """A quantized RMS norm.

    Attributes:
      norm: what is quantized.
      parts: scales and offsets that are not the norm's own.
      refusal: why it is not quantized as the passes require; None when it is.
    """

    norm: Norm
    parts: tuple[Expr, ...]
    refusal: NoMatch | None


def match_quantized(root: ir.Operation, *, add: bool) -> Match | NoMatch | None:
    """The match of one of the two passes at the op that converts to 8 bits.

    Args:
      root: the op whose result may be a quantized RMS norm.
      add: whether the residual add belongs to the group; a norm without one is then no match.
    """
    found = _find(root)
    if found is None:
        return None
    stops = found.norm.stops | {v for part in found.parts for v in tensors(source(part))}
    match = form_match(root, found.norm, stops, add=add)
    return match and (found.refusal or match)


def legal_quantized(match: Match, ctx: PassContext) -> NoMatch | None:
    """The `legal` of quantized norms: types as in `legal_norm`, 8 bits, integers of offsets."""
    return legal_norm(match, ctx, INTEGERS)


def _find(root: ir.Operation) -> Quantized | None:
    if root.name == QUANTIZE:
        return _quantize_op(root)
    last = last_scalar_op(root)
    if last not in RANGES and last != "arith.trunci":
        return None
    if len(root.results) != 1 or not ops.is_elementwise(root):
        return None
    node = define(start(root.results[0]))
    if isinstance(node, Apply) and node.op == "arith.trunci":
        node = define(node.args[0])
    if not isinstance(node, Apply) or node.op not in RANGES:
        return None
    if ops.element_type(root.results[0]) != "i8":
        return None
    return _Peeling(len(ops.shape(root.results[0])), RANGES[node.op]).under(node.args[0])


def _quantize_op(root: ir.Operation) -> Quantized | None:
    """The op rounds half to even and saturates to its own range."""
    value, *scales = ops.inputs(root)
    identity, *maps = ops.indexing_maps(root)
    rank = len(ops.shape(root.results[0]))
    if identity != tuple(range(rank)):
        return None
    norm = norm_of(start(value), rank)
    if not isinstance(norm, Norm) or norm.centered:
        return None
    parts = tuple(
        Element(scale, index)
        for scale, index in zip(scales, maps, strict=False)
        if index is not None and ops.ranked(scale) is not None
    )
    return Quantized(norm, parts, _axes_refusal(norm, parts))


def _axes_refusal(norm: Norm, parts: tuple[Expr, ...]) -> NoMatch | None:
    axes = sorted({axis for part in parts for axis in loops(part)} - set(norm.axes))
    if not axes:
        return None
    return NoMatch(Reason.WRONG_AXIS, f"scale or offset depends on axes {axes}")


class _Peeling:
    """Takes off what stands between a conversion and a norm, outermost first."""

    def __init__(self, rank: int, limits: tuple[int, int]) -> None:
        self.rank = rank
        self.limits = limits
        self.bounds = [-math.inf, math.inf]
        self.rounding = ""
        self.parts: list[Expr] = []

    def under(self, expr: Expr) -> Quantized | None:
        for _ in range(PEELED):
            norm = norm_of(expr, self.rank)
            if isinstance(norm, Norm):
                parts = tuple(self.parts)
                refusal = self.refusal() or _axes_refusal(norm, parts)
                return None if norm.centered else Quantized(norm, parts, refusal)
            inner = self.peel(expr)
            if inner is None:
                return None
            expr = inner
        return None

    def refusal(self) -> NoMatch | None:
        if self.rounding != "math.roundeven":
            how = self.rounding or "no rounding"
            return NoMatch(Reason.STRUCTURE, f"{how} where math.roundeven is expected")
        low, high = self.bounds
        if low < self.limits[0] or high > self.limits[1]:
            return NoMatch(
                Reason.CONSTANT_UNVERIFIED,
                f"clamped to [{low:g}, {high:g}], which {list(self.limits)} does not hold",
            )
        return None

    def peel(self, expr: Expr) -> Expr | None:
        node = uncast(expr)
        if not isinstance(node, Apply):
            return None
        if node.op in _ROUNDINGS and not self.rounding:
            self.rounding = node.op
            return node.args[0]
        clamped = _clamp(node)
        if clamped is not None:
            inner, upper, bound = clamped
            # An offset that is added later leaves the range again.
            if not self.parts:
                tighter = min if upper else max
                self.bounds[upper] = tighter(self.bounds[upper], bound)
            return inner
        return self.peel_part(node)

    def peel_part(self, node: Apply) -> Expr | None:
        if node.op not in ("arith.mulf", "arith.addf", "arith.divf", "arith.subf"):
            return None
        left, right = node.args
        orders = [(left, right)]
        if node.op in ("arith.mulf", "arith.addf"):
            orders.append((right, left))
        for inner, part in orders:
            if len(loops(part)) < self.rank:
                self.parts.append(part)
                return inner
        return None


_ROUNDINGS = frozenset({"math.roundeven", "math.round", "math.floor", "math.ceil", "math.trunc"})

_BOUNDS = {
    "arith.maximumf": False,
    "arith.maxnumf": False,
    "arith.minimumf": True,
    "arith.minnumf": True,
}
"""Op -> whether it is an upper bound."""

_LESS = frozenset({predicates.OLT, predicates.OLE, predicates.ULT, predicates.ULE})
_GREATER = frozenset({predicates.OGT, predicates.OGE, predicates.UGT, predicates.UGE})


def _clamp(node: Apply) -> tuple[Expr, bool, float] | None:
    """What is clamped, whether from above, and the bound."""
    if node.op in _BOUNDS:
        for inner, limit in (node.args, node.args[::-1]):
            bound = number(limit)
            if bound is not None:
                return inner, _BOUNDS[node.op], float(bound)
    if node.op != "arith.select":
        return None
    condition, chosen, other = node.args
    test = uncast(condition)
    if not isinstance(test, Apply) or test.predicate not in _LESS | _GREATER:
        return None
    bound, inner = number(test.args[1]), test.args[0]
    # `x < c ? c : x` bounds from below, `x > c ? c : x` from above.
    if test.op != "arith.cmpf" or bound is None or number(chosen) != bound:
        return None
    return (inner, test.predicate in _GREATER, float(bound)) if same(inner, other) else None
