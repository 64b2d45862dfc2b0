"""Group the dequantization of a weight alone, where a product has many rows.

    %d = linalg.generic {sitofp, mulf} ins(%w, %scale) tensor<NxKxT>, %w i8 or i4
    %y = linalg.matmul ins(%x, %d)                     tensor<MxNxT>, M large
  becomes
    %d = flow.dispatch.region { the dequantization }
    %y = linalg.matmul ins(%x, %d)                     of T alone, for a kernel of its own

Root: the last op of the dequantization, which a contraction alone reads, through the reshape that
joins groups or directly. A product that dequantizes on its way does so for each tile of rows: with
many rows it is faster to write the weights out once. Rows static; T f16, bf16, f32 sums.
Numerics: exact.
Source: mlirfuse, measured on an NVIDIA H100.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.matmul.analysis import can_take
from mlirfuse.kernels.pointwise import planner as pointwise
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.legality import legal_float
from mlirfuse.structured.recognize.dequantization import INTEGERS, Dequantized, dequantized

ROWS = {"i4": 256, "i8": 512}
"""Rows from which on writing weights out pays, by their element type: with 4096x4096 and 14336x4096
on an NVIDIA H100. Writing out takes a microsecond for each million of them, and a product that
dequantizes 36 to 45 ns for each row and 4096x4096 weights more than one that does not."""


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the last op of a dequantization."""
    if not triton_compiler.supports(ctx.target) or ctx.target.arch != triton_compiler.HOPPER:
        return None
    value = root.results[0]
    reader = _only_reader(value)
    if reader is not None and reader.name == "tensor.collapse_shape":
        value = reader.results[0]
        reader = _only_reader(value)
    if reader is None or not ops.is_contraction(reader) or not can_take(reader):
        return None
    found = dequantized(reader, list(reader.operands).index(value), ctx.target.max_operands)
    if not isinstance(found, Dequantized):
        return None
    return Match(root, tuple(found.steps), (found, reader))


def _only_reader(value: ir.Value) -> ir.Operation | None:
    readers = ops.users(value)
    return readers[0] if len(readers) == 1 else None


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses element types that the group's code generation was not tested for."""
    return legal_float(match, INTEGERS)


def profitable(match: Match, ctx: PassContext) -> NoMatch | None:
    """Leaves few rows, and weights that no kernel writes out, to kernels of products."""
    found, contraction = match.data
    maps, sizes = ops.plain_maps(contraction), ops.loop_sizes(contraction)
    rows = 1
    for loop in maps[-1]:
        if loop is not None and loop not in maps[found.number]:
            size = sizes[loop]
            if size is None:
                return NoMatch(Reason.DYNAMIC_SHAPE, "the number of rows is dynamic")
            rows *= size
    least = ROWS[ops.element_type(found.weight)]
    if rows < least:
        return NoMatch(
            Reason.NOT_PROFITABLE, f"{rows} rows, a group of its own pays from {least} on"
        )
    return pointwise.refusal(match.root, ctx.target)


PASS = FusionPass(
    name="dequant_fusion",
    summary="Dequantization of a weight alone, where a product has many rows",
    roots=("linalg.generic",),
    where=ops.is_elementwise,
    match=match,
    legal=legal,
    profitable=profitable,
    rewrite=fuse,
    kind=Kind.PROLOGUE,
    takes_single_op=True,
    feature="kernels",
    targets=frozenset({"cuda"}),
    source="mlirfuse",
)
