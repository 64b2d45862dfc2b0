"""Fuse the epilogue of a norm or a softmax into its dispatch: an activation, a gate, a residual.

    %n = flow.dispatch.region { norm of %x }           tensor<NxGxLxT>
    %c = tensor.collapse_shape %n                      tensor<NxMxT>, optional
    %s = linalg.generic {silu} ins(%c)                 tensor<NxMxT>
    %y = linalg.generic {mulf} ins(%s, %gate)          tensor<NxMxT>
  becomes
    %r = flow.dispatch.region { all of it }            // the norm is not written out
    %y = collapse_shape(%r)

Root: a group of row reductions, of any pass, whose last value has elementwise users only, which
read it in place; further results of the group stay. Fused: all ops up to the last one, which alone
has users elsewhere, and the elementwise producers that only these ops use: a modulation `1 +
scale`, the activation of a gate. With reshapes in between, every op is written over the common
iteration space. An op that can be the epilogue of a contraction stays with that, unless the norm is
computed from it; an op that only widens elements is left to its users, save that of
`image_widening_rewrite`, beside which the norm stays a result where others read it. Vulkan: refused
where the rows have several dimensions in that space. Sizes static or dynamic; T f16, bf16, f32, and
other operands of i8 and i1.
Numerics: exact (operations and their order are unchanged).
Source: epilogue fusion, as of contractions.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.iteration_space_builder import extend_group
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext
from mlirfuse.structured.recognize import norm_epilogues
from mlirfuse.structured.recognize.norm_epilogues import (
    legal_extension,
    match_extension,
    reduces_rows,
)


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the epilogue of the group."""
    return match_extension(root, norm_epilogues.find(root, ctx.target))


PASS = FusionPass(
    name="norm_epilogue_fusion",
    summary="Activation, gate, residual or cast after a norm or a softmax in its dispatch",
    roots=("flow.dispatch.region",),
    where=reduces_rows,
    match=match,
    legal=legal_extension,
    rewrite=extend_group,
    kind=Kind.EPILOGUE,
    source="epilogue fusion",
)
