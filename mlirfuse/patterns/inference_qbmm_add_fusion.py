"""Fuse an i8 contraction with the scale that dequantizes its accumulators, and its bias.

    %c = linalg.matmul ins(%a, %b)                     tensor<MxNxi32>, %a and %b i8
    %d = linalg.generic {sitofp, mulf} ins(%c, %s)     tensor<MxNxT>
    %y = linalg.generic {addf} ins(%d, %bias)          tensor<MxNxT>, optional
  becomes
    %y = flow.dispatch.region { all of it }

Root: the contraction. The scale is a scalar, or has one value per tensor, row or channel; several
scales may multiply. The bias has at most one dimension and is added before or after the scale, as
in the graph. The elementwise epilogue is fused as long as only its last op has users elsewhere. Any
contraction, batched or not; sizes static or dynamic; T f16, bf16, f32.
Numerics: exact.
Source: MindSpore inference_qbmm_add_fusion.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.expr.arithmetic import Divisor, Factor, factors
from mlirfuse.structured.expr.expressions import define, source, start, uncast
from mlirfuse.structured.expr.nodes import Apply, Element, Expr
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.legality import legal_float
from mlirfuse.structured.recognize import contractions, epilogue_addends


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a contraction of i8 whose accumulators are converted and scaled."""
    if not ops.is_contraction(root):
        return None
    if [ops.element_type(value) for value in root.operands] != ["i8", "i8", "i32"]:
        return None
    result = root.results[0]
    found = contractions.match_with_epilogue(
        root,
        ctx,
        lambda group: any(_is_scaled(start(op.results[0]), result) for op in group[1:]),
    )
    return found or NoMatch(
        Reason.STRUCTURE, "the first user does not convert and scale the accumulators"
    )


def _is_scaled(expr: Expr, accumulator: ir.Value) -> bool:
    """Whether the expression is the converted accumulator times scales, plus biases."""
    node = uncast(expr)
    if isinstance(node, Apply) and node.op == "arith.addf":
        for one, other in (node.args, node.args[::-1]):
            if _is_narrow(other) and _is_scaled(one, accumulator):
                return True
        return False
    return any(
        others and _is_converted(factor, accumulator) and all(map(_is_narrow, others))
        for factor, others in factors(expr)
    )


def _is_converted(expr: Expr, accumulator: ir.Value) -> bool:
    node = define(expr)
    if not isinstance(node, Apply) or node.op != "arith.sitofp":
        return False
    added = epilogue_addends.addends(node.args[0], accumulator)
    return added is not None and all(map(_is_narrow, added))


def _is_narrow(factor: Factor) -> bool:
    """Whether it is a scalar or a tensor that at most one loop indexes."""
    end = source(factor.expr if isinstance(factor, Divisor) else factor)
    return not isinstance(end, Apply) and (
        not isinstance(end, Element) or len([i for i in end.index if i is not None]) < 2
    )


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses element types that the group's code generation was not tested for."""
    return legal_float(match, also=("i8", "i32"))


PASS = FusionPass(
    name="inference_qbmm_add_fusion",
    summary="Contraction of i8 with its scale and bias in one dispatch",
    roots=contractions.ROOTS,
    where=ops.is_contraction,
    match=match,
    legal=legal,
    rewrite=fuse,
    kind=Kind.EPILOGUE,
    aliases=("quantized_matmul_bias_fusion",),
    source="MindSpore inference_qbmm_add_fusion",
)
