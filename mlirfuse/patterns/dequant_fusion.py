"""Group the dequantization of a weight alone, where a matmul has a large M.

    %d = linalg.generic {sitofp, mulf} ins(%w, %scale) tensor<NxKxT>, %w i8 or i4
    %y = linalg.matmul ins(%x, %d)                     tensor<MxNxT>, M large
  becomes
    %d = flow.dispatch.region { the dequantization }
    %y = linalg.matmul ins(%x, %d)                     of T alone, for a kernel of its own

Root: the last op of the dequantization, with a contraction as its only user, through the reshape
that merges groups or directly. In-loop dequantization repeats the work for each tile of M: for a
large M it is faster to write the weight out once. M static; T f16, bf16; f32 accumulators. Nothing
is grouped where Triton is missing.
Numerics: exact.
Source: mlirfuse, measured on an NVIDIA H100.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.matmul.analysis import can_take
from mlirfuse.kernels.pointwise import profitability
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.legality import legal_float
from mlirfuse.structured.recognize.dequantization import INTEGER_TYPES, Dequantized, dequantized

MIN_M = {"i4": 256, "i8": 512}
"""Smallest M for which writing weights out pays, by their element type: 4096x4096 and 14336x4096
weights on an NVIDIA H100. Writing out takes a microsecond for each million weights; in-loop
dequantization takes 36 to 45 ns more for each row of M and 4096x4096 weights."""


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the last op of a dequantization."""
    if not triton_compiler.supports(ctx.target) or ctx.target.arch != triton_compiler.HOPPER:
        return None
    value = root.results[0]
    user = _only_user(value)
    if user is not None and user.name == "tensor.collapse_shape":
        value = user.results[0]
        user = _only_user(value)
    if user is None or not ops.is_contraction(user) or not can_take(user):
        return None
    found = dequantized(user, list(user.operands).index(value), ctx.target.max_operands)
    if not isinstance(found, Dequantized):
        return None
    return Match(root, tuple(found.ops), (found, user))


def _only_user(value: ir.Value) -> ir.Operation | None:
    users = ops.users(value)
    return users[0] if len(users) == 1 else None


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses element types that the group's code generation was not tested for."""
    return legal_float(match, INTEGER_TYPES)


def profitable(match: Match, ctx: PassContext) -> NoMatch | None:
    """Leaves a small M, and weights that no kernel writes out, to kernels of matmuls."""
    found, contraction = match.data
    maps, sizes = ops.plain_maps(contraction), ops.loop_sizes(contraction)
    m = 1
    for loop in maps[-1]:
        if loop is not None and loop not in maps[found.operand]:
            size = sizes[loop]
            if size is None:
                return NoMatch(Reason.DYNAMIC_SHAPE, "M is dynamic")
            m *= size
    smallest = MIN_M[ops.element_type(found.weight)]
    if m < smallest:
        return NoMatch(
            Reason.NOT_PROFITABLE, f"M is {m}, a group of its own pays from {smallest} on"
        )
    return profitability.refusal(match.root, ctx.target)


PASS = FusionPass(
    name="dequant_fusion",
    summary="Dequantization of a weight alone, where a matmul has a large M",
    roots=("linalg.generic",),
    where=ops.is_elementwise,
    match=match,
    legal=legal,
    profitable=profitable,
    prepare=passes.needs_provider,
    rewrite=fuse,
    kind=Kind.PROLOGUE,
    takes_single_op=True,
    feature="kernels",
    targets=frozenset({"cuda"}),
    source="mlirfuse",
)
