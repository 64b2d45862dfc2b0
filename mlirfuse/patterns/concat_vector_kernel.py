"""Let a kernel in the vector dialect write a concatenation whose largest part lies in memory.

    %i = tensor.insert_slice %cache into %empty[0, 0]  tensor<Mx(A+B)xT>
    %c = tensor.insert_slice %new into %i[0, A]
  becomes
    %c = flow.dispatch @vector_kernel::@concatenation(%cache, %new)

Root: the last `tensor.insert_slice`; the parts are adjacent along one axis and fill it. As for
`concat_triton_kernel`, a part that a group computes is left to `concat_fusion`, unless a larger
part has to be copied anyway, as a KV cache that grows by one token. Contiguous parts, of which
there is one index before the axis, are left to IREE, which copies them without a kernel. Static
sizes; f16, bf16, f32, f64, booleans and integers. Numerics: exact.

IREE 3.13.0 copies a part in a dispatch of its own that reads and writes single elements.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, Numerics, PassContext, Reason
from mlirfuse.kernels.data_movement.analysis import analyze_chain, copied_parts
from mlirfuse.kernels.vector import concatenation, executable, passes


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a concatenation whose largest part is copied."""
    device = ctx.target.cpu
    group = copied_parts(root)
    if device is None or not group:
        return None
    found = analyze_chain(group)
    if isinstance(found, NoMatch):
        return found
    bound = len({part.value for part in found.parts}) + 1
    if bound > ctx.target.max_operands:
        return NoMatch(Reason.TOO_MANY_OPERANDS, f"{bound} operands and results")
    planned = concatenation.plan_concatenation(found, device)
    return planned if isinstance(planned, NoMatch) else Match(root, tuple(group))


def replace(region: ir.Operation, kernel: executable.VectorKernel) -> ir.Operation:
    """Replaces the region of a concatenation by a call of its kernel."""
    return executable.replace(region, kernel, {})


PASS = passes.kernel_pass(
    name="concat_vector_kernel",
    summary="Concatenations whose largest part is copied as one kernel for CPUs",
    plan=concatenation.plan,
    replace=replace,
    source="mlirfuse",
    roots=("tensor.insert_slice",),
    match=match,
    numerics=Numerics.EXACT,
)
