"""Take a contraction that reads each element of an operand once as a product and a sum.

    %y = linalg.generic {mulf, addf} ins(%x, %w)       %x: (b, k, s), %w: (k) -> (b, s)
  becomes
    %p = linalg.generic {mulf} ins(%x, %w)             (b, k, s)
    %y = linalg.generic {addf} ins(%p)                 (b, k, s) -> (b, s)

It is no matmul: an operand has all loops of the contraction of more than one iteration, as in the
dot product, in a matrix times a vector, in a convolution of 1x1 with one filter, and in a batch of
dot products. `row_triton_kernel`, or `row_vector_kernel` for a CPU, computes the sum of the
products, with the elementwise ops around it; batches that both operands merge, as of `einsum`, are
not merged. Root: a contraction in no group of which both operands have all loops, or, on a GPU,
that `matmul_triton_kernel` does not take; it starts from a number, and is static in the contracted
loops. Any element type. Nothing is rewritten on a GPU where Triton is missing. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import weighted_sum_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.matmul.analysis import can_take
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import contractions


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a contraction of which an operand has all loops."""
    in_triton = triton_compiler.supports(ctx.target)
    if ops.in_region(root) or not (in_triton or ctx.target.cpu is not None):
        return None
    if not ops.is_contraction(root) or len(root.results) != 1:
        return None
    maps, kinds, sizes = ops.indexing_maps(root), ops.iterator_types(root), ops.loop_sizes(root)
    if any(m is None or None in m for m in maps):
        return None
    steps = list(enumerate(zip(sizes, kinds, strict=True)))
    if any(size is None and kind == "reduction" for _, (size, kind) in steps):
        return None
    kept = {loop for loop, (size, kind) in steps if size != 1 or kind == "reduction"}
    whole = [n for n, index_map in enumerate(ops.plain_maps(root)[:2]) if kept <= {*index_map}]
    if not whole or (len(whole) < 2 and (not in_triton or can_take(root))):
        return None
    if ops.constant(ops.inits(root)[0]) is None:
        return None  # `contraction_init_rewrite` adds a tensor after the contraction.
    if len(kept) < len(kinds) and None in sizes:
        return NoMatch(Reason.DYNAMIC_SHAPE, "dimensions of size one are dropped")
    return Match(root, (root,), (tuple(sorted(kept)), whole[0]))


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the product, in the order of an operand that has all loops, and its sum."""
    kept, whole = match.data
    return weighted_sum_builder.product_and_sum(match.root, kept, whole)


PASS = FusionPass(
    name="weighted_sum_rewrite",
    summary="A contraction that is no matmul becomes a product and a sum, for a kernel",
    roots=contractions.ROOTS,
    where=ops.is_contraction,
    match=match,
    prepare=passes.needs_provider,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cpu", "cuda", "rocm"}),
    source="mlirfuse",
)
