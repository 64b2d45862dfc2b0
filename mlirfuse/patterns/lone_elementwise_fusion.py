"""Group an elementwise op that is alone, where a kernel was measured to be faster than IREE's code.

    %y = linalg.generic {addf} ins(%x, %z)             tensor<MxNxT>
  becomes
    %y = flow.dispatch.region { it }

Root: an elementwise op that no pass has grouped, a copy into another order of axes among them, of
types and sizes for which `elementwise_triton_kernel` pays. IREE would make one dispatch of it: what
it reads are arguments and what groups compute, and groups or results are what reads it. An op that
writes more than it reads is left to IREE, which computes it where it is read. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from collections.abc import Iterator

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.pointwise import planner as pointwise
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
    refusal = pointwise.refusal(root, ctx.target)
    return Match(root, (root,)) if refusal is None else refusal


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Leaves to IREE what it fuses with another op."""
    root = match.root
    sources = [ops.defining_op(ops.behind(v, _VIEWS)) for v in ops.inputs(root)]
    near = [*sources, *(r for v in root.results for r in _readers(v))]
    for op in near:
        if op is None or op.name == "tensor.dim":
            continue
        if op.name.startswith(_COMPUTING) and not ops.in_region(op):
            return NoMatch(Reason.LEFT_TO_PRODUCER, f"{ops.described(op)} is in no group")
    return None


def _readers(value: ir.Value) -> Iterator[ir.Operation]:
    """The ops that read a value, or a view of it."""
    for op in ops.users(value):
        if op.name in _VIEWS:
            yield from _readers(op.results[0])
        else:
            yield op


PASS = FusionPass(
    name="lone_elementwise_fusion",
    summary="Elementwise op without a group, for a kernel",
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
