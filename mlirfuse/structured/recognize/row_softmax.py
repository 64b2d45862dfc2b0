"""Recognition of softmax and log softmax over rows, with what a select or cast makes of them.

Unlike in `softmax` beside it the parts themselves are wanted, casts between them and a mask on the
summed exponentials included: a group computes each of them once, as the graph does.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.expr import predicates, upstream_math
from mlirfuse.structured.expr.arithmetic import quotients
from mlirfuse.structured.expr.comparison import Binding, same
from mlirfuse.structured.expr.expansion import step_through
from mlirfuse.structured.expr.expressions import (
    CASTS,
    define,
    number,
    start,
    tensors,
    type_of,
    uncast,
)
from mlirfuse.structured.expr.nodes import Apply, Const, Element, Expr, Index, Loop, Reduce
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.ir.fusable_neighbors import has_scalar_body, is_epilogue_of_compute
from mlirfuse.structured.recognize.softmax import (
    MAXIMA,
    all_closed,
    initial_numbers,
    without_floor,
)


@dataclasses.dataclass(frozen=True, slots=True)
class RowSoftmax:
    """A softmax over the last axis, in expressions at the loops of the root's result.

    Attributes:
      root: the last op: a cast or select, the quotient, or the `linalg.softmax`.
      scores: what it is taken of.
      highest: the maximum of the scores along a row.
      power: the exponential of a score less the maximum.
      total: the sum of the exponentials along a row.
      given: expressions that stand for others: the result of a `linalg.softmax`, and a test for a
        row of -inf throughout, which the maximum answers.
      tests_maximum: whether there is such a test, for which a NaN in the row must show.
      stops: tensors that the softmax reads: the scores and the conditions of selects.
    """

    root: ir.Operation
    scores: Expr
    highest: Reduce
    power: Apply
    total: Reduce
    given: Mapping[Expr, Expr]
    tests_maximum: bool
    stops: frozenset[ir.Value]

    @property
    def column(self) -> int:
        """The axis that the softmax runs over."""
        return len(ops.shape(self.root.results[0])) - 1


@dataclasses.dataclass(frozen=True, slots=True)
class _Parts:
    scores: Expr
    highest: Reduce
    power: Apply
    total: Reduce
    axis: Index
    masks: tuple[Expr, ...] = ()


def may_end_softmax(root: ir.Operation) -> bool:
    """Whether the op has one result, and is an exponential or has one above it."""
    return len(root.results) == 1 and upstream_math.computes(root, upstream_math.EXPONENTIAL)


def find_row_softmax(root: ir.Operation) -> RowSoftmax | NoMatch | None:
    """Recognizes the softmax that ends at the op.

    Returns:
      The softmax; a refusal when the op itself is one up to a fact; None when it is something else,
      or something that is done to a softmax which others read too.
    """
    if not may_end_softmax(root):
        return None
    outer: list[tuple[Apply, int]] = []
    inner = _under_epilogue(root, outer)
    given: dict[Expr, Expr] = {}
    parts: _Parts | NoMatch | None = None
    owner: ir.Operation | None = None
    if isinstance(inner, Element):
        owner = ops.defining_op(inner.value)
        assert owner is not None, "an element is returned for the result of a softmax alone"
        parts = _parts_of_op(owner, inner, given)
    elif inner is not None:
        owner, parts = inner.owner, _parts(inner)
    if parts is None:
        return None
    found = parts if isinstance(parts, NoMatch) else _assemble(root, parts, outer, given)
    return None if isinstance(found, NoMatch) and owner != root else found


def _under_epilogue(root: ir.Operation, outer: list[tuple[Apply, int]]) -> Element | Apply | None:
    """The quotient or the `linalg.softmax` result under the root's casts and selects.

    The selects are added to `outer`, each with the operand that it was followed through.
    """
    top = start(root.results[0])
    expr: Expr = top
    while True:
        if isinstance(expr, Element):
            owner = ops.defining_op(expr.value)
            if owner is None or expr.index != top.index:
                return None
            if owner != root and len(ops.users(expr.value)) != 1:
                return None
            if owner.name == "linalg.softmax":
                return expr
            step = step_through(expr) if ops.is_elementwise(owner) else None
            if step is None:
                return None
            expr = step
        elif not isinstance(expr, Apply):
            return None
        elif expr.op in CASTS:
            expr = expr.args[0]
        elif expr.op == "arith.select" and len(outer) < _SELECTS:
            kept = 2 if number(expr.args[1]) is not None else 1
            outer.append((expr, kept))
            expr = expr.args[kept]
        else:
            return expr


_SELECTS = 4
"""Selects around a softmax that are looked through; PyTorch and JAX write one each."""


def _assemble(
    root: ir.Operation,
    parts: _Parts,
    outer: list[tuple[Apply, int]],
    given: dict[Expr, Expr],
) -> RowSoftmax | NoMatch:
    rank = len(ops.shape(root.results[0]))
    if parts.axis != rank - 1:
        return NoMatch(Reason.WRONG_AXIS, f"runs over axis {parts.axis} of a rank {rank} tensor")
    stops = {v for e in (parts.scores, *parts.masks) for v in tensors(e)}
    tests_maximum = False
    for select, kept in outer:
        condition = select.args[0]
        if _tells_closed_rows(parts, condition):
            minus_infinity = Const(-math.inf, type_of(parts.highest.init))
            closed = Apply(
                "arith.cmpf", (parts.highest, minus_infinity), predicates.OEQ, "i1", select.owner
            )
            given[condition] = closed
            tests_maximum = True
        else:
            stops.update(tensors(condition))
        stops.update(tensors(select.args[3 - kept]))
    return RowSoftmax(
        root,
        parts.scores,
        parts.highest,
        parts.power,
        parts.total,
        given,
        tests_maximum,
        frozenset(stops),
    )


def _tells_closed_rows(parts: _Parts, condition: Expr) -> bool:
    """Whether the condition says "-inf throughout", which `maximum == -inf` then says too.

    Not with a maximum that starts at a finite number, nor with one that ignores NaNs.
    """
    highest = parts.highest
    return (
        highest.combiner == "arith.maximumf"
        and number(highest.init) == -math.inf
        and all_closed(condition, parts.scores, parts.axis)
    )


def _parts_of_op(op: ir.Operation, result: Element, given: dict[Expr, Expr]) -> _Parts:
    """What a `linalg.softmax` computes, in the parts that IREE decomposes it into."""
    axis = ops.softmax_axis(op)
    kind = ops.element_type(op.results[0])
    scores = Element(op.operands[0], result.index, result.cache)
    along = (Loop(op, axis, ops.shape(op.results[0])[axis]),)
    highest = Reduce("arith.maximumf", scores, along, Const(-math.inf, kind), op)
    shifted = Apply("arith.subf", (scores, highest), "", kind, op)
    power = Apply("math.exp", (shifted,), "", kind, op)
    total = Reduce("arith.addf", power, along, Const(0.0, kind), op)
    given[result] = Apply("arith.divf", (power, total), "", kind, op)
    return _Parts(scores, highest, power, total, axis)


def _parts(node: Apply) -> _Parts | NoMatch | None:
    """The parts of `p / sum(p)`, `p * (1 / sum(p))` or `(s - max(s)) - log(sum(p))`."""
    for numerator, denominator in quotients(node):
        power, total = uncast(numerator), uncast(denominator)
        if isinstance(power, Apply) and power.op == "math.exp" and isinstance(total, Reduce):
            return _exponentials(power, total)
    if node.op == "arith.subf":
        logarithm = uncast(node.args[1])
        if isinstance(logarithm, Apply) and logarithm.op == "math.log":
            total = uncast(logarithm.args[0])
            if isinstance(total, Reduce):
                power = Apply("math.exp", (node.args[0],), "", logarithm.type, node.owner)
                return _exponentials(power, total)
    return None


def _exponentials(power: Apply, total: Reduce) -> _Parts | NoMatch:
    term, masks = uncast(total.arg), list[Expr]()
    if isinstance(term, Apply) and term.op == "arith.select" and number(term.args[2]) == 0:
        masks.append(term.args[0])
        term = uncast(term.args[1])
    binding: Binding = {}
    if total.combiner != "arith.addf" or number(total.init) != 0:
        return NoMatch(Reason.STRUCTURE, "the divisor is no sum from zero")
    if len(total.loops) != 1 or not same(term, power, binding):
        return NoMatch(Reason.STRUCTURE, "the sum is not one of what it divides")
    axis = binding.get(total.loops[0])
    shifted = uncast(power.args[0])
    if not isinstance(shifted, Apply) or shifted.op != "arith.subf":
        return NoMatch(Reason.STRUCTURE, "no maximum is subtracted before the exponential")
    scores = shifted.args[0]
    highest = without_floor(shifted.args[1])
    if not isinstance(highest, Reduce) or highest.combiner not in MAXIMA:
        return NoMatch(Reason.STRUCTURE, "what is subtracted before the exponential is no maximum")
    if number(highest.init) not in initial_numbers(highest):
        return NoMatch(Reason.CONSTANT_UNVERIFIED, "the maximum does not start at -inf")
    bound: Binding = {}
    if len(highest.loops) != 1 or not same(uncast(highest.arg), uncast(scores), bound):
        return NoMatch(Reason.STRUCTURE, "the maximum is taken of something else")
    if bound.get(highest.loops[0]) != axis:
        return NoMatch(Reason.WRONG_AXIS, "maximum and sum run over different axes")
    return _Parts(scores, highest, power, total, axis, tuple(masks))


# --- the group -----------------------------------------------------------------------------------


def group_of(found: RowSoftmax, *, fuse_prologue: bool) -> list[ir.Operation]:
    """The ops that compute the softmax and the elementwise ops before it, in block order.

    Args:
      found: the softmax.
      fuse_prologue: whether to take elementwise ops that a contraction could take as its epilogue.
    """
    group = dict.fromkeys(slices.backward_slice(found.root, found.stops))
    for element in found.given:
        op = ops.defining_op(element.value) if isinstance(element, Element) else None
        if op is not None and op.name == "linalg.softmax":
            group[op] = None

    def accepts(op: ir.Operation) -> bool:
        return _fits(op, found) and (fuse_prologue or not is_epilogue_of_compute(op))

    return slices.in_order([*group, *slices.exclusive_producers(group, accepts)])


def _fits(op: ir.Operation, found: RowSoftmax) -> bool:
    """Whether the op is elementwise over the softmax's space, without transposes."""
    if not ops.is_elementwise(op) or len(op.results) != 1 or not has_scalar_body(op):
        return False
    if ops.shape(op.results[0]) != ops.shape(found.root.results[0]):
        return False
    maps = ops.indexing_maps(op)
    loops = len(ops.iterator_types(op))
    return maps[-1] == tuple(range(loops)) and all(
        m is not None and None not in m and list(m) == sorted(set(m))  # type: ignore[type-var]
        for m in maps
    )


class Body:
    """What the group computes for one element, with the tensors in memory as leaves."""

    def __init__(self, found: RowSoftmax, group: Iterable[ir.Operation]) -> None:
        self.found = found
        self.members = set(group)

    def open(self, expr: Expr) -> Expr:
        """The expression with results of the group's ops replaced by what they compute."""
        while True:
            if expr in self.found.given:
                expr = self.found.given[expr]
            elif isinstance(expr, Element):
                if ops.defining_op(expr.value) not in self.members:
                    known = define(expr)
                    return known if isinstance(known, Const) else expr
                step = step_through(expr)
                if step is None:
                    return expr
                expr = step
            elif isinstance(expr, Apply) and expr != self.found.power and self._is_power(expr):
                return self.found.power
            else:
                return expr

    def _is_power(self, expr: Apply) -> bool:
        return expr.op == "math.exp" and same(expr, self.found.power)

    def leaves(self, expr: Expr, cuts: frozenset[Expr]) -> list[Expr]:
        """The elements and cut expressions that `expr` is made of, each once."""
        seen: dict[Expr, None] = {}
        found: dict[Expr, None] = {}
        work = [expr]
        while work:
            node = self.open(work.pop())
            if node in seen:
                continue
            seen[node] = None
            if isinstance(node, Apply) and node not in cuts:
                work += reversed(node.args)
            elif not isinstance(node, Const):
                found[node] = None
        return list(found)


def at_column(reduce: Reduce, column: int) -> Expr:
    """What is combined along a row, with the row's axis in place of the reduction loop."""
    loops = set(reduce.loops)

    def move(expr: Expr) -> Expr:
        if isinstance(expr, Element):
            index = tuple(column if i in loops else i for i in expr.index)
            return Element(expr.value, index, expr.cache)
        if isinstance(expr, Apply):
            args = tuple(move(a) for a in expr.args)
            return Apply(expr.op, args, expr.predicate, expr.type, expr.owner)
        return expr

    return move(reduce.arg)


def without_nans(reduce: Reduce, term: Expr) -> Expr:
    """The term with +inf in place of NaN: the maximum tells of a NaN even where `max` skips it.

    Everything in such a row comes out as NaN all the same: a finite score less +inf has an
    exponential of zero, and the NaN makes the sum one.
    """
    kind = type_of(reduce.init)
    is_nan = Apply("arith.cmpf", (term, term), predicates.UNO, "i1", reduce.owner)
    infinity = Const(math.inf, kind)
    return Apply("arith.select", (is_nan, infinity, term), "", kind, reduce.owner)
