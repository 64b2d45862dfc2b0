"""Guards for targets whose matrix instructions require certain sizes and loop orders."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.expr.loop_domains import product
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import MmaShape, Target


def no_matrix_instructions(contraction: ir.Operation, n: int, target: Target) -> str:
    """Why the target has none for several contractions of one first operand; empty if it has.

    Args:
      contraction: a contraction with an N loop of the second operand alone.
      n: size of N in each contraction.
      target: the target, whose matrix instructions have to divide M, N and K.
    """
    kind = ops.element_type(contraction.operands[0])
    sizes, out = ops.loop_sizes(contraction), ops.plain_maps(contraction)[2]
    m = next((sizes[d] for d in out[-2:-1] if d is not None), 1)
    k = next(
        s for s, k in zip(sizes, ops.iterator_types(contraction), strict=True) if k == "reduction"
    )
    loops = (m, n, k)
    shape = target.mma_shapes.get(kind)
    if shape is not None and _divides(shape, loops):
        return ""
    shown = "x".join("?" if s is None else str(s) for s in loops)
    return f"no matrix instructions for several contractions of {shown} {kind} on {target}"


def _divides(shape: MmaShape, sizes: Sequence[int | None]) -> bool:
    return all(d == 1 or (s is not None and s % d == 0) for s, d in zip(sizes, shape, strict=True))


def inner_batch_refusal(
    contraction: ir.Operation,
    maps: Sequence[ops.IndexMap],
    sizes: Sequence[int | None],
    target: Target,
) -> NoMatch | None:
    """Refuses a form of a contraction with an inner batch loop where the target needs an outer one.

    Args:
      contraction: the original contraction, for its element types.
      maps: indexing maps of the new form: first operand, second operand, result.
      sizes: loop sizes of the new form.
      target: the target, for its `outer_batch_mma_shapes`.
    """
    tensors = (*ops.inputs(contraction), contraction.results[0])
    types = [ops.element_type(value) for value in tensors]
    shape = target.outer_batch_mma_shapes.get(types[0])
    if shape is None or types != [types[0], types[0], "f32"]:
        return None
    shown = [[d for d in index_map if d is not None and sizes[d] != 1] for index_map in maps]
    left, right, out = (set(loops) for loops in shown)
    batch = left & right & out
    extents = [
        product(sizes[d] for d in loops)
        for loops in ((left & out) - batch, (right & out) - batch, (left & right) - batch)
    ]
    outer = all(loops[:1] == list(batch) for loops in shown)
    if len(batch) != 1 or outer or not _divides(shape, extents):
        return None
    return NoMatch(
        Reason.TARGET_UNSUPPORTED,
        "IREE's SPIR-V code generation has no cooperative matrices for an inner batch loop",
    )
