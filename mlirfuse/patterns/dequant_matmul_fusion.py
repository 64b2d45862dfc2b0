"""Fuse the dequantization of a weight with the contraction that reads it, in one dispatch.

    %f = linalg.generic {sitofp} ins(%w)               tensor<GxSxNxT>, %w i8 or i4, K = G S
    %d = linalg.generic {mulf} ins(%f, %scale)         tensor<GxSxNxT>, a scale for S rows
    %k = tensor.collapse_shape %d [[0, 1], [2]]        tensor<KxNxT>
    %y = linalg.matmul ins(%x, %k)                     tensor<MxNxT>
  becomes
    %e = tensor.expand_shape %x [[0], [1, 2]]          tensor<MxGxSxT>, moves no data
    %y = flow.dispatch.region {
      the dequantization
      %y = linalg.generic {mulf, addf} ins(%e, %d)     two reduction loops instead of one
    }

Root: the contraction. One of its operands is computed elementwise from one tensor of i8 or i4 and
tensors of fewer elements: scales, zero points, broadcasts of them. Groups along the reduction, or
none: a scale per column or tensor. What follows the contraction elementwise comes along. Only the
contraction reads what is wide. Rows static or dynamic; T f16, bf16, f32 with its own or f32
accumulation. Numerics: exact (each sum in the order of K).
Off for the CPU, where a product with many rows would lose its packing for it; refused for Vulkan.
IREE's global optimization computes a constant's dequantization at compile time, unless the wide
tensor takes 1 MiB more (`--iree-opt-const-expr-max-size-increase-threshold`).
Source: ONNX MatMulNBits; IREE's fusion of dequantization.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse import builders, cost
from mlirfuse.builders import contraction_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured import contractions, ops, slices
from mlirfuse.structured.regions import legal_float

NARROW = frozenset({"i4", "i8"})
"""Element types of a quantized weight."""

INTEGERS = NARROW | {"i16", "i32"}
"""Element types on the way to floating-point numbers: a zero point is taken off in one of them."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """Which operand is dequantized, and how.

    Attributes:
      number: of the contraction's operand.
      steps: the ops that compute it, in block order, without the reshape.
      reshape: what joins the groups behind them, or None.
      epilogue: what follows the contraction elementwise, in block order.
    """

    number: int
    steps: list[ir.Operation]
    reshape: ir.Operation | None
    epilogue: list[ir.Operation]


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a contraction with a dequantized operand."""
    if not ops.is_contraction(root) or None in ops.indexing_maps(root):
        return None
    for number in (1, 0):
        plan = _plan(root, number, ctx)
        if isinstance(plan, NoMatch):
            return plan
        if plan is not None:
            reshape = [] if plan.reshape is None else [plan.reshape]
            group = slices.in_order([*plan.steps, *reshape, root, *plan.epilogue])
            return Match(root, tuple(group), plan)
    return None


def _plan(root: ir.Operation, number: int, ctx: PassContext) -> _Plan | NoMatch | None:
    value = root.operands[number]
    reshape = ops.defining_op(value)
    if reshape is not None and reshape.name == "tensor.collapse_shape":
        value = reshape.operands[0]
    else:
        reshape = None
    if ops.element_type(value) in INTEGERS:
        return None
    steps = _steps(value, root.block)
    weights = [v for v in slices.operands_of(steps) if ops.element_type(v) in NARROW]
    whole = [v for v in weights if ops.shape(v) == ops.shape(value)]
    if not steps or not whole:
        return None
    if len(whole) > 1:
        return NoMatch(Reason.STRUCTURE, "two tensors of integers make the operand")
    wide = [v for v in slices.operands_of(steps) if v not in weights and _is_wide(v, value)]
    if wide:
        return NoMatch(Reason.STRUCTURE, "a scale has as many elements as the weight")
    if reshape is not None:
        kinds, read = ops.iterator_types(root), ops.plain_maps(root)[number]
        joined = [d for d, g in zip(read, ops.reassociation(reshape), strict=True) if len(g) > 1]
        if any(d is None or kinds[d] != "reduction" for d in joined):
            return NoMatch(Reason.WRONG_AXIS, "the groups are not along the sum")
        if any(size is None for size in ops.shape(value)):
            return NoMatch(Reason.DYNAMIC_SHAPE, "the size of a group is dynamic")
    members = {*steps, root} | ({reshape} if reshape else set())
    for op in members - {root}:
        if any(reader not in members for r in op.results for reader in ops.users(r)):
            return NoMatch(Reason.EXTRA_USERS, "the dequantized weight is read elsewhere")
    return _Plan(number, steps, reshape, contractions.epilogue(root, ctx.target.max_operands))


def _is_wide(value: ir.Value, weight: ir.Value) -> bool:
    sizes = (ops.num_elements(v, cost.DYNAMIC_SIZE) for v in (value, weight))
    return next(sizes) >= next(sizes)


def _steps(value: ir.Value, block: ir.Block) -> list[ir.Operation]:
    """The elementwise ops that compute the value from tensors of integers and smaller ones."""
    found: dict[ir.Operation, None] = {}
    work = [value]
    while work:
        op = ops.defining_op(work.pop())
        if op is None or op in found or op.block != block or ops.in_region(op):
            continue
        if ops.is_elementwise(op) and len(op.results) == 1 and not ops.reads_index(op):
            found[op] = None
            work += [v for v in ops.inputs(op) if ops.element_type(v) not in NARROW]
    return slices.in_order(found)


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses element types that the group's code generation was not tested for."""
    return legal_float(match, INTEGERS)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the contraction over the groups and puts it into a region with the rest."""
    plan: _Plan = match.data
    if plan.reshape is None:
        return builders.form_region(list(match.ops))
    with ir.InsertionPoint(match.root), match.root.location:
        product = contraction_builder.split_sum(match.root, plan.number, plan.reshape)
    match.root.results[0].replace_all_uses_with(product.results[0])
    match.root.erase()
    plan.reshape.erase()
    return builders.form_region([*plan.steps, product, *plan.epilogue])


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
