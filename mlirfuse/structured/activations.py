"""Recognition of activation functions by what they compute, not by how they are written.

The scalar function is evaluated at sample points in float64 and compared with the definition: every
constant in it is verified that way, whatever the order of operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mlirfuse.structured.expressions import (
    Apply,
    Const,
    Element,
    Expr,
    define,
    same,
)

Function = Callable[[float], float]

DEFINITIONS: dict[str, Function] = {
    "gelu_erf": lambda x: 0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0))),
    "gelu_tanh": lambda x: (
        0.5 * x * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "silu": lambda x: x / (1.0 + math.exp(-x)),
    "sigmoid": lambda x: 1.0 / (1.0 + math.exp(-x)),
    "tanh": math.tanh,
}

_SAMPLES = tuple(i * 0.37 - 5.9 for i in range(33))

# Constants in the graph are rounded to its element type; the unit roundoff of each, with room for
# three of them in one function.
_TOLERANCE = {"f32": 1e-6, "f64": 1e-12, "f16": 3e-3, "bf16": 2e-2}

_UNARY: dict[str, Function] = {
    "math.erf": math.erf,
    "math.tanh": math.tanh,
    "math.exp": math.exp,
    "math.sqrt": math.sqrt,
    "math.rsqrt": lambda a: 1.0 / math.sqrt(a),
    "math.absf": abs,
    "arith.negf": lambda a: -a,
    "arith.extf": lambda a: a,
    "arith.truncf": lambda a: a,
}

_BINARY: dict[str, Callable[[float, float], float]] = {
    "arith.addf": lambda a, b: a + b,
    "arith.subf": lambda a, b: a - b,
    "arith.mulf": lambda a, b: a * b,
    "arith.divf": lambda a, b: a / b,
    "math.powf": lambda a, b: a**b,
    "arith.maximumf": max,
    "arith.minimumf": min,
    "arith.maxnumf": max,
    "arith.minnumf": min,
}


def classify(expr: Expr, variable: Expr) -> str | None:
    """The name of the activation that `expr` is of `variable`, or None.

    The expression may read nothing but the variable and constants.
    """
    names = list(DEFINITIONS)
    limit = _TOLERANCE[_narrowest(expr, variable)]
    for x in _SAMPLES:
        try:
            value = _evaluate(expr, variable, x)
        except (ArithmeticError, ValueError):
            return None
        if value is None:
            return None
        names = [
            n
            for n in names
            if abs(value - DEFINITIONS[n](x)) <= limit * (1.0 + abs(DEFINITIONS[n](x)))
        ]
        if not names:
            return None
    return names[0]


def _narrowest(expr: Expr, variable: Expr) -> str:
    found = "f32"
    node = expr if expr == variable else define(expr)
    if isinstance(node, Apply) and not same(node, variable):
        for part in (node.type, *(_narrowest(a, variable) for a in node.args)):
            if _TOLERANCE.get(part, 0.0) > _TOLERANCE[found]:
                found = part
    return found


def _evaluate(expr: Expr, variable: Expr, x: float) -> float | None:
    if expr == variable or (isinstance(expr, Element) and same(expr, variable)):
        return x
    node = define(expr)
    if isinstance(node, Const):
        return float(node.number)
    if not isinstance(node, Apply):
        return None
    args = [_evaluate(a, variable, x) for a in node.args]
    values = [a for a in args if a is not None]
    if len(values) != len(args):
        return None
    if node.op in _UNARY:
        return _UNARY[node.op](values[0])
    if node.op in _BINARY:
        return _BINARY[node.op](values[0], values[1])
    return None
