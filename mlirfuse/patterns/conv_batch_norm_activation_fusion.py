"""Fold the batch norm after a convolution into its filter and one bias.

    %c = linalg.generic {convolution} ins(%x, %w)      tensor<NxFxHxWxf32>, %w constant
    %b = linalg.generic {addf} ins(%c, %bias)          optional
    %m = linalg.generic {mulf} ins(%b, %scale)         %scale, %shift: tensor<Fxf32>, constant
    %y = linalg.generic {addf} ins(%m, %shift)         an activation may follow
  becomes
    %v = util.global.load @scaled_filter               %w * %scale, computed at load time
    %t = util.global.load @shifted_bias                %bias * %scale + %shift
    %c = linalg.generic {convolution} ins(%x, %v)
    %y = linalg.generic {addf} ins(%c, %t)

Root: the convolution, or the contraction that a 1x1 convolution is. Any number of additions,
subtractions, multiplications and divisions with one constant scalar per channel, at least one of
them a multiplication or division: mean and variance apart, or combined already. Grouped and
depthwise convolutions too. `conv_bias_activation_fusion`, or a contraction's epilogue, fuses the
bias and the activation after that. The accumulators must start at zero; intermediate values have no
other users. f32 alone: the scaled filter of a narrower type would be rounded once more.
Numerics: reassociating (the scale moves into the reduction).
Source: the fusion plans of AMD's MIOpen (CN, CBN, CNA, CBNA).
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import convolution_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, Numerics, PassContext, Reason
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import convolutions


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the constants that scale and shift the channels."""
    found = convolutions.scaled_channels(root)
    if found is None or isinstance(found, NoMatch):
        return found
    merged = [] if found.merged is None else [found.merged]
    return Match(root, (root, *merged, *(step.op for step in found.channel_ops)), found)


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """The filter keeps its precision, and the accumulators start at zero."""
    for value in (*match.root.operands, *match.root.results):
        if ops.element_type(value) != "f32":
            return NoMatch(Reason.ELEMENT_TYPE, ops.element_type(value))
    if ops.constant(match.root.operands[2]) != 0:
        return NoMatch(Reason.CONSTANT_UNVERIFIED, "the accumulators do not start at zero")
    return None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the convolution with the scaled filter, and its bias."""
    return convolution_builder.fold(match.data)


PASS = FusionPass(
    name="conv_batch_norm_activation_fusion",
    summary="Batch norm after a convolution is folded into its filter and bias",
    roots=convolutions.ROOTS,
    match=match,
    legal=legal,
    rewrite=rewrite,
    numerics=Numerics.REASSOCIATING,
    kind=Kind.REWRITE,
    source="MIOpen fusion plans",
)
