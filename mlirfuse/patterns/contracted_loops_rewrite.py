"""Merge the contracted loops of a contraction into one.

    %y = linalg.generic {mulf, addf} ins(%a, %b)       %a: (m, k, l), %b: (l, k, n) -> (m, n)
  becomes
    %t = transpose(%b)                                 (k, l, n), where the orders differ
    %y = linalg.generic {mulf, addf} ins(collapse(%a), collapse(%t))     (m, kl), (kl, n) -> (m, n)

Root: a contraction in no group with several contracted loops, as of `tensordot` or an attention's
output projection from JAX. The order is that of the operand that is not constant, or of the larger
one; the other is transposed where its dimensions have another order or are apart. Kernels have one
contracted loop; without them, IREE 3.13 computes a matrix times a vector wrong on NVIDIA where the
orders of two contracted loops differ. Static sizes; any element type.
Numerics: reassociating (the order of the sum).
Source: Goto, van de Geijn, Anatomy of high-performance matrix multiplication, 2008, for the form.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, Numerics, PassContext, Reason
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import contractions
from mlirfuse.structured.recognize.convolutions import constant_root


@dataclasses.dataclass(frozen=True, slots=True)
class _Loops:
    """Loops of the contraction.

    Attributes:
      maps: the loops that index the operands and the result.
      merged: the contracted loops, in the order that they are merged in.
    """

    maps: tuple[tuple[int, ...], ...]
    merged: tuple[int, ...]


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a contraction with several contracted loops."""
    if ops.in_region(root) or len(root.results) != 1:
        return None
    kinds = ops.iterator_types(root)
    contracted = {loop for loop, kind in enumerate(kinds) if kind == "reduction"}
    maps = [tuple(d for d in m if d is not None) for m in ops.plain_maps(root)]
    if len(contracted) < 2 or not all(contracted <= {*index_map} for index_map in maps[:2]):
        return None
    values = ops.inputs(root)
    if None in ops.loop_sizes(root):
        return NoMatch(Reason.DYNAMIC_SHAPE, "dimensions are merged")
    leads = max((0, 1), key=lambda n: (constant_root(values[n]) is None, _size(values[n]), -n))
    order = tuple(loop for loop in maps[leads] if loop in contracted)
    return Match(root, (root,), _Loops(tuple(maps), order))


def _size(value: ir.Value) -> int:
    return ops.num_elements(value)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the contraction with one contracted loop."""
    op, loops = match.root, match.data
    kept = [loop for loop in range(len(ops.loop_sizes(op))) if loop not in loops.merged]
    number = {loop: n for n, loop in enumerate(kept)} | {loops.merged[0]: len(kept)}
    inputs, maps = [], []
    with ir.InsertionPoint(op), op.location:
        for value, index_map in zip(ops.inputs(op), loops.maps[:2], strict=True):
            order = _adjacent(index_map, loops.merged)
            if order != index_map:
                value = builders.transpose(value, [order.index(loop) for loop in index_map])
            groups = [[n] for n in range(len(order))]
            first = order.index(loops.merged[0])
            groups[first : first + len(loops.merged)] = [[*range(first, first + len(loops.merged))]]
            inputs.append(builders.collapse(value, groups))
            maps.append(tuple(number[loop] for loop in order if loop in number))
        new = builders.generic(
            inputs,
            ops.inits(op),
            [*maps, tuple(number[loop] for loop in loops.maps[2])],
            ["parallel"] * len(kept) + ["reduction"],
            builders.body_of(op),
        )
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()
    return new


def _adjacent(index_map: Sequence[int], merged: tuple[int, ...]) -> tuple[int, ...]:
    """The loops of an operand with the merged ones together, where the last of them was."""
    last = max(index_map.index(loop) for loop in merged)
    before = [loop for loop in index_map[:last] if loop not in merged]
    return (*before, *merged, *index_map[last + 1 :])


PASS = FusionPass(
    name="contracted_loops_rewrite",
    summary="Several contracted loops of a contraction become one",
    roots=contractions.ROOTS,
    where=ops.is_contraction,
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    numerics=Numerics.REASSOCIATING,
    targets=frozenset({"cpu", "cuda", "rocm"}),
    source="merging of contracted dimensions",
)
