"""Compute a convolution to a few channels as products of each pixel, and sums of shifted ones.

    %y = linalg.generic {convolution} ins(%x, %w)      %x: CxHxW, %w: FxCxIxJ -> FxHxW
  becomes
    %z = linalg.generic {matmul} ins(%w, %x)           (IJF)xC, CxHW -> (IJF)xHW
    %y = linalg.generic {addf} ins(slices of %z)       shifted by each tap

The lanes of a kernel of convolutions are output channels, of which there are too few; those of the
product are pixels, and the image is read once, as it is. Root: a convolution in no group, of stride
one, without groups, whose image has channels first or is transposed from such a one. It pays where
the lanes that output channels leave unused cost more than the products take to be written and read:
`MIN_GAIN`. Static sizes; any float. Numerics: reassociating (taps are summed after channels).
Source: "kn2row", Vasudevan, Anderson, Gregg, 2017.
"""

from __future__ import annotations

import math

from iree.compiler import ir

from mlirfuse.builders.narrow_convolution_builder import products_and_sums
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, Numerics, PassContext, Reason
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import narrow_convolutions
from mlirfuse.structured.recognize.narrow_convolutions import num_taps

MAX_TAPS, MAX_OUTPUTS = 49, 4
"""Taps and output channels at most: slices that one op adds; of more channels the products are as
large as the image."""

MIN_GAIN = 6.0
"""Instructions that unused lanes take in place of each product that is written and read, from which
it pays. Milliseconds of one thread of a Zen 4, by the kernel of convolutions and so, and PyTorch:

    channels  taps  pixels      AVX-512            AVX2
    64 to 3   3x3   224x224    11.7  6.8  15.3
    64 to 3   5x5   112x112     6.2  3.1   6.9     4.7  3.4  6.9
    48 to 3   3x3   112x112     3.4  2.2   3.5     1.6  1.3  2.8     5.0 instructions with AVX2
    32 to 3   3x3   112x112     1.4  1.7   1.9     0.72 0.64 1.7     4.3 and 3.3
    32 to 1   3x3   128x128     3.5  1.2   2.6
    16 to 1   3x3   224x224     4.0  1.0   8.6     2.0  1.0  7.6
    16 to 3   3x3   112x112     0.42 0.43  0.81    0.25 0.34 0.79    2.2 and 1.7
"""


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a convolution whose image has channels first."""
    device = ctx.target.cpu
    if device is None or not ctx.target.vector_kernels or ops.in_region(root):
        return None
    found = narrow_convolutions.find(root)
    if found is None:
        return None
    sizes = ops.loop_sizes(root)
    channels = sizes[found.channels] or 0
    outputs = math.prod(sizes[loop] or 0 for loop in found.outputs)
    unused = -outputs % device.lanes
    gain = channels * unused / (2 * device.lanes * outputs)
    if gain < MIN_GAIN or outputs > MAX_OUTPUTS or num_taps(root, found) > MAX_TAPS:
        return NoMatch(Reason.NOT_PROFITABLE, f"{channels} channels to {outputs}")
    return Match(root, (root,), found)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the products and their sums."""
    return products_and_sums(match.root, match.data)


PASS = FusionPass(
    name="narrow_convolution_rewrite",
    summary="Convolutions to a few channels become a product of pixels and sums of shifted ones",
    roots=("linalg.generic",),
    where=ops.is_generic,
    match=match,
    rewrite=rewrite,
    numerics=Numerics.REASSOCIATING,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cpu"}),
    source="mlirfuse",
)
