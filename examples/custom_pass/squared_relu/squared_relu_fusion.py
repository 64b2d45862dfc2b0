"""Fuse the square of a ReLU in one dispatch.

    %r = linalg.generic {maximumf 0} ins(%x)           tensor<MxNxT>
    %y = linalg.generic {mulf} ins(%r)                 tensor<MxNxT>, each element by itself
  becomes
    %y, %r = flow.dispatch.region { both }             // %r only if read elsewhere

Root: the square. Any shape, static or dynamic, any float type. Numerics: exact.
Source: Primer (So et al., 2021), whose feed-forward layers use this activation.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.builders import form_region
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import ops


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """`squared_relu_fusion{min_elements=4096}` leaves smaller tensors alone."""

    min_elements: int = 0


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a square whose operand is a maximum with a constant."""
    if not _is_unary(root, "arith.mulf") or not _is_square(root):
        return None
    relu = ops.defining_op(root.operands[0])
    if relu is None or not _is_unary(relu, "arith.maximumf"):
        return None
    if relu.block != root.block:
        return NoMatch(Reason.DIFFERENT_BLOCKS, relu.name)
    if ops.plain_maps(root)[0] != ops.plain_maps(root)[1]:
        return NoMatch(Reason.INDEXING_MAP, "the square reads the ReLU transposed")
    bound = _bound(relu)
    if bound != 0:
        return NoMatch(Reason.CONSTANT_UNVERIFIED, f"maximum with {bound}, not with 0")
    return Match(root, (relu, root))


def _is_unary(op: ir.Operation, scalar: str) -> bool:
    """Whether the op computes one scalar op of each element of its one input."""
    if not ops.is_elementwise(op) or ops.num_inputs(op) != 1 or None in ops.indexing_maps(op):
        return False
    names = [view.operation.name for view in ops.body(op).operations]
    return names == [scalar, "linalg.yield"]


def _is_square(op: ir.Operation) -> bool:
    block = ops.body(op)
    return all(value == block.arguments[0] for value in block.operations[0].operation.operands)


def _bound(relu: ir.Operation) -> float | int | None:
    """The constant that the elements are compared with; None when it is no constant."""
    block = ops.body(relu)
    operands = list(block.operations[0].operation.operands)
    others = [value for value in operands if value != block.arguments[0]]
    return ops.constant(others[0]) if len(others) == 1 else None


def profitable(match: Match, ctx: PassContext) -> NoMatch | None:
    """Leaves tensors alone that have fewer elements than the option says."""
    count = ops.num_elements(match.root.results[0])
    if count < ctx.options.min_elements:
        return NoMatch(Reason.NOT_PROFITABLE, f"{count} elements")
    return None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Puts both ops into one dispatch region."""
    return form_region(list(match.ops))


PASS = FusionPass(
    name="squared_relu_fusion",
    summary="The square of a ReLU in one dispatch",
    roots=("linalg.generic",),
    match=match,
    rewrite=rewrite,
    profitable=profitable,
    options=Options,
    source="Primer, So et al. 2021",
)
