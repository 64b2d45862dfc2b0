"""Compute a batch of one matrix as a matmul.

    %a = tensor.expand_shape %x [[0, 1], [2]]          tensor<1xMxKxT>
    %c = linalg.batch_matmul ins(%a, %b)               tensor<1xMxNxT>
  becomes
    %m = linalg.matmul ins(%x, %y)                     tensor<MxNxT>
    %c = tensor.expand_shape %m [[0, 1], [2]]

Root: a `linalg.batch_matmul` whose batch has one matrix: a linear layer of a transposed tensor in
a model with a batch of one. A transpose in front of the reshape of an operand then folds into the
contraction, and elementwise ops behind the result, without that dimension, are its epilogue.
Static sizes, any element type. Numerics: exact.
Source: MLIR, rank reduction of contractions with unit dimensions.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import ops, slices

_GROUPS = ((0, 1), (2,))


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a batch of one matrix."""
    if ops.in_region(root) or ops.shape(root.results[0])[0] != 1:
        return None
    if any(None in ops.shape(value) for value in root.operands):
        return NoMatch(Reason.DYNAMIC_SHAPE, "a matrix of unknown size")
    return Match(root, (root,))


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the matmul, and the reshape of its result."""
    root = match.root
    result, init = root.results[0], root.operands[2]
    fill = ops.defining_op(init)
    with ir.InsertionPoint(root), root.location:
        inputs = [builders.collapse(value, _GROUPS) for value in list(root.operands)[:2]]
        if fill is not None and fill.name == "linalg.fill" and slices.is_clonable(fill):
            whole = builders.empty(ops.shape(init)[1:], ops.element_type(init))
            start = builders.fill(fill.operands[0], whole)
        else:
            start = builders.collapse(init, _GROUPS)
        new = ir.Operation.create(
            "linalg.matmul",
            results=[start.type],
            operands=[*inputs, start],
            attributes={
                name: root.attributes[name]
                for name in root.attributes
                if name not in ("indexing_maps",)
            },
            regions=1,
        )
        root.regions[0].blocks[0].append_to(new.regions[0])
        builders.replace_expanded(result, new.results[0], _GROUPS)
    root.erase()
    return new


PASS = FusionPass(
    name="unit_batch_rewrite",
    summary="A batch of one matrix is a matmul",
    roots=("linalg.batch_matmul",),
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    source="MLIR, rank reduction of contractions",
)
