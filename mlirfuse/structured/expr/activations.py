"""Recognition of activation functions by their values, independent of how they are written.

The scalar function is evaluated in float64 at sample points and compared with the definition. This
verifies every constant in it, for any order of operations.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Mapping

from iree.compiler import ir

from mlirfuse.structured.expr import predicates
from mlirfuse.structured.expr.comparison import same
from mlirfuse.structured.expr.expressions import define
from mlirfuse.structured.expr.nodes import Apply, Const, Element, Expr
from mlirfuse.structured.ir import ops

Function = Callable[[float], float]

SMOOTH: dict[str, Function] = {
    "gelu_erf": lambda x: 0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0))),
    "gelu_tanh": lambda x: (
        0.5 * x * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "silu": lambda x: x / (1.0 + math.exp(-x)),
    "sigmoid": lambda x: 1.0 / (1.0 + math.exp(-x)),
    "tanh": math.tanh,
    "softplus": lambda x: math.log1p(math.exp(x)),
}

PIECEWISE: dict[str, Function] = {
    "relu": lambda x: max(x, 0.0),
    "relu6": lambda x: min(max(x, 0.0), 6.0),
}

LEAKY = "leaky_relu"
"""A ReLU whose slope below zero is any number between 0 and 1."""

RAMPS = (*PIECEWISE, LEAKY)

_NEAR = tuple(i * 0.37 - 5.9 for i in range(33))

# A clamp shows only beyond its bound; the largest sample is near the maximum of f16.
_FAR = tuple(sign * x for sign in (-1.0, 1.0) for x in (6.5, 10.0, 130.0, 6.0e4))

# Constants in the graph are rounded to its element type: about three unit roundoffs of each type.
_TOLERANCE = {"f32": 1e-6, "f64": 1e-12, "f16": 3e-3, "bf16": 2e-2}

_MAX_NODES = 100
"""Bound on the evaluated ops, and on the recursion; an activation has far fewer."""

_UNARY: dict[str, Function] = {
    "math.erf": math.erf,
    "math.tanh": math.tanh,
    "math.exp": math.exp,
    "math.log": math.log,
    "math.log1p": math.log1p,
    "math.sqrt": math.sqrt,
    "math.rsqrt": lambda a: 1.0 / math.sqrt(a),
    "math.absf": abs,
    "arith.negf": lambda a: -a,
    "arith.extf": lambda a: a,
    "arith.truncf": lambda a: a,
}

_TRANSCENDENTAL = frozenset({"math.erf", "math.tanh", "math.exp"})

_PIECEWISE_OPS = frozenset(
    {"arith.maximumf", "arith.maxnumf", "arith.minimumf", "arith.minnumf", "arith.select"}
)

_BINARY: dict[str, Callable[[float, float], float]] = {
    "arith.addf": lambda a, b: a + b,
    "arith.subf": lambda a, b: a - b,
    "arith.mulf": lambda a, b: a * b,
    "arith.divf": lambda a, b: a / b,
    "math.powf": lambda a, b: a**b,
    "arith.maximumf": lambda a, b: a if a > b or math.isnan(a) else b,
    "arith.minimumf": lambda a, b: a if a < b or math.isnan(a) else b,
    "arith.maxnumf": lambda a, b: a if a > b or math.isnan(b) else b,
    "arith.minnumf": lambda a, b: a if a < b or math.isnan(b) else b,
}

_COMPARISONS = {
    **predicates.ORDERED_INEQUALITIES,
    **predicates.UNORDERED_INEQUALITIES,
    predicates.UNE: operator.ne,
}


def may_hold_one(op: ir.Operation, names: Collection[str]) -> bool:
    """Whether the op contains a scalar op of one of the activations. No is certain."""
    wanted = (_TRANSCENDENTAL if any(n in SMOOTH for n in names) else frozenset()) | (
        _PIECEWISE_OPS if any(n in RAMPS for n in names) else frozenset()
    )
    return not wanted.isdisjoint(ops.scalar_names(op))


def classify(expr: Expr, variable: Expr, names: Collection[str] = tuple(SMOOTH)) -> str | None:
    """The activation among `names` that `expr` computes of `variable`; None for any other function.

    The expression may contain nothing but the variable and constants. Shared subexpressions are
    evaluated once.
    """
    smooth = {name: SMOOTH[name] for name in names if name in SMOOTH}
    ramps: dict[str, Function | None] = {n: PIECEWISE.get(n) for n in names if n in RAMPS}
    found = _first(smooth, expr, variable, _NEAR) if smooth else None
    return found or (_first(ramps, expr, variable, _NEAR + _FAR) if ramps else None)


def propagates_nan(expr: Expr, variable: Expr) -> bool:
    """Whether an expression that `classify` takes is NaN where its variable is."""
    values = _Evaluator(variable, (math.nan,)).values(expr)
    return values is not None and math.isnan(values[0])


def _first(
    definitions: Mapping[str, Function | None],
    expr: Expr,
    variable: Expr,
    samples: tuple[float, ...],
) -> str | None:
    evaluator = _Evaluator(variable, samples)
    try:
        values = evaluator.values(expr)
    except (ArithmeticError, ValueError):
        return None
    if values is None:
        return None
    limit = max(_TOLERANCE.get(kind, 0.0) for kind in ("f32", *evaluator.types))
    for name, definition in definitions.items():
        function = definition or _leaky(values, samples)
        if function is None:
            continue
        wanted = [function(x) for x in samples]
        near = (abs(v - w) <= limit * (1.0 + abs(w)) for v, w in zip(values, wanted, strict=True))
        if all(near):
            return name
    return None


def _leaky(values: list[float], samples: tuple[float, ...]) -> Function | None:
    """The leaky ReLU with the slope that the values have at the lowest sample."""
    lowest = min(samples)
    slope = values[samples.index(lowest)] / lowest
    return (lambda x: x if x > 0 else slope * x) if 0 < slope < 1 else None


class _Evaluator:
    """Evaluates expressions of one variable at all sample points.

    Attributes:
      types: element types of the evaluated ops.
    """

    def __init__(self, variable: Expr, samples: tuple[float, ...]) -> None:
        self.variable = variable
        self.samples = samples
        self.types: set[str] = set()
        # Keyed by object identity: the caches of the elements keep every node alive.
        self.known: dict[int, list[float] | None] = {}

    def values(self, expr: Expr) -> list[float] | None:
        """The value at each sample; None for an expression of more than the variable."""
        if expr == self.variable or (isinstance(expr, Element) and same(expr, self.variable)):
            return list(self.samples)
        node = define(expr)
        if isinstance(node, Const):
            return [float(node.number)] * len(self.samples)
        if not isinstance(node, Apply):
            return None
        if id(node) not in self.known and len(self.known) < _MAX_NODES:
            self.known[id(node)] = None
            self.known[id(node)] = self._apply(node)
        return self.known.get(id(node))

    def _apply(self, node: Apply) -> list[float] | None:
        self.types.add(node.type)
        args = []
        for arg in node.args:
            values = self.values(arg)
            if values is None:
                return None
            args.append(values)
        if node.op in _UNARY:
            return [_UNARY[node.op](a) for a in args[0]]
        if node.op in _BINARY:
            return [_BINARY[node.op](a, b) for a, b in zip(*args, strict=True)]
        if node.op == "arith.cmpf" and node.predicate in _COMPARISONS:
            compare = _COMPARISONS[node.predicate]
            return [float(compare(a, b)) for a, b in zip(*args, strict=True)]
        if node.op == "arith.select":
            return [a if chosen else b for chosen, a, b in zip(*args, strict=True)]
        return None
