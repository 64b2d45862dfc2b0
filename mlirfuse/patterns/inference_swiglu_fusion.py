"""Fuse a gated unit, SiLU(x Wg) * (x Wu), with both of its contractions, in one dispatch.

    %g = linalg.matmul ins(%x, %wg)                    tensor<MxNxT>
    %u = linalg.matmul ins(%x, %wu)                    tensor<MxNxT>
    %s = linalg.generic {silu} ins(%g)                 tensor<MxNxT>
    %y = linalg.generic {mulf} ins(%s, %u)             tensor<MxNxT>
  becomes
    %y = flow.dispatch.region {
      %c:2 = linalg.generic {two matmuls} ins(%x, %wg, %wu)
      %y = linalg.generic {mulf} ins(linalg.generic {silu} ins(%c#0), %c#1)
    }

Root: the multiplication. The factors are two contractions that share the first operand, or the two
halves of one contraction along N, perhaps after a reshape of M: SiLU is recognized by its values on
one half, and the other half is used as it is. Casts and rank-1 biases before the root are fused;
only the root has users elsewhere. Accumulators start at a constant; M static; T f16, bf16, f32 with
accumulators in T or f32. Numerics: exact (each accumulation in the order of K). Only where the
target has matrix instructions for several results: off for the CPU, where such a contraction is not
packed, and for Vulkan, where IREE 3.13.0 gives it no cooperative matrices.
Source: MindSpore inference_swiglu_fusion.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.builders import contraction_builder, form_region
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.expr import activations
from mlirfuse.structured.expr.expressions import start, uncast
from mlirfuse.structured.expr.nodes import Apply, Element, Expr
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.ir.legality import legal_float
from mlirfuse.structured.recognize import (
    contraction_splits,
    epilogue_addends,
    epilogues,
    matrix_instructions,
    sibling_contractions,
)

_MAX_OPS = 16
"""Elementwise ops of a unit: SiLU in four ops, two biases and all casts are eleven."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """The halves of a gated unit and their producers.

    Attributes:
      values: the gate's and the other half, in the order of the results of the new contraction.
      between: the elementwise ops between the halves and the root, in block order.
      split: the contraction that is split in halves; None for two contractions.
    """

    values: tuple[ir.Value, ir.Value]
    between: list[ir.Operation]
    split: contraction_splits.Split | None


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a multiplication of SiLU of one half with the other half."""
    if not ops.is_elementwise(root) or len(root.results) != 1:
        return None
    if "arith.mulf" not in ops.scalar_names(root):
        return None
    between, values = _between(root)
    if len(values) != 2 or not _is_gated(root.results[0], between, values):
        return None
    plan = _plan(between, values)
    if isinstance(plan, NoMatch):
        return plan
    sources = plan.split.ops if plan.split else [v.owner.operation for v in plan.values]
    group = slices.in_order([*sources, *between])
    if slices.results_of(group) != [root.results[0]]:
        return NoMatch(Reason.EXTRA_USERS, "a factor has other users")
    return Match(root, tuple(group), plan)


def _between(root: ir.Operation) -> tuple[list[ir.Operation], list[ir.Value]]:
    """The elementwise ops that compute the root, and the halves they read, in block order."""
    group: dict[ir.Operation, None] = {root: None}
    starts: dict[ir.Operation, None] = {}
    work = [root]
    while work and len(group) <= _MAX_OPS:
        for value in ops.inputs(work.pop()):
            op = ops.defining_op(value)
            if op is None or op in group or op.block != root.block or ops.in_region(op):
                continue
            if ops.is_contraction(op) or op.name == "tensor.extract_slice":
                starts.setdefault(op)
            elif ops.is_elementwise(op) and ops.shape(value) == ops.shape(root.results[0]):
                group[op] = None
                work.append(op)
    return slices.in_order(group), [op.results[0] for op in slices.in_order(starts)]


def _is_gated(result: ir.Value, between: list[ir.Operation], values: list[ir.Value]) -> bool:
    """Whether the result is SiLU of one value times the other, biases added to either."""
    node = uncast(start(result))
    if not isinstance(node, Apply) or node.op != "arith.mulf":
        return False
    inner = [*values, *(op.results[0] for op in between)]
    return any(
        _is_biased(up, u)
        and any(
            _is_biased(start(v), g) and activations.classify(gate, start(v), ("silu",)) is not None
            for v in inner
        )
        for gate, up in (node.args, node.args[::-1])
        for g, u in (values, values[::-1])
    )


def _is_biased(expr: Expr, value: ir.Value) -> bool:
    added = epilogue_addends.addends(expr, value)
    return added is not None and all(
        isinstance(a, Element) and epilogue_addends.is_bias(a) for a in added
    )


def _plan(between: list[ir.Operation], values: list[ir.Value]) -> _Plan | NoMatch:
    one, other = (value.owner.operation for value in values)
    if ops.is_contraction(one) and ops.is_contraction(other):
        if not sibling_contractions.are_siblings(one, other):
            return NoMatch(Reason.STRUCTURE, "the contractions do not share their first operand")
        if not epilogues.reads_in_place(between, values, 1):
            return NoMatch(
                Reason.INDEXING_MAP, "the epilogue reads a contraction through another map"
            )
        return _Plan((values[0], values[1]), between, None)
    contraction = _source(one)
    if contraction is None or _source(other) != contraction:
        return NoMatch(Reason.STRUCTURE, "the factors are no halves of one contraction")
    split = contraction_splits.split(contraction)
    if split is None or isinstance(split, NoMatch):
        return split or NoMatch(Reason.STRUCTURE, "the contraction has users other than its halves")
    if set(split.slices) != {one, other}:
        return NoMatch(Reason.SHAPE_MISMATCH, f"{len(split.slices)} slices instead of two")
    if not epilogues.reads_in_place(between, values, 0):
        return NoMatch(Reason.INDEXING_MAP, "the epilogue reads more than the two halves")
    return _Plan((split.slices[0].results[0], split.slices[1].results[0]), between, split)


def _source(half: ir.Operation) -> ir.Operation | None:
    """The contraction that the slice is a half of, looking through biases and a reshape."""
    op: ir.Operation | None = half
    while op is not None and not ops.is_contraction(op):
        if op.name not in ("tensor.extract_slice", "tensor.expand_shape"):
            if not ops.is_elementwise(op):
                return None
            sizes = ops.shape(op.results[0])
            whole = [v for v in ops.inputs(op) if ops.shape(v) == sizes]
            op = ops.defining_op(whole[0]) if len(whole) == 1 else None
        else:
            op = ops.defining_op(op.operands[0])
    return op


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses element types that the group's code generation was not tested for."""
    return legal_float(match)


def profitable(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses a contraction that would lose its matrix instructions with several results."""
    plan: _Plan = match.data
    contraction = plan.split.contraction if plan.split else plan.values[0].owner.operation
    n = ops.shape(match.root.results[0])[-1]
    assert n is not None
    missing = matrix_instructions.no_matrix_instructions(contraction, n, ctx.target)
    return NoMatch(Reason.NOT_PROFITABLE, missing) if missing else None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the contraction of two results and its epilogue."""
    plan: _Plan = match.data
    root = match.root
    with ir.InsertionPoint(root), root.location:
        if plan.split is None:
            pair = [value.owner.operation for value in plan.values]
            with ir.Location.fused([op.location for op in pair]):
                made = [contraction_builder.several_results([(op, op.operands[1]) for op in pair])]
            values = list(made[0].results)
        else:
            made, values = contraction_builder.parts(plan.split)
        known = dict(zip(plan.values, values, strict=True))
        for op in plan.between:
            with op.location:
                made.append(contraction_builder.elementwise(op, known))
            known[op.results[0]] = made[-1].results[0]
        reshape = plan.split.reshape if plan.split else None
        old = root.results[0]
        old.replace_all_uses_with(contraction_builder.restored(reshape, old, known[old]))
    for op in reversed(match.ops):
        op.erase()
    return form_region(made)


PASS = FusionPass(
    name="inference_swiglu_fusion",
    summary="SiLU of a contraction times another, or of one half times the other, in one dispatch",
    roots=("linalg.generic",),
    match=match,
    legal=legal,
    profitable=profitable,
    rewrite=rewrite,
    kind=Kind.EPILOGUE,
    targets=frozenset({"cuda", "rocm"}),
    aliases=("swiglu_fusion",),
    source="MindSpore inference_swiglu_fusion",
)
