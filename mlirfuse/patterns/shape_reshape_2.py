"""Reshape to sizes computed at compile time: the sizes become part of the types.

    %s = linalg.generic {muli} ins(dense<[8, 4]>, dense<[1, 6]>)   tensor<2xi64>
    %y = tensor.reshape %x(%s)                          tensor<8x4x6xT> -> tensor<?x?xT>
    %i = tensor.extract %s[%c1]                         i64
  becomes
    %c = tensor.collapse_shape %x [[0], [1, 2]]         tensor<8x4x6xT> into tensor<8x24xT>
    %y = tensor.cast %c                                 tensor<8x24xT> to tensor<?x?xT>
    %i = arith.constant 24                              i64

Root: a `tensor.reshape` whose sizes are all constants, or a `tensor.extract` of such a constant.
`shape_reshape` rewrites the others, under the same guards. Shapes that a frontend computes from
static sizes are folded before; MLIR text can hold them.
Numerics: exact.
Source: MindSpore shape_reshape_2.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import shape_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext
from mlirfuse.structured.ir import shape_arithmetic


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds sizes that are all known at compile time."""
    return shape_arithmetic.match(root, static=True)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Writes a static reshape, or the constant."""
    return shape_builder.rewrite(match)


PASS = FusionPass(
    name="shape_reshape_2",
    summary="Sizes of a reshape that are known at compile time become static",
    roots=shape_arithmetic.ROOTS,
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    aliases=("static_reshape_rewrite",),
    source="MindSpore shape_reshape_2",
)
