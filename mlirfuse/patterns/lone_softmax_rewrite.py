"""Write a softmax in no group as reductions and elementwise ops, for a kernel.

    %y = linalg.softmax dimension(1) ins(%x)           tensor<NxCxHxWxT>
  becomes
    %m = max(%x), %p = exp(%x - %m), %s = sum(%p)      in f32
    %y = %p / %s

Root: a `linalg.softmax` along any dimension, of static size, which no other pass has taken.
`axis_reduction_fusion` groups the ops with their elementwise neighbors: IREE's own code for a
softmax is several times slower than a kernel. Nothing is written where Triton is missing. T f16,
bf16, f32. Numerics: exact (f16 and bf16 are rounded once, at the end).
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.structured.ir import ops


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a softmax that a kernel can compute."""
    if not triton_compiler.supports(ctx.target) or ops.in_region(root):
        return None
    value = root.operands[0]
    if not ops.is_float(value):
        return NoMatch(Reason.ELEMENT_TYPE, ops.element_type(value))
    sizes = ops.shape(value)
    axis = ops.softmax_axis(root)
    if sizes[axis] is None or None in sizes[1:]:
        return NoMatch(Reason.DYNAMIC_SHAPE, "only the first dimension may be dynamic")
    if 0 in sizes:
        return None
    return Match(root, (root,))


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Writes the maximum, the exponentials, their sum and the quotients."""
    root = match.root
    value, result = root.operands[0], root.results[0]
    axis, element = ops.softmax_axis(root), ops.element_type(value)
    sizes = ops.shape(value)
    whole = tuple(range(len(sizes)))
    kept = tuple(n for n in whole if n != axis)
    loops = ["parallel"] * len(sizes)
    reduced = ["reduction" if n == axis else "parallel" for n in whole]

    def wide(number: ir.Value) -> ir.Value:
        return number if element == "f32" else builders.scalar("arith.extf", [number], "f32")

    with ir.InsertionPoint(root), root.location:
        dims = builders.dynamic_sizes(result)
        rows = dims if axis else []
        row_sizes = [sizes[n] for n in kept]

        def reduction(source: ir.Value, combiner: str, init: float) -> ir.Value:
            kind = ops.element_type(source)
            start = builders.fill(
                builders.scalar_constant(init, kind), builders.empty(row_sizes, kind, rows)
            )
            return builders.generic(
                [source],
                [start],
                [whole, kept],
                reduced,
                lambda a: [builders.scalar(combiner, [a[0], a[1]], kind)],
            ).results[0]

        highest = reduction(value, "arith.maximumf", float("-inf"))

        def power(a: list[ir.Value]) -> list[ir.Value]:
            difference = builders.scalar("arith.subf", [wide(a[0]), wide(a[1])], "f32")
            return [builders.scalar("math.exp", [difference], "f32")]

        powers = builders.generic(
            [value, highest],
            [builders.empty(sizes, "f32", dims)],
            [whole, kept, whole],
            loops,
            power,
        ).results[0]
        total = reduction(powers, "arith.addf", 0.0)

        def quotient(a: list[ir.Value]) -> list[ir.Value]:
            found = builders.scalar("arith.divf", [a[0], a[1]], "f32")
            return [
                found if element == "f32" else builders.scalar("arith.truncf", [found], element)
            ]

        new = builders.generic(
            [powers, total],
            [builders.empty(sizes, element, dims)],
            [whole, kept, whole],
            loops,
            quotient,
        )
    result.replace_all_uses_with(new.results[0])
    root.erase()
    return new


PASS = FusionPass(
    name="lone_softmax_rewrite",
    summary="Softmax in no group as reductions and elementwise ops, for a kernel",
    roots=("linalg.softmax",),
    match=match,
    prepare=passes.needs_provider,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cuda", "rocm"}),
    source="mlirfuse",
)
