"""Write a softmax whose rows are reduced again as reductions and elementwise ops, for a kernel.

    %y = linalg.softmax dimension(1) ins(%x)           tensor<NxCxT>
    %s = linalg.generic {addf (mulf %y, %v)}           tensor<NxT>
  becomes
    %m = max(%x), %p = exp(%x - %m), %t = sum(%p), %y = %p / %t
    %s = linalg.generic {addf (mulf %y, %v)}

Root: a `linalg.softmax` along any dimension, of static size, of which elementwise ops feed a
reduction over the same dimension: an entropy, an expected value, a divergence. The reduction's
group (`reduced_row_fusion`) then takes the softmax. Nothing is written where Triton is missing.
T f16, bf16, f32. Numerics: exact (f16 and bf16 are rounded once, at the end).
Source: mlirfuse.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext
from mlirfuse.kernels.reduction.chains import reduced_again
from mlirfuse.patterns import lone_softmax_rewrite
from mlirfuse.structured.ir import ops


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a softmax of a kernel's types before a reduction."""
    if not reduced_again(root.results[0], frozenset({ops.softmax_axis(root)})):
        return None
    return lone_softmax_rewrite.match(root, ctx)


PASS = dataclasses.replace(
    lone_softmax_rewrite.PASS,
    name="reduced_softmax_rewrite",
    summary="Softmax whose rows are reduced as reductions and elementwise ops, for a kernel",
    match=match,
)
