"""Recognition of attention scores and of the contractions around them.

Scores are `scale * q k^T + mask`, or `scale * tanh(cap * q k^T) + mask` (logit soft-capping, Gemma
Team, Gemma 2, 2024).
"""

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

MAX_SCORE_NODES = 64
"""Nodes between the softmax and the contraction of q and k; five are usual."""

MAX_NEUTRAL_OFFSET = 1024.0
"""Largest constant addend of all scores that is dropped. It changes an f32 score by 2^-14 at most;
a much larger constant would absorb the scores and change the softmax."""


# --- contractions --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Contraction:
    """An element of a contraction with one reduction loop.

    Attributes:
      a: element of the first operand.
      b: element of the second operand.
      loop: the reduction loop.
      op: the contraction.
    """

    a: Element
    b: Element
    loop: Loop
    op: ir.Operation


def find_contraction(element: Element) -> Contraction | None:
    """The contraction that computes the element, if it has a zero init and one reduction loop."""
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
    dim = kinds.index("reduction")
    reduced = Loop(op, dim, ops.loop_sizes(op)[dim])
    indices: list[Index] = [reduced] * len(kinds)
    for loop, index in zip(out_map, element.index, strict=True):
        if loop is None or loop == dim:
            return None
        indices[loop] = index
    a, b = (
        Element(value, tuple(None if d is None else indices[d] for d in m), element.cache)
        for value, m in zip(op.operands, (a_map, b_map), strict=False)
    )
    return Contraction(a, b, reduced, op)


def _multiplies(element: Element, op: ir.Operation) -> bool:
    """Whether the generic accumulates the products of its two inputs, up to casts."""
    accumulation = reshapes.step(element)
    if not isinstance(accumulation, Reduce) or accumulation.combiner != "arith.addf":
        return False
    product = accumulation.arg
    if not isinstance(product, Apply) or product.op != "arith.mulf":
        return False
    read = []
    for arg in product.args:
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
      q: element of the queries.
      k: element of the keys.
      loop: loop over which they are contracted.
      qk: the contraction.
      scale: factor of q k^T, or of its tanh.
      cap: factor of q k^T inside a tanh; None without one.
      mask: addend of the scores, in f32; None without a mask.
      fill: finite score that a select writes for masked ones; None without one.
      offset: constant added to every score.
    """

    q: Element
    k: Element
    loop: Loop
    qk: ir.Operation
    scale: float = 1.0
    cap: float | None = None
    mask: Expr | None = None
    fill: float | None = None
    offset: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class NearScores:
    """Scores except for one fact.

    Attributes:
      masked: whether they have a mask.
      refusal: the fact.
    """

    masked: bool
    refusal: NoMatch


def find_scores(expr: Expr, key: Loop) -> Scores | NearScores | None:
    """Recognizes attention scores.

    Args:
      expr: argument of the softmax.
      key: loop over keys.

    Returns:
      The scores; a near miss; None for any other expression.
    """
    search = _Search(key)
    found = search.find(expr)
    if isinstance(found, NoMatch):
        return NearScores(search.masked, found)
    if found is not None and found.fill is not None and not found.fill <= masks.MAX_MASKED_SCORE:
        return NearScores(True, _no_fill(found.fill))
    if found is not None and not abs(found.offset) <= MAX_NEUTRAL_OFFSET:
        limit = f"only {MAX_NEUTRAL_OFFSET:g} or less is ignored"
        detail = f"{found.offset:g} is added to all scores; {limit}"
        return NearScores(search.masked, NoMatch(Reason.CONSTANT_UNVERIFIED, detail))
    return found


class _Search:
    """One search; `left` counts down the nodes that may still be visited.

    Each method returns None for an expression without a contraction of q and k.
    """

    def __init__(self, key: Loop) -> None:
        self.key = key
        self.left = MAX_SCORE_NODES
        self.masked = False

    def find(self, expr: Expr) -> Scores | NoMatch | None:
        while self.left > 0:
            self.left -= 1
            if isinstance(expr, Element):
                contraction = find_contraction(expr)
                if contraction is not None:
                    return self._oriented(contraction)
                step = reshapes.step(expr)
                if step is None:
                    return None
                expr = step
            elif isinstance(expr, Apply) and expr.op in CASTS:
                expr = expr.args[0]
            else:
                return self._computed(expr) if isinstance(expr, Apply) else None
        return None

    def _oriented(self, contraction: Contraction) -> Scores | None:
        a, b = contraction.a, contraction.b
        for q, k in ((a, b), (b, a)):
            read = [any(holds(i, self.key) for i in side.index) for side in (q, k)]
            if read == [False, True]:
                return Scores(q, k, contraction.loop, contraction.op)
        return None

    def _computed(self, node: Apply) -> Scores | NoMatch | None:
        if node.op in ("arith.mulf", "arith.divf"):
            return self._scaled(node)
        if node.op in ("arith.addf", "arith.subf"):
            return self._added(node)
        if node.op == "arith.select":
            return self._selected(node)
        inner = self.find(node.args[0])
        if not isinstance(inner, Scores):
            return inner
        plain = inner.cap is None and inner.mask is None and inner.offset == 0.0
        if node.op == "math.tanh" and plain:
            return dataclasses.replace(inner, scale=1.0, cap=inner.scale)
        return NoMatch(Reason.STRUCTURE, f"{node.op} between q k^T and the softmax")

    def _scaled(self, node: Apply) -> Scores | NoMatch | None:
        taken = constant_factor(node)
        if taken is None:
            inner = self.find(node.args[0])
            if inner is None and node.op == "arith.mulf":
                inner = self.find(node.args[1])
            if isinstance(inner, Scores):
                detail = "the scale of the scores is no finite constant"
                return NoMatch(Reason.CONSTANT_UNVERIFIED, detail)
            return inner
        inner, factor = self.find(taken[0]), taken[1]
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
        inner, addend = self.find(left), right
        if inner is None and node.op == "arith.addf":
            inner, addend = self.find(right), left
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
                Reason.STRUCTURE, f"a mask is added to scores that a select set to {inner.fill:g}"
            )
        if node.op == "arith.subf":
            wide = mask_logic.combine("arith.negf", wide)
        if inner.mask is not None:
            wide = mask_logic.combine("arith.addf", inner.mask, wide)
        return dataclasses.replace(inner, mask=wide)

    def _selected(self, node: Apply) -> Scores | NoMatch | None:
        condition, yes, no = node.args
        inner, other = self.find(yes), no
        if inner is None:
            inner, other = self.find(no), yes
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
        masked = Const(-math.inf if math.isinf(fill) else masks.FINITE_MASK_VALUE, "f32")
        unmasked = Const(0.0, "f32") if inner.mask is None else inner.mask
        first, second = (unmasked, masked) if other is no else (masked, unmasked)
        return dataclasses.replace(inner, mask=mask_logic.select(keep, first, second), fill=finite)


def _no_fill(fill: float | None) -> NoMatch:
    written = "a value that is not constant" if fill is None else f"{fill:g}"
    return NoMatch(
        Reason.CONSTANT_UNVERIFIED,
        f"masked scores are set to {written}; -inf or at most {masks.MAX_MASKED_SCORE:g} masks",
    )
