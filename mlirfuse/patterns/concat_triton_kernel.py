"""Let a Triton kernel write a concatenation whose largest part lies in memory already.

    %i = tensor.insert_slice %cache into %empty[0, 0]  tensor<Mx(A+B)xT>
    %c = tensor.insert_slice %new into %i[0, A]
  becomes
    %c = hal.dispatch.extern "concat_kernel"(%cache, %new) { copies both }

Root: the last `tensor.insert_slice`; the parts are adjacent along one axis and fill it. A part with
a group as its only producer is left to `concat_fusion`, which needs no copy, unless a larger part
has to be copied anyway, as a KV cache that grows by one token. Static sizes; any element type of a
byte and more. Numerics: exact.

IREE 3.13.0 copies a part in a dispatch of its own that reads and writes single elements: 2x33.5 MB
take 159 us on an H100, where its memory bandwidth allows 23.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import form_region
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, Numerics, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.data_movement.analysis import analyze_chain, copied_parts
from mlirfuse.kernels.data_movement.family import plan_concat


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a concatenation whose largest part is copied."""
    group = copied_parts(root)
    if not triton_compiler.supports(ctx.target) or not group:
        return None
    analysis = analyze_chain(group)
    if isinstance(analysis, NoMatch):
        return analysis
    plan = passes.dispatchable(plan_concat(analysis, ctx.target), list(root.results), ctx)
    return plan if isinstance(plan, NoMatch) else Match(root, tuple(group), plan)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Replaces the insertions by the built kernel."""
    return passes.replace(form_region(list(match.ops)), match.data, ctx)


PASS = FusionPass(
    name="concat_triton_kernel",
    summary="Concatenations whose largest part is copied as one Triton kernel",
    roots=("tensor.insert_slice",),
    match=match,
    prepare=passes.prepare,
    rewrite=rewrite,
    numerics=Numerics.EXACT,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cuda", "rocm"}),
    source="mlirfuse",
)
