"""Group a convolution with its padding and the elementwise ops around it, for a kernel.

    %p = tensor.pad %x                                 optional
    %c = linalg.generic {convolution} ins(%p, %w)      tensor<NxHxWxFxf32>
    %s = linalg.generic {rsqrt, mulf} ins(%v, %g)      tensor<Fxf32>, optional
    %y = linalg.generic {mulf, addf, maximumf, truncf} ins(%c, %s, %b, %r)
  becomes
    %y = flow.dispatch.region { all of it }

Root: the convolution, or the contraction that a 1x1 convolution is, of element types and loops that
`conv_triton_kernel` supports. The elementwise epilogue is fused as long as only its last op has
users elsewhere, and so are computations on one scalar per channel that only the epilogue uses:
batch norm costs no dispatch of its own. Without the kernel IREE would compute the padding in the
same dispatch, which is slow, so nothing is grouped where Triton is missing. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.convolution.analysis import is_supported
from mlirfuse.structured.ir import slices, strided_access
from mlirfuse.structured.recognize import convolutions


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a convolution for which there is a kernel."""
    if not triton_compiler.supports(ctx.target) or not is_supported(root):
        return None
    limit = ctx.target.max_operands
    found = convolutions.with_epilogue(root, limit)
    group = [root] if found is None else found.ops
    pad = strided_access.sole_padding(root)
    group = slices.in_order([*([] if pad is None else [pad]), *group])
    return Match(root, tuple(convolutions.with_channel_producers(group, limit)))


PASS = FusionPass(
    name="convolution_fusion",
    summary="Convolution with its padding and elementwise neighbors, for a kernel",
    roots=convolutions.ROOTS,
    match=match,
    prepare=passes.needs_provider,
    rewrite=fuse,
    kind=Kind.EPILOGUE,
    takes_single_op=True,
    feature="kernels",
    targets=frozenset({"cuda", "rocm"}),
    source="mlirfuse",
)
