"""Compute the hyperbolic tangent of a softplus, as Mish has it, from one exponential.

    %s = softplus(%x)                                  several ops: log1p(exp(x)), x if it is large
    %t = linalg.generic {tanh} ins(%s)
  becomes
    %t = linalg.generic {exp, mulf, addf, divf} ins(%x)

With `e = exp(x)` and `n = e (e + 2)` it is `n / (n + 2)`: no logarithm, and no second function.
From 20 on it is 1 in every element type, also of this form, which computes `min(x, 20)`.

Root: an elementwise op of `math.tanh` alone, whose argument has the values of a softplus of a
tensor, in whatever way it is written. T f16, bf16, f32, f64; 16 bits are computed in f32. Numerics:
reassociating (the same function; about as accurate for x > 0, more so below).
Source: mlirfuse; Misra, Mish: A Self Regularized Non-Monotonic Activation Function, 2019.
"""

from __future__ import annotations

from collections.abc import Iterator

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders.numbers import HALVES, Numbers
from mlirfuse.core import FusionPass, Kind, Match, Numerics, PassContext
from mlirfuse.structured.expr import activations
from mlirfuse.structured.expr.expressions import define, start
from mlirfuse.structured.expr.nodes import Apply
from mlirfuse.structured.ir import ops

LARGE = 20.0
"""The tangent of the softplus is 1 from here on: it differs by 9e-18."""

MAX_DEPTH = 8
"""Ops between the softplus and its argument, in the longest form of a frontend."""

_FLOATS = frozenset({*HALVES, "f32", "f64"})


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds the tangent of a softplus."""
    if not ops.is_elementwise(root) or len(root.results) != 1 or ops.num_inputs(root) != 1:
        return None
    if "math.tanh" not in ops.scalar_names(root):
        return None
    found = define(start(root.results[0]))
    if not isinstance(found, Apply) or found.op != "math.tanh" or found.owner != root:
        return None
    if ops.element_type(root.results[0]) not in _FLOATS:
        return None
    (softplus,) = found.args
    for value in _upstream(root):
        x = start(value)
        if activations.classify(softplus, x, ("softplus",)) is not None:
            return Match(root, (root,), value) if activations.propagates_nan(softplus, x) else None
    return None


def _upstream(root: ir.Operation) -> Iterator[ir.Value]:
    """The tensors of the root's shape and type that it is computed from, the nearest first."""
    kind, known, nearest = root.results[0].type, set(), [root]
    for _ in range(MAX_DEPTH):
        operands = [value for op in nearest for value in ops.inputs(op) if value not in known]
        known.update(operands)
        yield from (value for value in dict.fromkeys(operands) if value.type == kind)
        producers = [op for value in operands if (op := ops.defining_op(value)) is not None]
        nearest = [op for op in dict.fromkeys(producers) if ops.is_elementwise(op)]


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the op on the argument of the softplus."""
    root, value = match.root, match.data
    rank = len(ops.shape(value))
    whole = tuple(range(rank))
    with ir.InsertionPoint(root), root.location:
        new = builders.generic(
            [value], ops.inits(root), [whole, whole], ["parallel"] * rank, _tangent
        )
    root.results[0].replace_all_uses_with(new.results[0])
    root.erase()
    return new


def _tangent(arguments: list[ir.Value]) -> list[ir.Value]:
    x = arguments[0]
    kind = str(x.type)
    f = Numbers(x.type, "f32" if kind in HALVES else kind)
    x = f.op("arith.extf", x) if kind in HALVES else x
    e = f.op("math.exp", f.op("arith.minimumf", x, f.constant(LARGE)))
    n = f.mul(e, f.add(e, f.constant(2.0)))
    y = f.op("arith.divf", n, f.add(n, f.constant(2.0)))
    return [f.op("arith.truncf", y, element=kind) if kind in HALVES else y]


PASS = FusionPass(
    name="tanh_softplus_rewrite",
    summary="The tangent of a softplus, as in Mish, is computed from one exponential",
    roots=("linalg.generic",),
    where=ops.is_generic,
    match=match,
    rewrite=rewrite,
    numerics=Numerics.REASSOCIATING,
    kind=Kind.REWRITE,
    source="Misra, Mish, 2019",
)
