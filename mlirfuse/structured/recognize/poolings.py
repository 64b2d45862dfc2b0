"""Poolings: what combines the places of a window, channel by channel."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.structured.ir import ops, strided_access

ROOTS = ("linalg.generic",)
"""Names of the ops at which passes look for a pooling; IREE makes generics of the named ones."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pooling:
    """What the loops of a pooling are.

    Attributes:
      windows: the loops of the window.
      terms: for each dimension of the image the loops that it adds up, with their factors.
      combine: the op of the body that combines, e.g. `arith.maximumf`.
      term: what it combines, a value of the body.
    """

    windows: tuple[int, ...]
    terms: tuple[tuple[tuple[int, int], ...], ...]
    combine: ir.Operation
    term: ir.Value


def pooling(op: ir.Operation) -> Pooling | None:
    """What a pooling's loops are; None for another op.

    Its second operand has the window's shape, and nobody reads it. Each dimension of the result is
    a loop of its own, and so is each of the window.
    """
    if not ops.is_generic(op) or ops.num_inputs(op) != 2 or len(op.results) != 1:
        return None
    kinds = ops.iterator_types(op)
    image, window, out = ops.indexing_maps(op)
    summed = tuple(loop for loop, kind in enumerate(kinds) if kind == "reduction")
    if image is not None or window != summed or not summed or out is None:
        return None
    if sorted(d for d in out if d is not None) != [n for n in range(len(kinds)) if n not in summed]:
        return None
    terms = strided_access.strided_loops(op, 0)
    body = ops.body(op)
    _, shape, total = body.arguments
    yielded = list(body.operations)[-1].operation.operands[0]
    combine = None if isinstance(yielded.owner, ir.Block) else yielded.owner.operation
    if terms is None or list(shape.uses) or combine is None or len(list(total.uses)) != 1:
        return None
    parts = [value for value in combine.operands if value != total]
    if len(parts) != 1 or len(combine.operands) != 2:
        return None
    if {loop for sums in terms for loop, _ in sums} != set(range(len(kinds))):
        return None
    return Pooling(summed, terms, combine, parts[0])
