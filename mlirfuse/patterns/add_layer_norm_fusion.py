"""Fuse a residual add with the layer norm that reads it, in one dispatch.

    %h = %x + %r                                       tensor<MxNxT>
    %y = layer_norm(%h, %gamma, %beta)                 tensor<MxNxT>
  becomes
    %y, %h = flow.dispatch.region { both }             // %h only if read elsewhere

Root: the norm's last elementwise op. M static or dynamic, N static; T f16, bf16, f32. The sum, the
mean and the reciprocal standard deviation become further results where others read them.
Numerics: exact (operations and their order are unchanged).
Source: MindSpore add_layer_norm_fusion.
"""

from __future__ import annotations

import math

from iree.compiler import ir

from mlirfuse.builders import form_region
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext, Reason
from mlirfuse.structured import ops, slices
from mlirfuse.structured.norms import legal_norm, match_norm

UNROLLED_COLUMNS = 8192
"""Columns above which a kept sum is refused on CUDA and ROCm, unless they are a power of two: IREE
3.13.0 unrolls the row. Its compilation for sm_80 takes 9 s at 6144 columns, 12 s at 7168, more
than two minutes at 12288, and 2 s at 16384."""


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the norm that ends at `root`."""
    return match_norm(root, centered=True, add=True)


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses what code generation was not tested for, or takes minutes for."""
    return legal_norm(match) or _unrolled(match, ctx)


def _unrolled(match: Match, ctx: PassContext) -> NoMatch | None:
    result = match.root.results[0]
    sizes = [ops.shape(result)[axis] or 1 for axis in match.data.axes]
    columns = math.prod(sizes)
    rank = len(ops.shape(result))
    kept = [v for v in slices.results_of(list(match.ops)) if len(ops.shape(v)) == rank]
    if ctx.target.name not in ("cuda", "rocm") or len(kept) < 2:
        return None
    if columns <= UNROLLED_COLUMNS or columns.bit_count() == 1:
        return None
    return NoMatch(
        Reason.TARGET_UNSUPPORTED, f"{columns} columns with the sum as a result take minutes"
    )


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Puts the ops into one dispatch region."""
    return form_region(list(match.ops))


PASS = FusionPass(
    name="add_layer_norm_fusion",
    summary="Residual add and the layer norm that reads it in one dispatch",
    roots=("linalg.generic",),
    match=match,
    legal=legal,
    rewrite=rewrite,
    source="MindSpore add_layer_norm_fusion",
)
