"""Compute the equal slices of a contraction along N as results of one dispatch, without copies.

    %c = linalg.matmul ins(%x, %w)                     tensor<MxNxT>
    %d = linalg.generic {addf} ins(%c, %bias)          tensor<MxNxT>, optional, as the reshape
    %r = tensor.expand_shape %d                        tensor<BxSxNxT>
    %0 = tensor.extract_slice %r[0, 0, 0]              tensor<BxSxPxT>, N = 2 P or 3 P
    %1 = tensor.extract_slice %r[0, 0, P]              tensor<BxSxPxT>
  becomes
    %p:2 = flow.dispatch.region {
      %q:2 = linalg.generic {two matmuls} ins(%x, slices of %w)       tensor<MxPxT>
      the bias of each slice, and SiLU where its SiLU is the only user of a slice
    }
    %0, %1 = tensor.expand_shape %p#0, %p#1

Root: the contraction. The slices are equal and cover N; the contraction has no other users. The
slices of the second operand are read in place. Accumulators start at a constant; M static; T f16,
bf16, f32 with accumulators in T or f32. Numerics: exact (each accumulation in the order of K). Only
where the target has matrix instructions for several results: off for the CPU, where such a
contraction is not packed, and for Vulkan, where IREE 3.13.0 gives it no cooperative matrices.
Source: MindSpore inference_matmul_split_fusion.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.builders import contraction_builder, form_region
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.ir.legality import legal_float
from mlirfuse.structured.recognize import (
    contraction_splits,
    contractions,
    epilogues,
    matrix_instructions,
    sibling_contractions,
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """The split, and for each slice the ops of its SiLU."""

    split: contraction_splits.Split
    gates: tuple[list[ir.Operation], ...]


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a contraction that is split along N in two or three slices."""
    if not ops.is_contraction(root):
        return None
    split = contraction_splits.split(root)
    if split is None or isinstance(split, NoMatch):
        return split
    if len(split.slices) not in (2, 3):
        return NoMatch(Reason.STRUCTURE, f"{len(split.slices)} slices instead of two or three")
    gates = [epilogues.silu_of(part, ctx.target.max_operands) for part in split.slices]
    if None in ops.shape(root.results[0]) and not split.chain and not all(gates):
        return NoMatch(Reason.DYNAMIC_SHAPE, sibling_contractions.UNWRITABLE_DETAIL)
    group = slices.in_order([*split.ops, *(op for gate in gates for op in gate)])
    return Match(root, tuple(group), _Plan(split, tuple(gates)))


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses element types that the group's code generation was not tested for."""
    return legal_float(match)


def profitable(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses a contraction that would lose its matrix instructions with several results."""
    n = ops.shape(match.root.results[0])[-1]
    assert n is not None
    slice_n = n // len(match.data.split.slices)
    missing = matrix_instructions.no_matrix_instructions(match.root, slice_n, ctx.target)
    return NoMatch(Reason.NOT_PROFITABLE, missing) if missing else None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the contraction of several results and the epilogue of each of them."""
    split = match.data.split
    first = slices.in_order(split.slices)[0]
    with ir.InsertionPoint(first), match.root.location:
        made, values = contraction_builder.parts(split)
        ends: list[tuple[ir.Value, ir.Value]] = []
        for part, gate, value in zip(split.slices, match.data.gates, values, strict=True):
            known = {part.results[0]: value}
            for op in gate:
                made.append(contraction_builder.elementwise(op, known))
                known[op.results[0]] = made[-1].results[0]
            end = [part, *gate][-1].results[0]
            ends.append((end, known[end]))
        for end, value in ends:
            whole = contraction_builder.restored(split.reshape, end, value)
            end.replace_all_uses_with(whole)
    for op in reversed(match.ops):
        op.erase()
    return form_region(made)


PASS = FusionPass(
    name="inference_matmul_split_fusion",
    summary="Contraction split in equal slices along N as one dispatch with a result for each",
    roots=contractions.ROOTS,
    where=ops.is_contraction,
    match=match,
    legal=legal,
    profitable=profitable,
    rewrite=rewrite,
    kind=Kind.EPILOGUE,
    targets=frozenset({"cuda", "rocm"}),
    aliases=("matmul_split_fusion",),
    source="MindSpore inference_matmul_split_fusion",
)
