"""Combine elements of 8 and 16 bits with the updates of a scatter in 32 bits.

    %y = iree_linalg_ext.scatter {addf} ins(%u, %i) outs(%x)             tensor<MxWxf16>
  becomes
    %v = linalg.generic {extf} ins(%u)
    %w = linalg.generic {extf} ins(%x)
    %z = iree_linalg_ext.scatter {addf} ins(%v, %i) outs(%w)             tensor<MxWxf32>
    %y = linalg.generic {truncf} ins(%z)

Root: a scatter whose indices may repeat. On a GPU with any combiner, of f16, bf16, i1, i8 or i16:
there are no atomic ops on most of these. On a CPU a sum or a product of f16 or bf16. It is rounded
once, as in PyTorch's `index_add` and gradients of embeddings; sums of integers are those modulo
their width. Other bodies round after each update. Before passes that group the casts with their
neighbors; on a CPU no cast is grouped with the scatter, since IREE would keep a whole tensor on the
stack. Nothing is widened for a GPU where Triton is missing. Numerics: reassociating.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import scatter_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, Numerics, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import scatters

ROUNDED = ("arith.addf", "arith.mulf")
"""Combiners that round their results."""


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a scatter that combines narrow elements."""
    on_cpu = ctx.target.cpu is not None
    if not (on_cpu or triton_compiler.supports(ctx.target)) or ops.in_region(root):
        return None
    found = scatters.scatter(root)
    if ops.element_type(found.destination) not in scatter_builder.WIDER:
        return None
    if found.unique or found.combiner == "":
        return None
    if on_cpu and found.combiner not in ROUNDED:
        return None
    return Match(root, (root,), found)


PASS = FusionPass(
    name="scatter_widening_rewrite",
    summary="Scatters combine elements of 8 and 16 bits in 32 bits",
    roots=(scatters.SCATTER,),
    match=match,
    prepare=passes.needs_provider,
    rewrite=lambda match, ctx: scatter_builder.widened(
        match.data, fenced=ctx.target.cpu is not None
    ),
    numerics=Numerics.REASSOCIATING,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cpu", "cuda", "rocm"}),
    source="mlirfuse",
)
