"""Reads a region of one pooling, its padding and the elementwise ops around it.

analysis = analyze(region)         PoolingAnalysis, the refusal, or None for other regions
problem = problem_of(analysis)     sizes and traits that the configuration is chosen by
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.iteration_space import UNKNOWN_ROWS, known_product
from mlirfuse.kernels.codegen.tile_writer import (
    attempted,
    computing,
    padding_and_elementwise,
    returned,
)
from mlirfuse.kernels.pooling.problem import PoolingProblem
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import poolings
from mlirfuse.structured.recognize.poolings import Pooling

ELEMENT_TYPES = frozenset({"f16", "bf16", "f32"})
"""Element types of images."""

COMBINERS = frozenset({"arith.maximumf", "arith.maxnumf", "arith.minnumf", "arith.addf"})
"""Combining ops that kernels have."""

SHARED = "pixels and channels"
"""The axes that the ops of a region have in common."""


@dataclasses.dataclass(frozen=True, slots=True)
class Padding:
    """A padding of the image by a constant.

    Attributes:
      low: elements before each dimension.
      padded: for each dimension, whether it is padded.
      value: the padded value.
    """

    low: tuple[int, ...]
    padded: tuple[bool, ...]
    value: float


@dataclasses.dataclass(frozen=True, slots=True)
class PoolingAnalysis:
    """A region of one pooling.

    Attributes:
      op: the pooling.
      pooling: its window and the strides of its image.
      image: the image before padding and the ops in front of it, from outside the region.
      prologue: the elementwise ops of it, in block order.
      padding: the padding; None where there is none.
      epilogue: elementwise ops after the pooling, in block order.
      results: values that the region returns.
    """

    op: ir.Operation
    pooling: Pooling
    image: ir.Value
    prologue: tuple[ir.Operation, ...]
    padding: Padding | None
    epilogue: tuple[ir.Operation, ...]
    results: tuple[ir.Value, ...]

    @property
    def out_loops(self) -> tuple[int, ...]:
        """The loops along the dimensions of the result."""
        return tuple(d for d in ops.indexing_maps(self.op)[2] or () if d is not None)

    @property
    def out_sizes(self) -> tuple[int | None, ...]:
        """The sizes of the result; only the first may be dynamic, None."""
        sizes = ops.loop_sizes(self.op)
        return tuple(sizes[loop] for loop in self.out_loops)

    @property
    def window(self) -> tuple[int, ...]:
        """The sizes of the window."""
        sizes = ops.loop_sizes(self.op)
        return tuple(sizes[loop] or 0 for loop in self.pooling.window_loops)

    @property
    def has_strided_columns(self) -> bool:
        """Whether adjacent elements of the result are windows that are not adjacent columns."""
        return self.pooling.image_dims[-1] != ((self.out_loops[-1], 1),)


def analyze(region: ir.Operation) -> PoolingAnalysis | NoMatch | None:
    """Reads a region; None for another kind of region, or the reason why there is no kernel."""
    group = computing(region)
    found = [(op, p) for op in group if (p := poolings.pooling(op)) is not None]
    if not found:
        return None
    if len(found) > 1:
        return NoMatch(Reason.STRUCTURE, f"{len(found)} poolings in one kernel")
    op, loops = found[0]
    found_ops = padding_and_elementwise(group, op, op.operands[0])
    if isinstance(found_ops, NoMatch):
        return found_ops
    pad, epilogue = found_ops
    refused = refusal(op, loops)
    if refused is not None:
        return refused
    return attempted(lambda: _analyzed(region, op, loops, pad, epilogue), SHARED)


def refusal(op: ir.Operation, found: Pooling) -> NoMatch | None:
    """Why a pooling that is alone would get no kernel; None if it would."""
    kinds = {ops.element_type(op.operands[0]), ops.element_type(op.results[0])}
    if not kinds <= ELEMENT_TYPES:
        return NoMatch(Reason.ELEMENT_TYPE, f"a pooling of {' to '.join(sorted(kinds))}")
    if found.combine.name not in COMBINERS:
        return NoMatch(Reason.STRUCTURE, f"a pooling by {found.combine.name}")
    if ops.constant(ops.inits(op)[0]) is None:
        return NoMatch(Reason.STRUCTURE, "a pooling whose init is no constant")
    sizes = ops.loop_sizes(op)
    first = (ops.indexing_maps(op)[2] or ())[0]
    if None in [size for loop, size in enumerate(sizes) if loop != first]:
        return NoMatch(Reason.DYNAMIC_SHAPE, "only the first dimension may be dynamic")
    return None


def problem_of(analysis: PoolingAnalysis) -> PoolingProblem:
    """The problem that the configuration is chosen by; dynamic images count as `UNKNOWN_ROWS`."""
    *pixels, columns = analysis.out_sizes
    count = known_product(pixels) * (UNKNOWN_ROWS if None in pixels[:1] else 1)
    window = "x".join(map(str, analysis.window))
    bits = ops.element_bits(analysis.op.results[0])
    return PoolingProblem(count, columns or 0, window, analysis.has_strided_columns, bits)


def _analyzed(
    region: ir.Operation,
    op: ir.Operation,
    pooling: Pooling,
    pad: ir.Operation | None,
    epilogue: list[ir.Operation],
) -> PoolingAnalysis:
    reader = op if pad is None else pad
    image, prologue = reader.operands[0], poolings.prologue(reader.operands[0], reader)
    cast = poolings.widening(image, reader)
    if prologue:
        (image,) = poolings.sources(prologue)
        epilogue = [op for op in epilogue if op not in prologue]
        if cast is not None and prologue == [cast]:
            prologue = []  # Loads widen, and its padding is a number of the image's type.
    owner = ops.defining_op(image)
    if owner is not None and ops.in_region(owner):
        raise Unsupported("an image that the group computes")
    padding = None if pad is None else _padding(pad)
    results = tuple(returned(region))
    found = PoolingAnalysis(op, pooling, image, tuple(prologue), padding, tuple(epilogue), results)
    if found.out_sizes[-1] is None:
        raise Unsupported("a dynamic last dimension")
    return found


def _padding(pad: ir.Operation) -> Padding:
    """Reads a padding.

    Raises:
      Unsupported: it is not constant and static.
    """
    value, amounts = ops.padding_value(pad), ops.padding_amounts(pad)
    constant = None if value is None else ops.constant(value)
    if constant is None or amounts is None:
        raise Unsupported("a padding that is not of one constant, and static")
    padded = tuple(low + high != 0 for low, high in amounts)
    shape = ops.shape(pad.operands[0])
    if any(moved and size is None for moved, size in zip(padded, shape, strict=True)):
        raise Unsupported("a padding of a dynamic dimension")
    return Padding(tuple(low for low, _ in amounts), padded, float(constant))
