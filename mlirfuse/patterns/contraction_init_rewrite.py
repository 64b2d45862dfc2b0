"""Add the tensor that a contraction starts from after it.

    %y = linalg.matmul ins(%a, %b) outs(%bias)          tensor<MxNxf32>
  becomes
    %c = linalg.matmul ins(%a, %b) outs(%zeros)
    %y = linalg.generic {addf} ins(%c, %bias)

Importers give the bias of a convolution as its initial value, and a convolution with one tap
becomes a contraction. The kernels of contractions start from zero and have any epilogue, so that
the bias is added in registers. Root: a contraction with accumulators of f32 or i32 that starts from
something else than zero; a broadcast vector is read as the vector. Sizes static or dynamic.
Numerics: reassociating (the addend comes last).
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, Numerics, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import contractions

_ADDITIONS = {"f32": "arith.addf", "i32": "arith.addi"}


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds a contraction that starts from a tensor."""
    if not triton_compiler.supports(ctx.target) or ops.in_region(root):
        return None
    if not ops.is_contraction(root) or len(root.results) != 1:
        return None
    init = ops.inits(root)[0]
    if ops.constant(init) == 0 or ops.element_type(init) not in _ADDITIONS:
        return None
    maps = ops.indexing_maps(root)
    if maps[-1] is None or None in maps[-1]:
        return None
    return Match(root, (root,), init)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the contraction from zero, and the addition."""
    op, init = match.root, match.data
    element, rank = ops.element_type(init), len(ops.shape(init))
    identity = tuple(range(rank))
    added, index = init, identity
    source = ops.defining_op(init)
    if source is not None and ops.is_projection(source) and None not in ops.indexing_maps(source):
        read, written = ops.plain_maps(source)
        place = {loop: axis for axis, loop in enumerate(written)}
        added, index = source.operands[0], tuple(place[loop] for loop in read if loop is not None)
    with ir.InsertionPoint(op), op.location:
        sizes = ops.shape(init)
        empty = builders.empty(sizes, element, builders.dynamic_sizes(init))
        zeros = builders.fill(builders.scalar_constant(0, element), empty)
        start = op.clone(ir.InsertionPoint(op)).operation
        start.operands[len(start.operands) - 1] = zeros

        def body(arguments: list[ir.Value]) -> list[ir.Value]:
            return [builders.scalar(_ADDITIONS[element], arguments[:2], element)]

        new = builders.generic(
            [start.results[0], added],
            [empty],
            [identity, index, identity],
            ["parallel"] * rank,
            body,
        )
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()
    return start


PASS = FusionPass(
    name="contraction_init_rewrite",
    summary="The tensor that a contraction starts from is added after it, in a kernel's epilogue",
    roots=contractions.ROOTS,
    match=match,
    prepare=passes.needs_provider,
    rewrite=rewrite,
    numerics=Numerics.REASSOCIATING,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cuda", "rocm"}),
    source="mlirfuse",
)
