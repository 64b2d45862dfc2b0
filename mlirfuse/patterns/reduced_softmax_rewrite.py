"""Write a softmax beside a reduction, or behind a contraction, as ops, for a kernel with it.

    %y = linalg.softmax dimension(1) ins(%x)           tensor<NxCxT>
    %s = linalg.generic {addf (mulf %y, %v)}           tensor<NxT>
  becomes
    %m = max(%x), %p = exp(%x - %m), %t = sum(%p), %y = %p / %t
    %s = linalg.generic {addf (mulf %y, %v)}

Root: a `linalg.softmax` along any dimension, of static size, of which elementwise ops feed a
reduction over the same dimension: an entropy, an expected value, a divergence; or one behind a
norm along its dimension. The reduction's group (`reduced_row_fusion`) then takes the softmax. Or
one of the short rows of a contraction, a tile of whose kernel has whole rows
(`contraction_row_fusion`). Nothing is written where Triton is missing.
T f16, bf16, f32. Numerics: exact (f16 and bf16 are rounded once, at the end).
Source: mlirfuse.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext
from mlirfuse.kernels.reduction.chains import is_softmax_behind_norm, reduced_again
from mlirfuse.patterns import lone_softmax_rewrite
from mlirfuse.patterns.contraction_row_fusion import reads_product
from mlirfuse.structured.ir import ops


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a softmax of a kernel's types before a reduction, or behind a contraction."""
    axis = ops.softmax_axis(root)
    of_rows = axis == len(ops.shape(root.results[0])) - 1 and reads_product(root)
    chained = reduced_again(root.results[0], frozenset({axis})) or is_softmax_behind_norm(root)
    if not of_rows and not chained:
        return None
    return lone_softmax_rewrite.match(root, ctx)


PASS = dataclasses.replace(
    lone_softmax_rewrite.PASS,
    name="reduced_softmax_rewrite",
    summary="Softmax beside a reduction or behind a contraction as ops, for one kernel with it",
    match=match,
)
