"""Round what a convolution in TF32 reads to the nearest number of TF32, where it is computed.

    %t = linalg.generic {copy} ins(%x)                 tensor<NxCxHxWxf32> -> tensor<NxHxWxCxf32>
    %y = linalg.generic {convolution} ins(%t, %w)
  becomes
    %t = linalg.generic {bitcast, addi, andi, select, bitcast} ins(%x)
    %y = linalg.generic {convolution} ins(%t, %w)

Root: an elementwise op of f32, such as a transposed copy or an activation, whose result a
convolution alone reads, directly or behind its padding, that a kernel computes in TF32: not that of
groups with few channels, but that of a contraction, too, which IREE makes of a filter of 1x1.
Tensor cores drop the lower 13 bits of each operand: all products are too small, by 7e-4 of a sum
of positive terms, where cuDNN, which rounds, is off by 3e-4 in the norm. The root is a kernel that
memory bounds, or the epilogue of one. Infinities and NaN are kept. Numerics: exact for a program
in TF32 (the operands that it has, rounded to nearest and not to zero).
Source: mlirfuse; cuDNN rounds its operands.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders.numbers import Numbers
from mlirfuse.core import FusionPass, Kind, Match, PassContext
from mlirfuse.kernels import passes
from mlirfuse.kernels.codegen.dot_precision import HIGHEST, of_convolution
from mlirfuse.kernels.convolution.analysis import problem_alone
from mlirfuse.kernels.convolution_support import has_kernel
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import convolution_loops, convolutions, spread_images
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops
from mlirfuse.targets.base import Target

HALF, MASK, EXPONENT = 1 << 12, ~((1 << 13) - 1), 0x7F800000
"""Half of the last place of TF32, its bits, and the exponent of f32, all ones where not finite."""


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds an elementwise op that a convolution in TF32 alone reads."""
    if ctx.target.float32_conv_precision == HIGHEST or ops.in_region(root):
        return None
    if not ops.is_elementwise(root) or len(root.results) != 1 or not ops.num_inputs(root):
        return None
    if ops.element_type(root.results[0]) != "f32" or ops.reads_inits(root):
        return None
    if None in ops.indexing_maps(root) or _is_rounded(root):
        return None
    value = root.results[0]
    for _ in range(2):
        users = ops.users(value)
        if len(users) != 1 or users[0].block != root.block:
            return None
        if spread_images.surrounds(users[0]) is None:
            break
        value = users[0].results[0]
    return Match(root, (root,)) if value in _multiplied(users[0], ctx.target) else None


def _multiplied(user: ir.Operation, target: Target) -> list[ir.Value]:
    """The operands of a convolution that tensor cores multiply; none for other ops."""
    if not convolutions.is_from_convolution(user):
        return []
    if of_convolution(convolutions.operations(user), target) == HIGHEST:
        return []
    if not convolutions.is_convolution(user):
        return ops.inputs(user) if ops.is_contraction(user) else []
    loops = convolution_loops.classify(user) if has_kernel(user, target) else None
    if not isinstance(loops, ConvolutionLoops):
        return []
    problem = problem_alone(user, loops)
    direct = problem is not None and problem.is_direct
    return [] if direct else [user.operands[loops.image], user.operands[loops.filter]]


def _is_rounded(op: ir.Operation) -> bool:
    yielded = list(ops.body(op).operations)[-1].operation.operands[0]
    last = ops.defining_op(yielded)
    return last is not None and last.name == "arith.bitcast"


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the op with a rounded result."""
    root = match.root
    body = builders.body_of(root)

    def rounded(arguments: list[ir.Value]) -> list[ir.Value]:
        return [_rounded(body(arguments)[0])]

    with ir.InsertionPoint(root), root.location:
        new = builders.generic(
            ops.inputs(root),
            ops.inits(root),
            ops.plain_maps(root),
            ops.iterator_types(root),
            rounded,
        )
    root.results[0].replace_all_uses_with(new.results[0])
    root.erase()
    return new


def _rounded(value: ir.Value) -> ir.Value:
    """A number of f32 as the nearest one of TF32; the one with the larger magnitude of two."""
    f = Numbers(value.type)
    bits = f.op("arith.bitcast", value, element="i32")
    near = f.integer("andi", f.integer("addi", bits, HALF), MASK)
    finite = f.compare(f.integer("andi", bits, EXPONENT), "ne", EXPONENT)
    return f.op("arith.bitcast", f.select(finite, near, bits), element="f32")


PASS = FusionPass(
    name="tf32_rounding_rewrite",
    summary="What convolutions in TF32 read is rounded to nearest where it is computed",
    roots=("linalg.generic",),
    where=ops.is_generic,
    match=match,
    prepare=passes.needs_provider,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cuda"}),
    source="mlirfuse",
)
