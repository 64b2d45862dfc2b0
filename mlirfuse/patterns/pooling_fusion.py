"""Group a pooling with its padding and the elementwise ops behind it, for a kernel.

    %p = tensor.pad %x                                          optional
    %c = linalg.generic {maximumf over windows} ins(%p, %window)
    %y = linalg.generic {elementwise} ins(%c, ...)              optional
  becomes
    %y = flow.dispatch.region { all of it }

Root: the pooling, of types, windows and an op that `pool_triton_kernel` computes. Elementwise ops
behind it come along as long as only the last of them is read elsewhere. Without the kernel IREE
copies the image for the padding and reads it element by element, in one dispatch or two, so nothing
is grouped where Triton is missing. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.pooling import planner as pooling
from mlirfuse.structured.ir import slices, strided_access
from mlirfuse.structured.recognize import epilogues, poolings


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a pooling for which there is a kernel."""
    if not triton_compiler.supports(ctx.target):
        return None
    found = poolings.pooling(root)
    if found is None:
        return None
    refused = pooling.refusal(root, found)
    if refused is not None:
        return refused
    pad = strided_access.sole_padding(root)
    behind = epilogues.epilogue(root, ctx.target.max_operands)
    group = [*([] if pad is None else [pad]), root, *behind]
    return Match(root, tuple(slices.in_order(group)))


PASS = FusionPass(
    name="pooling_fusion",
    summary="Pooling with its padding and the elementwise ops behind it, for a kernel",
    roots=poolings.ROOTS,
    match=match,
    prepare=passes.needs_provider,
    rewrite=fuse,
    kind=Kind.EPILOGUE,
    takes_single_op=True,
    feature="kernels",
    targets=frozenset({"cuda", "rocm"}),
    source="mlirfuse",
)
