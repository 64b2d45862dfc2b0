"""Group a pooling with its padding and elementwise ops around it, for a kernel.

    %f = linalg.generic {extf, maximumf} ins(%x)                optional
    %p = tensor.pad %f                                          optional
    %c = linalg.generic {maximumf over windows} ins(%p, %window)
    %y = linalg.generic {elementwise} ins(%c, ...)              optional
  becomes
    %y = flow.dispatch.region { all of it }

Root: the pooling, of element types, windows and a combiner that `pool_triton_kernel`, or on a CPU
`pool_vector_kernel`, supports. The elementwise epilogue is fused as long as only its last op has
users elsewhere. So is a cast of the image; a kernel for a GPU also computes other functions of its
elements where it reads them, if that takes less time than to write and read them all. Without the
kernel IREE copies the image for the padding and reads it element by element, in one dispatch or
two, so nothing is grouped where Triton is missing. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

import math

from iree.compiler import ir

from mlirfuse.core import Kind, Match, NoMatch, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.codegen.instructions import instructions, is_repeated_cheaply
from mlirfuse.kernels.pooling import analysis as pooling
from mlirfuse.kernels.vector import pooling as vector_pooling
from mlirfuse.structured.ir import ops, slices, strided_access
from mlirfuse.structured.ir.fusable_neighbors import is_among_epilogues
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
    before = _prologue(root, reader, on_cpu=on_cpu)
    group = [*before, *([] if pad is None else [pad]), *whole]
    return Match(root, tuple(slices.in_order(group)))


def _prologue(root: ir.Operation, reader: ir.Operation, *, on_cpu: bool) -> list[ir.Operation]:
    """The ops in front of a pooling or its padding that are computed where elements are read.

    Args:
      root: the pooling.
      reader: the pooling or the padding.
      on_cpu: whether a cast alone may be.
    """
    image = reader.operands[0]
    cast = poolings.widening(image, reader)
    found = [] if cast is None else [cast]
    whole = [] if on_cpu else poolings.prologue(image, reader)
    sizes = ops.loop_sizes(root)
    if None in sizes or any(op not in found and is_among_epilogues(op) for op in whole):
        return found
    short = ops.element_bits(image) <= 16
    each = sum(instructions(op, short=short) for op in whole)
    times = math.prod(size or 0 for size in sizes)
    return whole if is_repeated_cheaply(each, times, ops.num_bytes(image)) else found


PASS = passes.group_pass(
    name="pooling_fusion",
    summary="Pooling with its padding and the elementwise ops around it, for a kernel",
    roots=poolings.ROOTS,
    match=match,
    kind=Kind.EPILOGUE,
    targets=frozenset({"cpu", "cuda", "rocm"}),
)
