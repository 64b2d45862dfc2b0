"""Recognition of attention scores, `scale * q k^T + mask`, and of the contractions around them."""

from __future__ import annotations

import dataclasses
import math

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.expr import reshapes
from mlirfuse.structured.expr.arithmetic import constant_factor
from mlirfuse.structured.expr.expressions import CASTS, number
from mlirfuse.structured.expr.loop_domains import holds
from mlirfuse.structured.expr.nodes import Apply, Const, Element, Expr, Index, Loop, Reduce
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import mask_logic, masks

SCORE_NODES = 64
"""Nodes between the softmax and the first contraction that are looked at; usual are five."""

NEUTRAL = 1024.0
"""Largest constant whose addition to all scores is dropped. It costs a score in f32 2^-14 at most;
a constant far above would swallow the scores, and softmax would no longer be what it is without."""


# --- contractions --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Product:
    """One element of a contraction: the elements multiplied, and the loop summed over."""

    a: Element
    b: Element
    loop: Loop
    op: ir.Operation


def find_product(element: Element) -> Product | None:
    """The contraction that computes the element from a zero init, with one loop summed over."""
    op = ops.defining_op(element.value)
    if op is None or not ops.is_contraction(op) or len(op.operands) != 3:
        return None
    maps = ops.indexing_maps(op)
    kinds = ops.iterator_types(op)
    if len(maps) != 3 or kinds.count("reduction") != 1 or ops.constant(op.operands[2]) != 0:
        return None
    if ops.is_generic(op) and not _multiplies(element, op):
        return None
    a_map, b_map, out_map = maps
    if a_map is None or b_map is None or out_map is None:
        return None
    number_ = kinds.index("reduction")
    summed = Loop(op, number_, ops.loop_sizes(op)[number_])
    indices: list[Index] = [summed] * len(kinds)
    for loop, index in zip(out_map, element.index, strict=True):
        if loop is None or loop == number_:
            return None
        indices[loop] = index
    a, b = (
        Element(value, tuple(None if d is None else indices[d] for d in m), element.cache)
        for value, m in zip(op.operands, (a_map, b_map), strict=False)
    )
    return Product(a, b, summed, op)


def _multiplies(element: Element, op: ir.Operation) -> bool:
    """Whether the generic sums the products of its two inputs, casts aside."""
    total = reshapes.step(element)
    if not isinstance(total, Reduce) or total.combiner != "arith.addf":
        return False
    if not isinstance(total.arg, Apply) or total.arg.op != "arith.mulf":
        return False
    read = []
    for arg in total.arg.args:
        while isinstance(arg, Apply) and arg.op in CASTS:
            arg = arg.args[0]
        read.append(arg.value if isinstance(arg, Element) else None)
    inputs = ops.inputs(op)
    return read in (inputs, inputs[::-1])


# --- scores --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Scores:
    """Scores of keys for queries.

    Attributes:
      q: an element of the queries.
      k: an element of the keys.
      loop: what both are contracted over.
      first: the contraction.
      scale: the factor of the product.
      mask: what is added to the product, in f32; None for nothing.
      fill: the finite score that a select writes over masked ones, if one does.
      offset: the constant that is added to every score.
    """

    q: Element
    k: Element
    loop: Loop
    first: ir.Operation
    scale: float = 1.0
    mask: Expr | None = None
    fill: float | None = None
    offset: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class NearScores:
    """Scores up to one fact; `masked` when a mask was seen."""

    masked: bool
    refusal: NoMatch


def find_scores(expr: Expr, key: Loop) -> Scores | NearScores | None:
    """The scores that the expression is.

    Args:
      expr: what the softmax is taken of.
      key: the loop that numbers the keys.
    """
    reader = _Reader(key)
    found = reader.read(expr)
    if isinstance(found, NoMatch):
        return NearScores(reader.masked, found)
    if found is not None and found.fill is not None and not found.fill <= masks.MASKING:
        return NearScores(True, _no_fill(found.fill))
    if found is not None and not abs(found.offset) <= NEUTRAL:
        detail = f"{found.offset:g} is added to all scores; softmax is the same up to {NEUTRAL:g}"
        return NearScores(reader.masked, NoMatch(Reason.CONSTANT_UNVERIFIED, detail))
    return found


class _Reader:
    """One reading; `left` counts down the nodes that may still be looked at.

    Each method returns None for an expression that has no contraction of q and k in it.
    """

    def __init__(self, key: Loop) -> None:
        self.key = key
        self.left = SCORE_NODES
        self.masked = False

    def read(self, expr: Expr) -> Scores | NoMatch | None:
        while self.left > 0:
            self.left -= 1
            if isinstance(expr, Element):
                product = find_product(expr)
                if product is not None:
                    return self._oriented(product)
                step = reshapes.step(expr)
                if step is None:
                    return None
                expr = step
            elif isinstance(expr, Apply) and expr.op in CASTS:
                expr = expr.args[0]
            else:
                return self._computed(expr) if isinstance(expr, Apply) else None
        return None

    def _oriented(self, product: Product) -> Scores | None:
        for q, k in ((product.a, product.b), (product.b, product.a)):
            read = [any(holds(i, self.key) for i in side.index) for side in (q, k)]
            if read == [False, True]:
                return Scores(q, k, product.loop, product.op)
        return None

    def _computed(self, node: Apply) -> Scores | NoMatch | None:
        if node.op in ("arith.mulf", "arith.divf"):
            return self._scaled(node)
        if node.op in ("arith.addf", "arith.subf"):
            return self._added(node)
        if node.op == "arith.select":
            return self._selected(node)
        inner = self.read(node.args[0])
        if isinstance(inner, Scores):
            return NoMatch(Reason.STRUCTURE, f"{node.op} between q k^T and the softmax")
        return inner

    def _scaled(self, node: Apply) -> Scores | NoMatch | None:
        taken = constant_factor(node)
        if taken is None:
            inner = self.read(node.args[0])
            if inner is None and node.op == "arith.mulf":
                inner = self.read(node.args[1])
            if isinstance(inner, Scores):
                detail = "the scale of the scores is no finite constant"
                return NoMatch(Reason.CONSTANT_UNVERIFIED, detail)
            return inner
        inner, factor = self.read(taken[0]), taken[1]
        if not isinstance(inner, Scores):
            return inner
        if inner.mask is not None and factor <= 0:
            return NoMatch(Reason.STRUCTURE, f"the masked scores are multiplied by {factor:g}")
        return dataclasses.replace(
            inner,
            scale=inner.scale * factor,
            mask=None if inner.mask is None else masks.scaled(inner.mask, factor),
            fill=None if inner.fill is None else inner.fill * factor,
            offset=inner.offset * factor,
        )

    def _added(self, node: Apply) -> Scores | NoMatch | None:
        left, right = node.args
        inner, addend = self.read(left), right
        if inner is None and node.op == "arith.addf":
            inner, addend = self.read(right), left
        if not isinstance(inner, Scores):
            return inner
        constant = number(addend)
        if constant is not None:
            sign = -1.0 if node.op == "arith.subf" else 1.0
            return dataclasses.replace(inner, offset=inner.offset + sign * constant)
        self.masked = True
        mask = masks.read(addend)
        wide = None if mask is None else masks.widen(mask)
        if wide is None:
            return NoMatch(Reason.STRUCTURE, "the mask cannot be computed in the group")
        if inner.fill is not None:
            return NoMatch(
                Reason.STRUCTURE, f"scores that a select set to {inner.fill:g} are added to"
            )
        if node.op == "arith.subf":
            wide = mask_logic.combine("arith.negf", wide)
        if inner.mask is not None:
            wide = mask_logic.combine("arith.addf", inner.mask, wide)
        return dataclasses.replace(inner, mask=wide)

    def _selected(self, node: Apply) -> Scores | NoMatch | None:
        condition, yes, no = node.args
        inner, other = self.read(yes), no
        if inner is None:
            inner, other = self.read(no), yes
        if not isinstance(inner, Scores):
            return inner
        self.masked = True
        fill = number(other)
        if fill is None or not fill < 0:
            return _no_fill(fill)
        finite = inner.fill if math.isinf(fill) else float(fill)
        if inner.fill not in (None, finite):
            detail = f"one select sets scores to {inner.fill:g}, another to {fill:g}"
            return NoMatch(Reason.STRUCTURE, detail)
        keep = masks.read(condition)
        if keep is None:
            return NoMatch(Reason.STRUCTURE, "the mask cannot be computed in the group")
        closed = Const(-math.inf if math.isinf(fill) else masks.MASKED, "f32")
        opened = Const(0.0, "f32") if inner.mask is None else inner.mask
        first, second = (opened, closed) if other is no else (closed, opened)
        return dataclasses.replace(inner, mask=mask_logic.select(keep, first, second), fill=finite)


def _no_fill(fill: float | None) -> NoMatch:
    written = "a value that is no constant" if fill is None else f"{fill:g}"
    return NoMatch(
        Reason.CONSTANT_UNVERIFIED,
        f"masked scores are set to {written}; -inf or at most {masks.MASKING:g} masks",
    )
