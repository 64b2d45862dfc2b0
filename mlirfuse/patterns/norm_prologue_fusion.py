"""Fuse the elementwise ops in front of a norm, a softmax or a row reduction into its dispatch.

    %g = linalg.generic {gelu} ins(%x)                 tensor<MxNxT>
    %e = tensor.expand_shape %g                        tensor<MxGxLxT>, optional
    %n = flow.dispatch.region { norm of %e }           tensor<MxGxLxT>
  becomes
    %r = flow.dispatch.region { all of it }            // the activation is not written out

Root: a group of row reductions, of any pass. Fused: the elementwise ops that only the group reads,
and their producers, with the reshapes between them; with reshapes every op is written over the
common iteration space. A kernel also gathers: the embeddings of tokens and positions in front of a
layer norm. The epilogue of a contraction stays with that. Sizes static or dynamic; T
f16, bf16, f32, and other operands of i8 and i1.
Numerics: exact (operations and their order are unchanged).
Source: prologue fusion, as of reductions.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.iteration_space_builder import extend_group
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.reduction import prologues
from mlirfuse.structured.ir.legality import legal_float
from mlirfuse.structured.recognize import gathers
from mlirfuse.structured.recognize.norm_epilogues import match_extension, reduces_rows


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the prologue of the group."""
    return match_extension(root, prologues.find(root, ctx.target))


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses element types that were not tested: wide integers, but for indices in a kernel."""
    in_kernel = triton_compiler.supports(ctx.target) or any(map(gathers.is_gather, match.ops))
    indices = ("i32", "i64") if in_kernel else ()
    return legal_float(match, also=("i8", "i1", *indices))


PASS = FusionPass(
    name="norm_prologue_fusion",
    summary="Elementwise ops in front of a norm, a softmax or a row reduction in its dispatch",
    roots=("flow.dispatch.region",),
    where=reduces_rows,
    match=match,
    legal=legal,
    rewrite=extend_group,
    kind=Kind.PROLOGUE,
    source="prologue fusion",
)
"""Prologues of groups of row reductions, as of a norm."""
