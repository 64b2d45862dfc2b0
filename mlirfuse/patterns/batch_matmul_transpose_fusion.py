"""Fold a transpose of a contraction's result into the contraction's result map.

    %c = linalg.generic {mulf, addf} ins(%p, %v)       tensor<BxHxMxDxT>
    %y = linalg.generic {transpose} ins(%c)            tensor<BxMxHxDxT>
  becomes
    %y = flow.dispatch.region { %p * %v }              tensor<BxMxHxDxT>, written as (b, m, h, d)

Root: a contraction in the form of a generic, as transpose_matmul_fusion leaves it. The transpose is
its only user and the accumulator starts from a constant. Any permutation, sizes static or
dynamic, any element type. Numerics: exact (the same operations in the same order).
Source: MindSpore transpose_batch_matmul_transpose_fusion, the last of its three ops.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import matrix_instructions
from mlirfuse.structured.recognize.permutations import transposed_order


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a contraction whose only user transposes it."""
    if not ops.is_contraction(root) or not ops.is_generic(root):
        return None
    users = ops.users(root.results[0])
    transposes = [u for u in users if transposed_order(u) is not None]
    if not transposes:
        return None
    if len(users) != 1 or users[0].block != root.block:
        return NoMatch(Reason.EXTRA_USERS, "the result is read untransposed too")
    init = ops.defining_op(root.operands[2])
    if init is None or init.name != "linalg.fill" or not slices.is_clonable(init):
        return NoMatch(Reason.CONSTANT_UNVERIFIED, "the accumulator does not start as a constant")
    return Match(root, (root, transposes[0]))


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses a form that the target's code generator fails on."""
    op = match.ops[0]
    return matrix_instructions.inner_batch_refusal(op, _maps(match), ops.loop_sizes(op), ctx.target)


def _maps(match: Match) -> list[ops.IndexMap]:
    """The indexing maps of the new contraction."""
    op, transpose = match.ops
    order = transposed_order(transpose)
    assert order is not None
    first, second, written = ops.plain_maps(op)
    return [first, second, tuple(written[d] for d in order)]


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the contraction with its result's dimensions in the transpose's order."""
    op, transpose = match.ops
    init = ops.defining_op(op.operands[2])
    assert init is not None
    result = transpose.results[0]
    location = ir.Location.fused([op.location, transpose.location], context=op.context)
    with ir.InsertionPoint(transpose), location:
        fresh = builders.empty(
            ops.shape(result), ops.element_type(result), builders.dynamic_sizes(result)
        )
        new = builders.generic(
            ops.inputs(op),
            [builders.fill(init.operands[0], fresh)],
            _maps(match),
            ops.iterator_types(op),
            builders.body_of(op),
        )
    result.replace_all_uses_with(new.results[0])
    transpose.erase()
    op.erase()
    return builders.form_region([new])


PASS = FusionPass(
    name="batch_matmul_transpose_fusion",
    summary="A transpose of a contraction's result folds into the contraction's result map",
    roots=("linalg.generic",),
    where=ops.is_contraction,
    match=match,
    legal=legal,
    rewrite=rewrite,
    kind=Kind.EPILOGUE,
    aliases=("transpose_batch_matmul_transpose_fusion",),
    source="MindSpore transpose_batch_matmul_transpose_fusion",
)
