"""Lay out a filter as the kernel of its convolution reads it: a constant once, at load time.

    %y = linalg.generic {convolution} ins(%x, %w)      %w: tensor<FxCxKHxKWxT>, constant
  becomes
    %t = util.global.load @filter                      tensor<FxKHxKWxCxT>, %w transposed at load
    %y = linalg.generic {convolution} ins(%x, %t)      the same loops and body

Root: the convolution, of element types and loops that `conv_triton_kernel` supports, of an image
with channels last, or in groups, with images of any layout, that are GEMMs. PyTorch stores filter
taps innermost: channels that a kernel loads together are 9 elements apart for a 3x3 filter. With
few channels the output channels become innermost, and a kernel loads those together; in groups of
odd numbers of channels, too, where the output channels have wider loads. Groups are outermost. A
filter that is an argument is transposed in each call, which takes as long as reading it twice,
where each CTA would read the elements of a tile one by one; it stays as it is where its output
channels are innermost, their rows are as well aligned as those of input channels, no persistent
kernel reads it, and it is of 16 bits. Sizes of the filter static; T f16, bf16, f32. Numerics: exact
(the same elements and accumulation).
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import convolution_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.convolution.analysis import is_supported
from mlirfuse.kernels.convolution.filter_layout import is_coalesced, preferred_filter_layout
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import convolutions


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a convolution whose constant filter has another layout than its kernel reads."""
    if not triton_compiler.supports(ctx.target) or not is_supported(root):
        return None
    found = preferred_filter_layout(root)
    if found is None or found.loops == ops.indexing_maps(root)[found.operand]:
        return None
    weight = root.operands[found.operand]
    constant = convolutions.constant_root(weight) is not None
    if not constant and (None in ops.shape(weight) or is_coalesced(root, found)):
        return None
    return Match(root, (root,), found)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the convolution with the transposed filter."""
    return convolution_builder.with_filter_order(match.root, match.data.operand, match.data.loops)


PASS = FusionPass(
    name="filter_layout_rewrite",
    summary="Filters are laid out as the kernels of convolutions read them",
    roots=convolutions.ROOTS,
    where=ops.is_generic,
    match=match,
    prepare=passes.needs_provider,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    feature="kernels",
    contained=True,
    targets=frozenset({"cuda", "rocm"}),
    source="mlirfuse",
)
