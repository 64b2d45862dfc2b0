"""Sum f32 over a dynamic dimension in f64.

    %s = linalg.generic {addf (f %x)} ins(%x)          tensor<?xf32> -> tensor<f32>
  becomes
    %w = linalg.generic {addf (extf (f %x))} ins(%x)   tensor<?xf32> -> tensor<f64>
    %s = linalg.generic {truncf} ins(%w)

Root: a sum of f32 from zero over at least one dimension of unknown size, except a contraction. Its
order is that of IREE's loops, one accumulator for all elements: 4 million ones of f32 are off by
1e-5, and more stop at 16,777,216. Kernels for static sizes have many accumulators, and add them in
pairs. After the passes that group a sum with the norm, the softmax or the attention that it belongs
to, whose rows are short. Numerics: reassociating.
Source: PyTorch's cascade sum has the same purpose.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, Numerics, PassContext
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import sums

WIDE = "f64"


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds a sum over a dynamic dimension."""
    if ops.in_region(root) or not sums.is_sum(root) or ops.is_contraction(root):
        return None
    sizes, kinds = ops.loop_sizes(root), ops.iterator_types(root)
    summed = [size for size, kind in zip(sizes, kinds, strict=True) if kind == "reduction"]
    return Match(root, (root,)) if None in summed else None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the sum in f64, and rounds it."""
    op: ir.Operation = match.root
    result = op.results[0]
    term = builders.body_of(op)

    def add(arguments: list[ir.Value]) -> list[ir.Value]:
        # A negative zero changes no number that it is added to.
        nothing = builders.scalar_constant(-0.0, "f32")
        (value,) = term([*arguments[:-1], nothing])
        wide = builders.scalar("arith.extf", [value], WIDE)
        return [builders.scalar(sums.ADD, [arguments[-1], wide], WIDE)]

    with ir.InsertionPoint(op), op.location:
        sizes = builders.dynamic_sizes(ops.inits(op)[0])
        empty = builders.empty(ops.shape(result), WIDE, sizes)
        start = builders.fill(builders.scalar_constant(0.0, WIDE), empty)
        total = builders.generic(
            ops.inputs(op), [start], ops.plain_maps(op), ops.iterator_types(op), add
        )
        axes = tuple(range(len(ops.shape(result))))
        rounded = builders.generic(
            total.results,
            [builders.empty(ops.shape(result), "f32", sizes)],
            [axes, axes],
            ["parallel"] * len(axes),
            lambda a: [builders.scalar("arith.truncf", [a[0]], "f32")],
        )
    result.replace_all_uses_with(rounded.results[0])
    op.erase()
    return rounded


PASS = FusionPass(
    name="dynamic_sum_rewrite",
    summary="Sums of f32 over dynamic dimensions in f64",
    roots=("linalg.generic",),
    match=match,
    rewrite=rewrite,
    numerics=Numerics.REASSOCIATING,
    kind=Kind.REWRITE,
    targets=frozenset({"cpu"}),
    source="mlirfuse",
)
