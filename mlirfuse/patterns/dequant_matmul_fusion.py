"""Fuse the dequantization of a weight with the contraction that reads it, in one dispatch.

    %f = linalg.generic {sitofp} ins(%w)               tensor<GxSxNxT>, %w i8 or i4, K = G S
    %d = linalg.generic {mulf} ins(%f, %scale)         tensor<GxSxNxT>, a scale per group of S
    %k = tensor.collapse_shape %d [[0, 1], [2]]        tensor<KxNxT>
    %y = linalg.matmul ins(%x, %k)                     tensor<MxNxT>
  becomes
    %e = tensor.expand_shape %x [[0], [1, 2]]          tensor<MxGxSxT>, moves no data
    %y = flow.dispatch.region {
      the dequantization
      %y = linalg.generic {mulf, addf} ins(%e, %d)     two reduction loops instead of one
    }

Root: the contraction. One of its operands is computed elementwise from one tensor of i8 or i4 and
tensors of fewer elements: scales, zero points, broadcasts of them. Groups along K (S is
group_size), or none: a scale per channel or per tensor. The contraction's elementwise epilogue is
fused. The contraction is the only user of the dequantized weight. M static or dynamic; T f16, bf16,
f32 with accumulators in T or f32. Numerics: exact (each accumulation in the order of K). Off for
the CPU, where a matmul with a large M would lose its packing for it; refused for Vulkan. IREE's
global optimization computes a constant's dequantization at compile time, unless the dequantized
tensor takes 1 MiB more (`--iree-opt-const-expr-max-size-increase-threshold`).
Source: ONNX MatMulNBits; IREE's fusion of dequantization.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import contraction_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.ir.legality import legal_float
from mlirfuse.structured.recognize import contractions
from mlirfuse.structured.recognize.dequantization import INTEGER_TYPES, Dequantized, dequantized


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a contraction with a dequantized operand."""
    if not ops.is_contraction(root) or None in ops.indexing_maps(root):
        return None
    for operand in (1, 0):
        plan = dequantized(root, operand, ctx.target.max_operands)
        if isinstance(plan, NoMatch):
            return plan
        if plan is not None:
            reshape = [] if plan.reshape is None else [plan.reshape]
            group = slices.in_order([*plan.ops, *reshape, root, *plan.epilogue])
            return Match(root, tuple(group), plan)
    return None


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses element types that the group's code generation was not tested for."""
    return legal_float(match, INTEGER_TYPES)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the contraction over the groups and puts it into a region with the rest."""
    plan: Dequantized = match.data
    if plan.reshape is None:
        return builders.form_region(list(match.ops))
    with ir.InsertionPoint(match.root), match.root.location:
        split = contraction_builder.split_reduction(match.root, plan.operand, plan.reshape)
    match.root.results[0].replace_all_uses_with(split.results[0])
    match.root.erase()
    plan.reshape.erase()
    return builders.form_region([*plan.ops, split, *plan.epilogue])


PASS = FusionPass(
    name="dequant_matmul_fusion",
    summary="Dequantization of a weight of i8 or i4 with the contraction that reads it",
    roots=contractions.ROOTS,
    where=ops.is_contraction,
    match=match,
    legal=legal,
    rewrite=rewrite,
    kind=Kind.PROLOGUE,
    targets=frozenset({"cuda", "rocm", "vulkan"}),
    aliases=("matmul_nbits_fusion",),
    source="ONNX MatMulNBits; IREE's fusion of dequantization",
)
