"""Reshape to sizes computed at run time: their arithmetic moves from tensors to scalars.

    %m = arith.muli %n, %c15 : i64
    %d = arith.divui %m, %n : i64
    %s = tensor.from_elements %n, %d                    tensor<2xi64>
    %y = tensor.reshape %x(%s)                          tensor<?x3x5xT> -> tensor<?x15xT>
  becomes
    %y = tensor.collapse_shape %x [[0], [1, 2]]         tensor<?x3x5xT> into tensor<?x15xT>

A `tensor.reshape` is a barrier to fusion; a collapse or an expand is not. Where a dispatch computes
the sizes, the host waits for it:

    %s = linalg.generic {muli} ins(%a, %b)              tensor<2xi64>
    %i = tensor.extract %s[%c0]                         i64
  becomes
    %i = arith.muli %n, %c6                             index, cast to i64

Root: a `tensor.reshape` that is dynamic, or a `tensor.extract` of a static tensor of i64 or index
that arithmetic on sizes computes. The products of the sizes on both sides have to be proven equal,
group by group. In one group they are equal since a reshape keeps the number of elements, as where a
program counts the batch of keys by that of queries. A shape tensor of narrower integers is refused:
their arithmetic wraps.
Numerics: exact.
Source: MindSpore shape_reshape; PyTorch's `view(x.shape[0], -1)`.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import shape_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext
from mlirfuse.structured.ir import shape_arithmetic


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds sizes with one that is known at run time only."""
    return shape_arithmetic.match(root, static=False)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Writes collapse and expand, or the arithmetic on scalars."""
    return shape_builder.rewrite(match)


PASS = FusionPass(
    name="shape_reshape",
    summary="Sizes of a reshape that are computed at run time become scalars",
    roots=shape_arithmetic.ROOTS,
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    aliases=(
        "dynamic_reshape_rewrite",
        "ShapeReshape",
    ),
    source="MindSpore shape_reshape",
)
