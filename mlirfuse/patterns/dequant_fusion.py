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

import math

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.matmul.analysis import can_take
from mlirfuse.kernels.matmul.dequantization import BITS
from mlirfuse.kernels.pointwise import profitability
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.legality import legal_float
from mlirfuse.structured.recognize.dequantization import INTEGER_TYPES, Dequantized, dequantized
from mlirfuse.targets import cuda
from mlirfuse.targets.base import Target

OPERATIONS_PER_TILE = {"i4": 21, "i8": 17}
"""Cost of in-loop dequantization by the element type of the weight: f32 operations of the device
per weight and tile along M. Measured on an NVIDIA H100, 4096x4096 weights, M 1024 and 4096: for
each row of A 33 ns (i8) and 36 to 47 ns (i4, taken as 42), at the rates of `cuda:sm_90`."""

RESULT_BITS = 16
"""Bits of an element of a dequantized weight, f16 or bf16."""

TILE_M = 128
"""Size along M of the tiles that `OPERATIONS_PER_TILE` was measured with."""


def min_m(weight: str, target: Target) -> int:
    """Smallest M for which writing out a dequantized weight pays, a power of two.

    At this M writing the weight out, which is bound by memory, takes as long as dequantizing it for
    each tile along M, which is bound by arithmetic. For `cuda:sm_90` it is 256 with i4 and 512 with
    i8, as measured on an NVIDIA H100 with 4096x4096 and 14336x4096 weights.

    Args:
      weight: element type of the weight: `i4` or `i8`.
      target: the target, for its memory bandwidth and its rate of f32 operations.
    """
    num_bytes = (BITS[weight] + RESULT_BITS) / 8
    seconds_per_tile = OPERATIONS_PER_TILE[weight] / target.vector_rate
    num_tiles = num_bytes / target.bandwidth / seconds_per_tile
    return 1 << max(0, round(math.log2(TILE_M * num_tiles)))


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the last op of a dequantization."""
    if not triton_compiler.supports(ctx.target) or ctx.target.arch != cuda.HOPPER:
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
    smallest = min_m(ops.element_type(found.weight), ctx.target)
    if m < smallest:
        return NoMatch(
            Reason.NOT_PROFITABLE, f"M is {m}, a group of its own pays from {smallest} on"
        )
    return profitability.refusal([match.root], ctx.target)


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
