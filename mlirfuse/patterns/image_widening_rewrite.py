"""Widen the image of a contraction of bf16 once, where no instruction multiplies bf16.

    %y = linalg.matmul ins(%x, %w)                     tensor<MxKxbf16>, tensor<KxNxbf16>
  becomes
    %i = linalg.generic {bits of f32} ins(%x)          tensor<MxKxbf16> -> tensor<MxKxf32>
    %y = linalg.generic {mulf, extf, addf} ins(%i, %w)

Root: a contraction in no group of bf16 with a sum of f32, of at least `MIN_ROWS` rows of the image
and `MIN_COLUMNS` columns of a constant filter. The kernel of a contraction widens its image again
for each tile of columns; the op that computes the image, or the one before it, does so once, and
writes the same numbers, rounded to bf16, as f32: by their bits, since IREE drops a `truncf` that an
`extf` follows. Contractions that share an image read one tensor. Static sizes. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

import math

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, Numerics, PassContext, Reason
from mlirfuse.kernels.vector import products
from mlirfuse.structured.ir import fusable_neighbors, ops
from mlirfuse.structured.recognize import contractions
from mlirfuse.structured.recognize.convolutions import constant_root

MIN_ROWS, MIN_COLUMNS = 32, 128
"""Sizes from which a widened image pays: a tensor twice as large is written and read, and the image
is widened once for all of some eight tiles of columns. On one thread of a Zen 5 with AVX2 code
128x1024x2816 took 6.43 ms from an image of bf16 and 5.97 from one of f32, 128x768x768 1.26 and
1.17."""


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a contraction of bf16 whose kernel would widen its image."""
    device = ctx.target.cpu
    if device is None or ops.in_region(root) or len(root.results) != 1:
        return None
    kinds = [ops.element_type(value) for value in root.operands]
    if kinds != ["bf16", "bf16", "f32"] or None in ops.loop_sizes(root):
        return None
    constant = [constant_root(value) is not None for value in ops.inputs(root)]
    if sum(constant) != 1:
        return None
    image = constant.index(False)
    operands = products.operands_of(root, image, 1 - image)
    if products.choose(operands, device, has_channels=True) is not None:
        return None
    return Match(root, (root,), image)


def profitable(match: Match, ctx: PassContext) -> NoMatch | None:
    """Leaves images of few rows, and those that few columns read."""
    root, image = match.root, match.data
    sizes, maps = ops.loop_sizes(root), ops.plain_maps(root)
    rows, columns = (
        math.prod(sizes[loop] or 0 for loop in {*maps[one]} - {*maps[1 - one]} if loop is not None)
        for one in (image, 1 - image)
    )
    if rows < MIN_ROWS or columns < MIN_COLUMNS:
        return NoMatch(Reason.NOT_PROFITABLE, f"{rows} rows of the image, {columns} columns")
    return None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the contraction of the widened image."""
    root, image = match.root, match.data
    inputs = ops.inputs(root)
    inputs[image] = _widened(inputs[image], root)

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        factors = [
            value if number == image else builders.scalar("arith.extf", [value], "f32")
            for number, value in enumerate(arguments[:2])
        ]
        product = builders.scalar("arith.mulf", factors, "f32")
        return [builders.scalar("arith.addf", [arguments[2], product], "f32")]

    with ir.InsertionPoint(root), root.location:
        new = builders.generic(
            inputs, ops.inits(root), ops.plain_maps(root), ops.iterator_types(root), body
        )
    root.results[0].replace_all_uses_with(new.results[0])
    root.erase()
    return new


def _widened(value: ir.Value, user: ir.Operation) -> ir.Value:
    """The tensor in f32, which another contraction may read, too."""
    for other in ops.users(value):
        if not fusable_neighbors.widens_bits(other) or other.block != user.block:
            continue
        if other.is_before_in_block(user):
            return other.results[0]
    rank = len(ops.shape(value))
    with ir.InsertionPoint(user), user.location:
        return builders.generic(
            [value],
            [builders.empty(ops.shape(value), "f32")],
            [tuple(range(rank))] * 2,
            ["parallel"] * rank,
            lambda arguments: [_upper_half(arguments[0])],
        ).results[0]


def _upper_half(value: ir.Value) -> ir.Value:
    """A bf16 as an f32, by its bits."""
    bits = builders.scalar("arith.bitcast", [value], "i16")
    word = builders.scalar("arith.extui", [bits], "i32")
    shifted = builders.scalar("arith.shli", [word, builders.scalar_constant(16, "i32")], "i32")
    return builders.scalar("arith.bitcast", [shifted], "f32")


PASS = FusionPass(
    name="image_widening_rewrite",
    summary="Images of contractions of bf16 are widened once, where CPUs do not multiply bf16",
    roots=contractions.ROOTS,
    where=ops.is_contraction,
    match=match,
    profitable=profitable,
    rewrite=rewrite,
    numerics=Numerics.EXACT,
    kind=Kind.REWRITE,
    targets=frozenset({"cpu"}),
    source="mlirfuse",
)
