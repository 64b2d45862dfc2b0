"""Sum many numbers of f32 in f64, where no kernel sums them.

    %s = linalg.generic {addf (f %x)} ins(%x)          tensor<?xf32> -> tensor<f32>
  becomes
    %w = linalg.generic {addf (extf (f %x))} ins(%x)   tensor<?xf32> -> tensor<f64>
    %s = linalg.generic {truncf} ins(%w)

Root: a sum of f32 from zero, in a group or alone, of `MIN_TERMS` terms or more, or over a dimension
of unknown size; no contraction. Its order is that of IREE's loops, with few accumulators: 4 million
numbers between 0 and 1 are off by 1e-5 of their sum, and a sum of ones stops at 16,777,216 for each
accumulator. Kernels have many accumulators, and add them in pairs. After the passes of kernels.
Numerics: reassociating.
Source: PyTorch's cascade sum has the same purpose.
"""

from __future__ import annotations

import math

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, Numerics, PassContext
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import sums

WIDE = "f64"

_TILES = "lowering_config"
"""Attribute of a sum of softmax_fusion, which stays in f32: IREE would fuse the rounding into the
op whose tiles the dispatch has, drop these, and refuse it. Sums of 18385 exponentials are off by
3e-5."""

MIN_TERMS = 1 << 14
"""Terms of a sum from which a single accumulator of f32 may be off by more than 2^-11 of it: each
addition rounds by at most 2^-25 of a growing sum."""


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds sums of many numbers: those of a group, or one that is alone."""
    held = [root]
    if root.name == ops.REGION:
        held = [op.operation for op in root.regions[0].blocks[0]]
    found = [op for op in held if ops.is_generic(op) and _is_long_sum(op)]
    return Match(root, (root,), found) if found else None


def _is_long_sum(op: ir.Operation) -> bool:
    if not sums.is_sum(op) or ops.is_contraction(op) or _TILES in op.attributes:
        return False
    sizes, kinds = ops.loop_sizes(op), ops.iterator_types(op)
    summed = [size for size, kind in zip(sizes, kinds, strict=True) if kind == "reduction"]
    return (math.inf if None in summed else math.prod(size or 0 for size in summed)) >= MIN_TERMS


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the sums in f64, and rounds them."""
    in_group = match.root.name == ops.REGION
    rounded = [_widened(op) for op in match.data]
    return match.root if in_group else rounded[0]


def _widened(op: ir.Operation) -> ir.Operation:
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
    name="long_sum_rewrite",
    summary="Sums of many numbers of f32 in f64, where no kernel sums them",
    roots=("linalg.generic", ops.REGION),
    match=match,
    rewrite=rewrite,
    numerics=Numerics.REASSOCIATING,
    kind=Kind.REWRITE,
    targets=frozenset({"cpu"}),
    source="mlirfuse",
)
