"""Fuse a convolution with its bias, a residual and its activation, in one dispatch.

    %c = linalg.generic {convolution} ins(%x, %w)      tensor<NxFxHxWxT>
    %d = linalg.generic {addf} ins(%c, %bias)          %bias: tensor<FxT>, optional
    %s = linalg.generic {addf} ins(%d, %r)             %r: tensor<NxFxHxWxT>, optional
    %y = linalg.generic {activation} ins(%s)           optional
  becomes
    %y = flow.dispatch.region { all of it }

Root: the convolution, of any layout, filter, stride, dilation and grouping. The elementwise
epilogue over the convolution's iteration space is fused, any activation among it, as long as only
its last op has users elsewhere; broadcasts of a bias too, also of one that the accumulators start
from. Sizes static or dynamic; T f16, bf16, f32 with accumulators in T or f32. Numerics: exact.

`fuse_padding` fuses the zero padding of the input, which saves its dispatch. It is off: on two
threads of an AMD EPYC (Zen 5) f32 convolutions 3x3 with 64, 128 and 16 channels at 56, 28 and 112
pixels take 3.1, 2.3 and 1.2 ms in one dispatch and 1.4, 1.5 and 0.7 in two, and depthwise ones do
not compile; GPUs are not measured. Without it the number of dispatches is IREE's own.
Source: the fusion plans of AMD's MIOpen (CB, CA, CBA).
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.builders import form_region, grouped_convolutions
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import ops, slices, strided_access
from mlirfuse.structured.recognize import convolutions
from mlirfuse.structured.recognize.convolutions import Epilogue


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """Optional parts of the group.

    Attributes:
      fuse_padding: whether the group computes the zero padding of the input.
    """

    fuse_padding: bool = False


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a convolution with an elementwise epilogue."""
    if not convolutions.is_convolution(root):
        return None
    found = convolutions.with_epilogue(root, ctx.target.max_operands)
    if found is None:
        if not convolutions.has_elementwise_user(root):
            return None
        return NoMatch(Reason.EXTRA_USERS, "the convolution has users outside its epilogue")
    pad = strided_access.sole_padding(root) if ctx.options.fuse_padding else None
    if not found.unmerges():
        return NoMatch(Reason.INDEXING_MAP, "the epilogue moves the merged groups")
    group = [*([] if pad is None else [pad]), *found.ops]
    return Match(root, tuple(slices.in_order(group)), found)


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses element types that the group's code generation was not tested for."""
    last = match.ops[-1]
    for value in (*match.root.operands, *match.root.results, *last.results):
        if not ops.is_float(value):
            return NoMatch(Reason.ELEMENT_TYPE, ops.element_type(value))
    return None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Puts the ops into one dispatch region, over the iteration space with the groups unmerged."""
    found: Epilogue = match.data
    return form_region(grouped_convolutions.over_groups(found, match.ops))


PASS = FusionPass(
    name="conv_bias_activation_fusion",
    summary="Convolution with its bias, residual and activation in one dispatch",
    roots=convolutions.ROOTS,
    match=match,
    legal=legal,
    rewrite=rewrite,
    kind=Kind.EPILOGUE,
    options=Options,
    source="MIOpen fusion plans",
)
