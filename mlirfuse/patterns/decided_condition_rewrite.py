"""Replace a condition with a value known at compile time by a constant.

    %t = linalg.generic {cmpf ogt, 64.0, 0.0}          tensor<i1>
    %c = tensor.extract %t[]                           i1
    %y = linalg.generic {select %c, %i, nan} ins(%x)   tensor<MxT>
  becomes
    %c = arith.constant true
    %y = linalg.generic {select %c, %i, nan} ins(%x)   tensor<MxT>

`jnp.var` guards its divisor like this: each call computes the comparison in a dispatch, and the
host waits for it before it starts the next. Root: a `tensor.extract` of a rank-0 i1 that one
comparison of two constants computes, floating-point ones or signed integers, without a cast in
between.
Numerics: exact.
Source: jax.numpy.var, which returns NaN where the degrees of freedom are not positive.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.expr.expressions import define, literal, start
from mlirfuse.structured.expr.nodes import Apply, Const
from mlirfuse.structured.ir import ops


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a comparison of constants."""
    source = root.operands[0]
    if ops.shape(source) or ops.element_type(source) != "i1":
        return None
    found = define(start(source))
    if not isinstance(found, Apply) or found.op not in ("arith.cmpf", "arith.cmpi"):
        return None
    # A cast would round: the compared value is then not the constant.
    decided = literal(found) if all(isinstance(define(a), Const) for a in found.args) else None
    if decided is None:
        return NoMatch(Reason.CONSTANT_UNVERIFIED, "the compared values are not constants")
    return Match(root, (root,), bool(decided.number))


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Writes the constant."""
    op = match.root
    with ir.InsertionPoint(op), op.location:
        value = builders.scalar_constant(match.data, "i1")
    op.results[0].replace_all_uses_with(value)
    op.erase()
    return ir.OpResult(value).owner


PASS = FusionPass(
    name="decided_condition_rewrite",
    summary="Comparisons of constants become the constant, instead of a dispatch",
    roots=("tensor.extract",),
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    source="jax.numpy.var",
)
