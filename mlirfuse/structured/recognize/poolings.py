"""Poolings: reductions over a window, channel by channel."""

from __future__ import annotations

import dataclasses
import math

from iree.compiler import ir

from mlirfuse.structured.ir import ops, slices, strided_access
from mlirfuse.structured.ir.fusable_neighbors import has_one_order, has_scalar_body

ROOTS = ("linalg.generic",)
"""Names of the ops at which passes look for a pooling; IREE generalizes the named ones."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pooling:
    """A recognized pooling.

    Attributes:
      window_loops: loops over the window.
      image_dims: for each dimension of the image, the loops that index it, with their strides.
      combine: the combiner in the scalar body, e.g. `arith.maximumf`.
      term: the combined value in the scalar body.
    """

    window_loops: tuple[int, ...]
    image_dims: tuple[strided_access.StridedDim, ...]
    combine: ir.Operation
    term: ir.Value


def pooling(op: ir.Operation) -> Pooling | None:
    """Recognizes a pooling; None for any other op.

    Its second operand has the shape of the window, and the body does not read it. Each dimension of
    the result and of the window is one loop.
    """
    if not ops.is_generic(op) or ops.num_inputs(op) != 2 or len(op.results) != 1:
        return None
    kinds = ops.iterator_types(op)
    image, window, out = ops.indexing_maps(op)
    reduced = tuple(loop for loop, kind in enumerate(kinds) if kind == "reduction")
    if image is not None or window != reduced or not reduced or out is None:
        return None
    if sorted(d for d in out if d is not None) != [
        n for n in range(len(kinds)) if n not in reduced
    ]:
        return None
    terms = strided_access.strided_loops(op, 0)
    body = ops.body(op)
    _, shape, accumulator = body.arguments
    yielded = list(body.operations)[-1].operation.operands[0]
    combine = None if isinstance(yielded.owner, ir.Block) else yielded.owner.operation
    if terms is None or list(shape.uses) or combine is None or len(list(accumulator.uses)) != 1:
        return None
    parts = [value for value in combine.operands if value != accumulator]
    if len(parts) != 1 or len(combine.operands) != 2:
        return None
    if {loop for dim in terms for loop, _ in dim} != set(range(len(kinds))):
        return None
    return Pooling(reduced, terms, combine, parts[0])


def prologue(image: ir.Value, user: ir.Operation) -> list[ir.Operation]:
    """The elementwise ops of one tensor in front of a pooling or its padding, which alone reads it.

    Args:
      image: the operand.
      user: the pooling or the padding.

    Returns:
      The ops in block order, of which all read that tensor or one another; the last of them where
      the others read more tensors.
    """
    found = slices.exclusive_producers([user], _is_in_order)
    found = [op for op in found if ops.shape(op.results[0]) == ops.shape(image)]
    while found and len(sources(found)) != 1:
        found = found[1:]
    return found


def sources(group: list[ir.Operation]) -> list[ir.Value]:
    """The tensors that elementwise ops read from elsewhere, each once."""
    computed = {op.results[0] for op in group}
    read = (value for op in group for value in ops.inputs(op))
    return [value for value in dict.fromkeys(read) if value not in computed]


def _is_in_order(op: ir.Operation) -> bool:
    """Whether an op is elementwise arithmetic whose tensors are all read in its order."""
    if not has_one_order(op) or not ops.num_inputs(op):
        return False
    return not ops.reads_inits(op) and has_scalar_body(op)


def widening(image: ir.Value, user: ir.Operation) -> ir.Operation | None:
    """The cast of an image to f32 that a pooling, or its padding, alone reads; None without one.

    A padding is one of zeros or infinities, which are the same in the narrower type.
    """
    op = ops.defining_op(image)
    if op is None or op.block != user.block or ops.users(op.results[0]) != [user]:
        return None
    if not ops.is_elementwise(op) or len(op.operands) != 2 or not ops.is_generic(op):
        return None
    if user.name == "tensor.pad":
        value = ops.padding_value(user)
        number = None if value is None else ops.constant(value)
        if number is None or (number != 0 and math.isfinite(number)):
            return None
    source, result = ops.indexing_maps(op)
    body = [view.operation for view in ops.body(op).operations]
    identity = tuple(range(len(ops.shape(image))))
    casts = len(body) == 2 and body[0].name == "arith.extf"
    if not casts or source != identity or result != identity:
        return None
    return op if body[0].operands[0] == ops.body(op).arguments[0] else None
