"""Replace a condition or a mask with a value known at compile time by a constant.

    %t = linalg.generic {cmpf ogt, 64.0, 0.0}          tensor<i1>
    %c = tensor.extract %t[]                           i1
    %y = linalg.generic {select %c, %i, nan} ins(%x)   tensor<MxT>
  becomes
    %c = arith.constant true
    %y = linalg.generic {select %c, %i, nan} ins(%x)   tensor<MxT>

`jnp.var` guards its divisor like this: each call computes the comparison in a dispatch, and the
host waits for it before it starts the next. An `scf.if` on the constant becomes the branch that is
taken: PyTorch's recurrent layers ask whether there is a first iteration, and nothing around such a
branch is fused with ops in it.

    %m = linalg.generic {cmpf oeq, 1.0, inf}           tensor<MxNxi1>
    %n = linalg.generic {andi} ins(%m, %x)             tensor<MxNxi1>
  becomes
    %n = arith.constant dense<false>                   tensor<MxNxi1>

A quotient of complex numbers asks its constant operands for infinities like this. IREE folds such
masks inside a group, whose result is then connected with no other: it refuses the dispatch.

Root: a `tensor.extract` of a rank-0 i1 that one comparison of two constants computes,
floating-point ones or signed integers, without a cast in between; or an elementwise op on
tensors of booleans that are such a comparison, or `andi`, `ori` or `xori` that constants decide.
Numerics: exact.
Source: jax.numpy.var, which returns NaN where the degrees of freedom are not positive.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.expr.expressions import define, literal, start
from mlirfuse.structured.expr.nodes import Apply, Const
from mlirfuse.structured.ir import ops

_COMPARISONS = ("arith.cmpf", "arith.cmpi")

_LOGICAL: dict[str, Callable[[bool, bool], bool]] = {
    "arith.andi": operator.and_,
    "arith.ori": operator.or_,
    "arith.xori": operator.xor,
}


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a comparison of constants."""
    if root.name == "linalg.generic":
        return _decided_mask(root)
    source = root.operands[0]
    if ops.shape(source) or ops.element_type(source) != "i1":
        return None
    found = define(start(source))
    if not isinstance(found, Apply) or found.op not in _COMPARISONS:
        return None
    decided = _compared(found)
    if decided is None:
        return NoMatch(Reason.CONSTANT_UNVERIFIED, "the compared values are not constants")
    return Match(root, (root,), decided)


def _decided_mask(op: ir.Operation) -> Match | None:
    mask = op.results[0]
    if len(op.results) > 1 or not ops.shape(mask) or ops.element_type(mask) != "i1":
        return None
    found = define(start(mask)) if ops.is_elementwise(op) else None
    if not isinstance(found, Apply):
        return None
    decided = _compared(found) if found.op in _COMPARISONS else _combined(found)
    return None if decided is None else Match(op, (op,), decided)


def _compared(expr: Apply) -> bool | None:
    """The result of a comparison of two constants; None for other operands."""
    # A cast would round: the compared value is then not the constant.
    known = literal(expr) if all(isinstance(define(a), Const) for a in expr.args) else None
    return None if known is None else bool(known.number)


def _combined(expr: Apply) -> bool | None:
    """The result of a logical op whose constant operands decide it."""
    known = [bool(a.number) for a in map(define, expr.args) if isinstance(a, Const)]
    if expr.op == "arith.andi" and False in known:
        return False
    if expr.op == "arith.ori" and True in known:
        return True
    if expr.op not in _LOGICAL or len(known) < len(expr.args):
        return None
    return _LOGICAL[expr.op](*known)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Writes the constant."""
    op = match.root
    with ir.InsertionPoint(op), op.location:
        value = _mask(op, match.data) if op.name == "linalg.generic" else _scalar(match.data)
    branches = [user for user in ops.users(op.results[0]) if user.name == "scf.if"]
    op.results[0].replace_all_uses_with(value)
    op.erase()
    for branch in branches:
        taken = branch.regions[0 if match.data else 1]
        if len(taken.blocks):
            builders.replace_by_body(branch, taken.blocks[0])
        else:
            branch.erase()
    return ir.OpResult(value).owner


def _scalar(decided: bool) -> ir.Value:
    return builders.scalar_constant(decided, "i1")


def _mask(op: ir.Operation, decided: bool) -> ir.Value:
    """The mask as a constant, of which IREE folds the slices; as a fill where a size is dynamic.

    IREE refuses a dispatch of a fill and a slice of it, as of a mask in front of itself.
    """
    kind = op.results[0].type
    if None in ops.shape(op.results[0]):
        return builders.fill(_scalar(decided), ops.inits(op)[0])
    splat = ir.DenseElementsAttr.get_splat(kind, ir.BoolAttr.get(decided))
    return ir.Operation.create(
        "arith.constant", results=[kind], attributes={"value": splat}
    ).results[0]


PASS = FusionPass(
    name="decided_condition_rewrite",
    summary="Conditions and masks that constants decide become constants",
    roots=("tensor.extract", "linalg.generic"),
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    inner_first=True,
    source="jax.numpy.var",
)
