"""Recognition of softmax and log softmax over rows, with selects and casts of the result.

Unlike `softmax`, it returns the parts of the decomposition, including casts between them and a mask
on the summed exponentials: a group computes each part once, as the graph does.
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
    define,
    number,
    start,
    tensors,
    type_of,
    uncast,
    under_casts_and_selects,
)
from mlirfuse.structured.expr.nodes import Apply, Const, Element, Expr, Index, Loop, Reduce
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.ir.fusable_neighbors import (
    has_scalar_body,
    is_epilogue_of_compute,
    only_widens,
)
from mlirfuse.structured.recognize.softmax import (
    MAXIMUM_OPS,
    initial_numbers,
    tests_fully_masked,
    without_floor,
)


@dataclasses.dataclass(frozen=True, slots=True)
class RowSoftmax:
    """A softmax over the last axis, in expressions at the loops of the root's result.

    Attributes:
      root: last op: a cast or select, the quotient, or the `linalg.softmax`.
      scores: argument of the softmax.
      maximum: maximum of the scores over a row.
      numerator: exponential of a score minus the maximum.
      denominator: sum of the exponentials over a row.
      replacements: substitutes of expressions: for the result of a `linalg.softmax` its
        decomposition, for a test for rows of -inf alone a test of the maximum.
      tests_maximum: whether there is such a test, in which a NaN of the row must show.
      stops: tensors that the softmax reads: the scores and the conditions of selects.
    """

    root: ir.Operation
    scores: Expr
    maximum: Reduce
    numerator: Apply
    denominator: Reduce
    replacements: Mapping[Expr, Expr]
    tests_maximum: bool
    stops: frozenset[ir.Value]

    @property
    def column(self) -> int:
        """The axis over which the softmax normalizes."""
        return len(ops.shape(self.root.results[0])) - 1


@dataclasses.dataclass(frozen=True, slots=True)
class _Parts:
    scores: Expr
    maximum: Reduce
    numerator: Apply
    denominator: Reduce
    axis: Index
    masks: tuple[Expr, ...] = ()


def may_end_softmax(root: ir.Operation) -> bool:
    """Whether the op has one result and an exponential in it or upstream: a fast filter."""
    return len(root.results) == 1 and upstream_math.computes(root, upstream_math.EXPONENTIAL)


def find_row_softmax(root: ir.Operation) -> RowSoftmax | NoMatch | None:
    """Recognizes the softmax that ends at the op.

    Returns:
      The softmax; a refusal when the op itself is one except for a fact; None for any other op, and
      for an op on a softmax that has other users.
    """
    if not may_end_softmax(root):
        return None
    outer: list[tuple[Apply, int]] = []
    inner = _under_epilogue(root, outer)
    replacements: dict[Expr, Expr] = {}
    parts: _Parts | NoMatch | None = None
    owner: ir.Operation | None = None
    if isinstance(inner, Element):
        owner = ops.defining_op(inner.value)
        assert owner is not None, "an element stands for the result of a linalg.softmax"
        parts = _parts_of_op(owner, inner, replacements)
    elif inner is not None:
        owner, parts = inner.owner, _parts(inner)
    if parts is None:
        return None
    found = parts if isinstance(parts, NoMatch) else _assemble(root, parts, outer, replacements)
    return None if isinstance(found, NoMatch) and owner != root else found


def _under_epilogue(root: ir.Operation, outer: list[tuple[Apply, int]]) -> Element | Apply | None:
    """The quotient or the `linalg.softmax` result under the root's casts and selects.

    Appends the selects to `outer`, each with the index of the operand that contains the softmax.
    """
    top = start(root.results[0])

    def step(element: Element) -> Expr | None:
        owner = ops.defining_op(element.value)
        if owner is None or element.index != top.index:
            return None
        if owner != root and len(ops.users(element.value)) != 1:
            return None
        if owner.name == "linalg.softmax":
            return element
        return step_through(element) if ops.is_elementwise(owner) else None

    def kept_operand(select: Apply) -> int | None:
        if len(outer) == _MAX_SELECTS:
            return None
        kept = 2 if number(select.args[1]) is not None else 1
        outer.append((select, kept))
        return kept

    return under_casts_and_selects(top, step, kept_operand)


_MAX_SELECTS = 4
"""Selects after a softmax that recognition looks through; PyTorch and JAX write one each."""


def _assemble(
    root: ir.Operation,
    parts: _Parts,
    outer: list[tuple[Apply, int]],
    replacements: dict[Expr, Expr],
) -> RowSoftmax | NoMatch:
    rank = len(ops.shape(root.results[0]))
    if parts.axis != rank - 1:
        return NoMatch(Reason.WRONG_AXIS, f"over axis {parts.axis} of a tensor of rank {rank}")
    stops = {v for e in (parts.scores, *parts.masks) for v in tensors(e)}
    tests_maximum = False
    for select, kept in outer:
        condition = select.args[0]
        if _is_test_of_maximum(parts, condition):
            minus_infinity = Const(-math.inf, type_of(parts.maximum.init))
            closed = Apply(
                "arith.cmpf", (parts.maximum, minus_infinity), predicates.OEQ, "i1", select.owner
            )
            replacements[condition] = closed
            tests_maximum = True
        else:
            stops.update(tensors(condition))
        stops.update(tensors(select.args[3 - kept]))
    return RowSoftmax(
        root,
        parts.scores,
        parts.maximum,
        parts.numerator,
        parts.denominator,
        replacements,
        tests_maximum,
        frozenset(stops),
    )


def _is_test_of_maximum(parts: _Parts, condition: Expr) -> bool:
    """Whether the condition tests for a row of -inf alone and is equivalent to `maximum == -inf`.

    It is not equivalent with a maximum that starts at a finite number or ignores NaNs.
    """
    maximum = parts.maximum
    return (
        maximum.combiner == "arith.maximumf"
        and number(maximum.init) == -math.inf
        and tests_fully_masked(condition, parts.scores, parts.axis)
    )


def _parts_of_op(op: ir.Operation, result: Element, replacements: dict[Expr, Expr]) -> _Parts:
    """The parts into which IREE decomposes a `linalg.softmax`."""
    axis = ops.softmax_axis(op)
    kind = ops.element_type(op.results[0])
    scores = Element(op.operands[0], result.index, result.cache)
    along = (Loop(op, axis, ops.shape(op.results[0])[axis]),)
    maximum = Reduce("arith.maximumf", scores, along, Const(-math.inf, kind), op)
    shifted = Apply("arith.subf", (scores, maximum), "", kind, op)
    numerator = Apply("math.exp", (shifted,), "", kind, op)
    denominator = Reduce("arith.addf", numerator, along, Const(0.0, kind), op)
    replacements[result] = Apply("arith.divf", (numerator, denominator), "", kind, op)
    return _Parts(scores, maximum, numerator, denominator, axis)


def _parts(node: Apply) -> _Parts | NoMatch | None:
    """The parts of `p / sum(p)`, `p * (1 / sum(p))` or `(s - max(s)) - log(sum(p))`."""
    for numerator, denominator in quotients(node):
        numerator, denominator = uncast(numerator), uncast(denominator)
        if (
            isinstance(numerator, Apply)
            and numerator.op == "math.exp"
            and isinstance(denominator, Reduce)
        ):
            return _exponentials(numerator, denominator)
    if node.op == "arith.subf":
        logarithm = uncast(node.args[1])
        if isinstance(logarithm, Apply) and logarithm.op == "math.log":
            denominator = uncast(logarithm.args[0])
            if isinstance(denominator, Reduce):
                numerator = Apply("math.exp", (node.args[0],), "", logarithm.type, node.owner)
                return _exponentials(numerator, denominator)
    return None


def _exponentials(numerator: Apply, denominator: Reduce) -> _Parts | NoMatch:
    term, masks = uncast(denominator.arg), list[Expr]()
    if isinstance(term, Apply) and term.op == "arith.select" and number(term.args[2]) == 0:
        masks.append(term.args[0])
        term = uncast(term.args[1])
    binding: Binding = {}
    if denominator.combiner != "arith.addf" or number(denominator.init) != 0:
        return NoMatch(Reason.STRUCTURE, "the denominator is no sum from zero")
    if len(denominator.loops) != 1 or not same(term, numerator, binding):
        return NoMatch(Reason.STRUCTURE, "the denominator is not the sum of the numerators")
    axis = binding.get(denominator.loops[0])
    shifted = uncast(numerator.args[0])
    if not isinstance(shifted, Apply) or shifted.op != "arith.subf":
        return NoMatch(Reason.STRUCTURE, "no maximum is subtracted before the exponential")
    scores = shifted.args[0]
    maximum = without_floor(shifted.args[1])
    if not isinstance(maximum, Reduce) or maximum.combiner not in MAXIMUM_OPS:
        return NoMatch(
            Reason.STRUCTURE, "the value subtracted before the exponential is no maximum"
        )
    if number(maximum.init) not in initial_numbers(maximum):
        return NoMatch(Reason.CONSTANT_UNVERIFIED, "the maximum does not start at -inf")
    bound: Binding = {}
    if len(maximum.loops) != 1 or not same(uncast(maximum.arg), uncast(scores), bound):
        return NoMatch(Reason.STRUCTURE, "the maximum is not that of the scores")
    if bound.get(maximum.loops[0]) != axis:
        return NoMatch(Reason.WRONG_AXIS, "maximum and sum reduce different axes")
    return _Parts(scores, maximum, numerator, denominator, axis, tuple(masks))


# --- the group -----------------------------------------------------------------------------------


def group_of(found: RowSoftmax, *, fuse_prologue: bool) -> list[ir.Operation]:
    """The ops that compute the softmax and the elementwise ops before it, in block order.

    Args:
      found: the softmax.
      fuse_prologue: whether to include elementwise ops that could be a contraction's epilogue. One
        that widens its result is included in any case: the contraction writes half the bytes.
    """
    group = dict.fromkeys(slices.backward_slice(found.root, found.stops))
    for element in found.replacements:
        op = ops.defining_op(element.value) if isinstance(element, Element) else None
        if op is not None and op.name == "linalg.softmax":
            group[op] = None

    def accepts(op: ir.Operation) -> bool:
        if not _fits(op, found):
            return False
        return fuse_prologue or only_widens(op) or not is_epilogue_of_compute(op)

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
    """The expressions of a group's elements, with tensors in memory as leaves."""

    def __init__(self, found: RowSoftmax, group: Iterable[ir.Operation]) -> None:
        self.found = found
        self.members = set(group)

    def expand(self, expr: Expr) -> Expr:
        """The expression, with a result of the group's ops expanded to its definition."""
        while True:
            if expr in self.found.replacements:
                expr = self.found.replacements[expr]
            elif isinstance(expr, Element):
                if ops.defining_op(expr.value) not in self.members:
                    known = define(expr)
                    return known if isinstance(known, Const) else expr
                step = step_through(expr)
                if step is None:
                    return expr
                expr = step
            elif (
                isinstance(expr, Apply)
                and expr != self.found.numerator
                and self._is_numerator(expr)
            ):
                return self.found.numerator
            else:
                return expr

    def _is_numerator(self, expr: Apply) -> bool:
        return expr.op == "math.exp" and same(expr, self.found.numerator)

    def leaves(self, expr: Expr, cuts: frozenset[Expr]) -> list[Expr]:
        """The elements and `cuts` in the expression, each once."""
        seen: dict[Expr, None] = {}
        found: dict[Expr, None] = {}
        work = [expr]
        while work:
            node = self.expand(work.pop())
            if node in seen:
                continue
            seen[node] = None
            if isinstance(node, Apply) and node not in cuts:
                work += reversed(node.args)
            elif not isinstance(node, Const):
                found[node] = None
        return list(found)


def at_column(reduce: Reduce, column: int) -> Expr:
    """The reduced expression with the row's axis in place of the reduction loop."""
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
    """The term with +inf in place of NaN: the maximum shows a NaN even where `max` skips it.

    Such a row still results in NaN: a finite score minus +inf has an exponential of zero, and the
    NaN makes the sum NaN.
    """
    kind = type_of(reduce.init)
    is_nan = Apply("arith.cmpf", (term, term), predicates.UNO, "i1", reduce.owner)
    infinity = Const(math.inf, kind)
    return Apply("arith.select", (is_nan, infinity, term), "", kind, reduce.owner)
