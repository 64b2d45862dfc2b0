"""Group a pooling with its padding and its elementwise epilogue, for a kernel.

    %f = linalg.generic {extf} ins(%x)                          optional
    %p = tensor.pad %f                                          optional
    %c = linalg.generic {maximumf over windows} ins(%p, %window)
    %y = linalg.generic {elementwise} ins(%c, ...)              optional
  becomes
    %y = flow.dispatch.region { all of it }

Root: the pooling, of element types, windows and a combiner that `pool_triton_kernel`, or on a CPU
`pool_vector_kernel`, supports. The elementwise epilogue is fused as long as only its last op has
users elsewhere. Without the kernel IREE copies the image for the padding and reads it element by
element, in one dispatch or two, so nothing is grouped where Triton is missing. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import Kind, Match, NoMatch, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.pooling import analysis as pooling
from mlirfuse.kernels.vector import pooling as vector_pooling
from mlirfuse.structured.ir import slices, strided_access
from mlirfuse.structured.recognize import epilogues, poolings


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a pooling for which there is a kernel."""
    on_cpu = ctx.target.cpu is not None
    if not on_cpu and not triton_compiler.supports(ctx.target):
        return None
    found = poolings.pooling(root)
    if found is None or (on_cpu and not vector_pooling.takes(root, found)):
        return None
    refused = pooling.refusal(root, found)
    if refused is not None:
        return refused
    pad = strided_access.sole_padding(root)
    chain = [root, *epilogues.epilogue(root, ctx.target.max_operands)]
    whole = epilogues.with_producers(chain, ctx.target.max_operands)
    reader = root if pad is None else pad
    cast = poolings.widening(reader.operands[0], reader)
    group = [*(op for op in (cast, pad) if op is not None), *whole]
    return Match(root, tuple(slices.in_order(group)))


PASS = passes.group_pass(
    name="pooling_fusion",
    summary="Pooling with its padding and elementwise epilogue, for a kernel",
    roots=poolings.ROOTS,
    match=match,
    kind=Kind.EPILOGUE,
    targets=frozenset({"cpu", "cuda", "rocm"}),
)
