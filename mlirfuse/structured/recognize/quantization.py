"""Recognition of an RMS norm that is quantized to 8 bits.

A quantization is `convert(clamp(roundeven(y * scale + offset)))`. Scale and offset are constants or
vary over the normalized axes. The scale may divide; the offset may be subtracted, or added after
rounding. The clamp comes before or after rounding and consists of a maximum and a minimum, or of
compares and selects. The quantization ops of PyTorch and ONNX are imported as
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

INTEGER_RANGES = {"arith.fptosi": (-128, 127), "arith.fptoui": (0, 255)}
"""Smallest and largest 8-bit integer, by the op that converts to it."""

INTEGER_TYPES = frozenset({"i8", "i32", "i64"})
"""Integer element types of results and offsets."""

MAX_PEELED_OPS = 16
"""Ops between the conversion and the norm; a usual quantization has six."""


@dataclasses.dataclass(frozen=True, slots=True)
class Quantized:
    """A quantized RMS norm.

    Attributes:
      norm: the norm.
      parts: scales and offsets of the quantization.
      refusal: the reason why the passes do not accept the quantization; None if they do.
    """

    norm: Norm
    parts: tuple[Expr, ...]
    refusal: NoMatch | None


def match_quantized(root: ir.Operation, *, add: bool) -> Match | NoMatch | None:
    """The match of a quantized-norm pass at the op that converts to 8 bits.

    Args:
      root: the op whose result may be a quantized RMS norm.
      add: whether the group includes the residual add; a norm without one is then no match.
    """
    found = _find(root)
    if found is None:
        return None
    stops = found.norm.stops | {v for part in found.parts for v in tensors(source(part))}
    match = form_match(root, found.norm, stops, add=add)
    return match and (found.refusal or match)


def legal_quantized(match: Match, ctx: PassContext) -> NoMatch | None:
    """The `legal` of quantized norms: types as in `legal_norm`, 8 bits, integer offsets."""
    return legal_norm(match, ctx, INTEGER_TYPES)


def _find(root: ir.Operation) -> Quantized | None:
    if root.name == QUANTIZE:
        return _quantize_op(root)
    last = last_scalar_op(root)
    if last not in INTEGER_RANGES and last != "arith.trunci":
        return None
    if len(root.results) != 1 or not ops.is_elementwise(root):
        return None
    node = define(start(root.results[0]))
    if isinstance(node, Apply) and node.op == "arith.trunci":
        node = define(node.args[0])
    if not isinstance(node, Apply) or node.op not in INTEGER_RANGES:
        return None
    if ops.element_type(root.results[0]) != "i8":
        return None
    return _Peeling(len(ops.shape(root.results[0])), INTEGER_RANGES[node.op]).under(node.args[0])


def _quantize_op(root: ir.Operation) -> Quantized | None:
    """Recognizes `quantize_affine`, which rounds half to even and saturates."""
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
    return NoMatch(Reason.WRONG_AXIS, f"scale or offset varies over axes {axes}")


class _Peeling:
    """Removes the ops between a conversion and a norm, outermost first."""

    def __init__(self, rank: int, limits: tuple[int, int]) -> None:
        self.rank = rank
        self.limits = limits
        self.bounds = [-math.inf, math.inf]
        self.rounding = ""
        self.parts: list[Expr] = []

    def under(self, expr: Expr) -> Quantized | None:
        for _ in range(MAX_PEELED_OPS):
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
                f"clamped to [{low:g}, {high:g}], which exceeds {list(self.limits)}",
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
            # An offset that is added after the clamp exceeds its range.
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
    """The clamped expression, whether the bound is an upper one, and the bound."""
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
