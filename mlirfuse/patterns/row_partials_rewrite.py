"""Sum normalized rows before their sums are added up.

    %y = %x - max(%x) - log(sum(...))                  tensor<NxCxf32>
    %s = linalg.generic {addf (mulf %y, %v)}           tensor<f32>, over N and C
  becomes
    %p = linalg.generic {addf (mulf %y, %v)}           tensor<Nxf32>, over C
    %s = linalg.generic {addf} ins(%p)                 tensor<f32>

Root: a sum of f32 over the dimensions of a norm or softmax and over others, which it reads through
elementwise ops: a loss. `reduced_row_fusion` groups the sums of rows with the norm, whose result is
then not written. Static sizes. Nothing is written where Triton is missing. Numerics: reassociating.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, Numerics, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.reduction.chains import normalized_dims
from mlirfuse.kernels.reduction.grouping import is_root
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import sums


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds a sum over more dimensions than those of a norm before it."""
    if not triton_compiler.supports(ctx.target) or ops.in_region(root) or not is_root(root):
        return None
    if None in ops.loop_sizes(root) or not sums.is_sum(root):
        return None
    dims = normalized_dims(root)
    return Match(root, (root,), dims) if dims is not None else None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the sums of rows, and their sum."""
    op: ir.Operation = match.root
    dims: frozenset[int] = match.data
    sizes, maps = ops.loop_sizes(op), ops.plain_maps(op)
    kept = tuple(n for n in range(len(sizes)) if n not in dims)
    kinds = ["reduction" if n in dims else "parallel" for n in range(len(sizes))]
    with ir.InsertionPoint(op), op.location:
        zero = builders.scalar_constant(0.0, "f32")
        start = builders.fill(zero, builders.empty([sizes[n] for n in kept], "f32"))
        partials = builders.generic(
            ops.inputs(op), [start], [*maps[:-1], kept], kinds, builders.body_of(op)
        )
        result = maps[-1]
        total = builders.generic(
            partials.results,
            ops.inits(op),
            [tuple(range(len(kept))), tuple(kept.index(n) for n in result if n is not None)],
            ["parallel" if n in result else "reduction" for n in kept],
            lambda a: [builders.scalar(sums.ADD, [a[0], a[1]], "f32")],
        )
    op.results[0].replace_all_uses_with(total.results[0])
    op.erase()
    return total


PASS = FusionPass(
    name="row_partials_rewrite",
    summary="Sums of normalized rows before the sum of all rows, for a kernel",
    roots=("linalg.generic",),
    match=match,
    prepare=passes.needs_provider,
    rewrite=rewrite,
    numerics=Numerics.REASSOCIATING,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cuda", "rocm"}),
    source="mlirfuse",
)
