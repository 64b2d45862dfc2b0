"""Recognition of a softmax over one loop, as one op or decomposed.

The decomposed form is `exp(s - max(s)) / sum(exp(s - max(s)))`, or a product with the reciprocal
of the sum. PyTorch's softmax in attention selects zero for a row whose scores are all -inf; the
recognized softmax includes that select.
"""

from __future__ import annotations

import dataclasses
import math

from mlirfuse.structured.expr import predicates, reshapes
from mlirfuse.structured.expr.arithmetic import quotients
from mlirfuse.structured.expr.comparison import Binding, same
from mlirfuse.structured.expr.expressions import number, type_of, uncast, under_casts_and_selects
from mlirfuse.structured.expr.loop_domains import holds
from mlirfuse.structured.expr.nodes import Apply, Element, Expr, Index, Loop, Reduce
from mlirfuse.structured.ir import ops


@dataclasses.dataclass(frozen=True, slots=True)
class Softmax:
    """A softmax and the select around it: `select(zero_if, 0, softmax(scores))`.

    Attributes:
      scores: argument of the softmax.
      zero_if: condition of the select; None without one.
    """

    scores: Expr
    zero_if: Expr | None


def find_softmax(weights: Element, key: Loop) -> Softmax | None:
    """The softmax over `key` that computes the element, up to reshapes, transposes and casts."""
    conditions: list[Expr] = []

    def step(element: Element) -> Expr | None:
        return reshapes.step(element) if _softmax_op(element, key) is None else element

    def kept_operand(select: Apply) -> int | None:
        if conditions or number(select.args[1]) != 0:
            return None
        conditions.append(select.args[0])
        return 2

    inner = under_casts_and_selects(weights, step, kept_operand)
    if inner is None:
        return None
    scores = _softmax_op(inner, key) if isinstance(inner, Element) else _decomposed(inner, key)
    return None if scores is None else Softmax(scores, conditions[0] if conditions else None)


def _softmax_op(element: Element, key: Loop) -> Element | None:
    op = ops.defining_op(element.value)
    if op is None or op.name != "linalg.softmax":
        return None
    axis = ops.softmax_axis(op)
    others = (index for dim, index in enumerate(element.index) if dim != axis)
    if element.index[axis] != key or any(holds(index, key) for index in others):
        return None
    return Element(op.operands[0], element.index, element.cache)


def _decomposed(node: Apply, key: Loop) -> Expr | None:
    """The scores of a decomposed softmax; None for any other quotient."""
    for numerator, denominator in quotients(node):
        if not _reduces(uncast(denominator), ("arith.addf",), numerator, key):
            continue
        exponential = uncast(numerator)
        if not isinstance(exponential, Apply) or exponential.op != "math.exp":
            continue
        shifted = uncast(exponential.args[0])
        if isinstance(shifted, Apply) and shifted.op == "arith.subf":
            scores, maximum = shifted.args
            if _reduces(without_floor(maximum), MAXIMUM_OPS, scores, key):
                return scores
    return None


MAXIMUM_OPS = ("arith.maximumf", "arith.maxnumf")


def without_floor(maximum: Expr) -> Expr:
    """The maximum under casts and under another maximum with -inf, which JAX adds."""
    node = uncast(maximum)
    if isinstance(node, Apply) and node.op in MAXIMUM_OPS:
        for a, b in (node.args, node.args[::-1]):
            if number(a) == -math.inf:
                return uncast(b)
    return node


def _reduces(node: Expr, combiners: tuple[str, ...], arg: Expr, key: Loop) -> bool:
    """Whether the node reduces `arg` over `key` alone."""
    if not isinstance(node, Reduce) or node.combiner not in combiners or len(node.loops) != 1:
        return False
    if number(node.init) not in initial_numbers(node):
        return False
    binding: Binding = {}
    return same(node.arg, arg, binding) and binding.get(node.loops[0]) == key


def initial_numbers(node: Reduce) -> tuple[float | None, ...]:
    """The initial values of a sum or a maximum that do not change its result."""
    if node.combiner == "arith.addf":
        return (0.0,)
    largest = ops.MAX_FINITE.get(type_of(node.init))
    return (-math.inf, None if largest is None else -largest)


def tests_fully_masked(condition: Expr, scores: Expr, key: Index) -> bool:
    """Whether the i1 expression tests that the scores are -inf at every key.

    The test is `all(s == -inf)` or `not any(not (s == -inf))`.
    """
    node, some = _without_not(condition)
    wanted = ("arith.ori", 0) if some else ("arith.andi", 1)
    if not isinstance(node, Reduce) or (node.combiner, number(node.init)) != wanted:
        return False
    test, negated = _without_not(node.arg)
    predicate = predicates.OEQ if negated == some else predicates.UNE
    if not isinstance(test, Apply) or (test.op, test.predicate) != ("arith.cmpf", predicate):
        return False
    binding: Binding = {}
    return (
        number(test.args[1]) == -math.inf
        and same(test.args[0], scores, binding)
        and [binding.get(loop) for loop in node.loops] == [key]
    )


def tests_unmasked(condition: Expr, addend: Expr, mask: Expr | None, key: Index) -> bool:
    """Whether the i1 expression tests that a mask leaves a score at some key.

    The test is `any(keep)` for a mask of i1, and `any(addend != -inf)` for one of numbers.

    Args:
      condition: the expression.
      addend: the mask as the graph adds it to the scores.
      mask: the mask as a group computes it, i1 or f32.
      key: the index of the keys.
    """
    node = uncast(condition)
    if not isinstance(node, Reduce) or (node.combiner, number(node.init)) != ("arith.ori", 0):
        return False
    binding: Binding = {}
    if mask is not None and type_of(mask) == "i1":
        found = same(node.arg, mask, binding)
    else:
        test = uncast(node.arg)
        found = (
            isinstance(test, Apply)
            and (test.op, test.predicate) == ("arith.cmpf", predicates.UNE)
            and number(test.args[1]) == -math.inf
            and same(test.args[0], addend, binding)
        )
    return found and [binding.get(loop) for loop in node.loops] == [key]


def tests_nan(condition: Expr, scores: Expr, key: Index) -> bool:
    """Whether the i1 expression tests that the softmax of the scores is NaN.

    It is NaN in a row whose scores are all -inf, or one of which is NaN or inf.
    """
    test = uncast(condition)
    if not isinstance(test, Apply) or test.op != "arith.cmpf" or not isinstance(key, Loop):
        return False
    weights, other = test.args
    if test.predicate not in (predicates.UNO, predicates.UNE) or not same(weights, other):
        return False
    found = find_softmax(weights, key) if isinstance(weights, Element) else None
    return found is not None and found.zero_if is None and same(found.scores, scores)


def _without_not(condition: Expr) -> tuple[Expr, bool]:
    """The i1 expression under its negations, and whether there is an odd number of them."""
    node, odd = uncast(condition), False
    while isinstance(node, Apply) and len(node.args) == 2 and type_of(node.args[0]) == "i1":
        flips = node.op == "arith.xori" and number(node.args[1]) == 1
        equals = node.op == "arith.cmpi" and node.predicate == predicates.EQ
        if not flips and not (equals and number(node.args[1]) == 0):
            break
        node, odd = uncast(node.args[0]), not odd
    return node, odd
