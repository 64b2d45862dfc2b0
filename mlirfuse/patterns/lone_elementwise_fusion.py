"""Group a single elementwise op, where a kernel was measured to be faster than IREE's code.

    %y = linalg.generic {addf} ins(%x, %z)             tensor<MxNxT>
  becomes
    %y = flow.dispatch.region { it }

Root: an elementwise op in no group, a transposing copy among them, of element types and sizes for
which `elementwise_triton_kernel` pays. IREE would make one dispatch of it: its operands are
arguments or results of groups, its users groups or returns. An op that writes more than it reads is
left to IREE, which clones it into its users. Nothing is grouped where Triton is missing. Numerics:
exact.
Source: mlirfuse.
"""

from __future__ import annotations

from collections.abc import Iterator

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.pointwise import profitability
from mlirfuse.structured.ir import ops

_COMPUTING = ("linalg.", "iree_linalg_ext.", "tensor.", "scf.")
"""Dialects whose ops IREE may fuse with the root."""

_VIEWS = ops.RESHAPES | {"tensor.extract_slice"}
"""Ops that change nothing in memory."""


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds an op for which there is a kernel."""
    if not triton_compiler.supports(ctx.target) or not ops.users(root.results[0]):
        return None
    read = sum(ops.num_bytes(value) for value in ops.inputs(root))
    if read < sum(ops.num_bytes(value) for value in root.results):
        return None
    refusal = profitability.refusal(root, ctx.target)
    return Match(root, (root,)) if refusal is None else refusal


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Leaves an op to IREE that IREE fuses with another one."""
    root = match.root
    sources = [ops.defining_op(ops.strip_views(v, _VIEWS)) for v in ops.inputs(root)]
    near = [*sources, *(r for v in root.results for r in _users(v))]
    for op in near:
        if op is None or op.name == "tensor.dim":
            continue
        if op.name.startswith(_COMPUTING) and not ops.in_region(op):
            return NoMatch(Reason.LEFT_TO_PRODUCER, f"{ops.described(op)} is in no group")
    return None


def _users(value: ir.Value) -> Iterator[ir.Operation]:
    """The users of a value and of its views."""
    for op in ops.users(value):
        if op.name in _VIEWS:
            yield from _users(op.results[0])
        else:
            yield op


PASS = FusionPass(
    name="lone_elementwise_fusion",
    summary="Elementwise op in no group, for a kernel",
    roots=("linalg.generic",),
    where=ops.is_elementwise,
    match=match,
    legal=legal,
    prepare=passes.needs_provider,
    rewrite=fuse,
    kind=Kind.REWRITE,
    forms_group=True,
    takes_single_op=True,
    feature="kernels",
    targets=frozenset({"cuda", "rocm"}),
    source="mlirfuse",
)
