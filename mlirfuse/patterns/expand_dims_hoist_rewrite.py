"""Move an expanding reshape from before a structured op to after it.

    %e = tensor.expand_shape %s [[0, 1], [2]]          tensor<(B*S)xNxT> -> tensor<BxSxNxT>
    %y = linalg.generic ins(%e, %b) (d0, d1, d2)       tensor<BxSxNxT>
  becomes
    %z = linalg.generic ins(%s, collapse(%b)) (d0, d1) tensor<(B*S)xNxT>
    %y = tensor.expand_shape %z [[0, 1], [2]]          tensor<BxSxNxT>

A reshape between a contraction and its epilogue, or between the parts of a norm, keeps IREE from
generating one loop nest for them; the same computation on the collapsed loops has no reshape
inside. Root: a generic that reads an expand_shape. The loops of each collapsed group must be
adjacent, of one iterator type, and read together or not at all by every operand. A reshape stays
before a reduction over a part of the group, and so before its other users: a norm over split rows
would come apart. Static or dynamic sizes; any element type.
Numerics: exact (each element is computed as before).
Source: MLIR, sinking of tensor.expand_shape through linalg ops; MindSpore has no such pass.
"""

from __future__ import annotations

import dataclasses
import itertools

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import ops, slices


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """The collapsed loops.

    Attributes:
      groups: for each new loop the old loops that it collapses.
      maps: indexing maps over the new loops, one per operand.
    """

    groups: tuple[tuple[int, ...], ...]
    maps: tuple[ops.IndexMap, ...]


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a generic with an expanded operand whose loops can be collapsed."""
    expanded = [
        (operand, op)
        for operand, value in enumerate(ops.inputs(root))
        if (op := ops.defining_op(value)) is not None and op.name == "tensor.expand_shape"
    ]
    if not expanded or ops.is_contraction(root):
        return None
    maps = [m for m in ops.indexing_maps(root) if m is not None]
    if len(maps) != len(root.operands) or any(None in m or len(set(m)) != len(m) for m in maps):
        return NoMatch(Reason.INDEXING_MAP, root.name)
    if ops.reads_index(root):
        return NoMatch(Reason.STRUCTURE, "the body reads a loop index")
    views = [(maps[operand], ops.reassociation(op)) for operand, op in expanded]
    if any(_reduced_in_part(op) for _, op in expanded):
        return NoMatch(Reason.SHAPE_MISMATCH, "a reduction reads only part of the collapsed loops")
    plan = _plan(root, maps, views)
    return Match(root, (root,), plan) if isinstance(plan, _Plan) else plan


def _reduced_in_part(expand: ir.Operation) -> bool:
    """Whether a user reduces some, not all, of the dimensions that one was split into."""
    value = expand.results[0]
    for user in ops.users(value):
        if not ops.is_generic(user) or ops.is_contraction(user):
            continue
        kinds = ops.iterator_types(user)
        maps = [
            index_map
            for operand, index_map in zip(user.operands, ops.indexing_maps(user), strict=True)
            if operand == value and index_map is not None
        ]
        groups = (g for g in ops.reassociation(expand) if len(g) > 1)
        for index_map, group in itertools.product(maps, groups):
            read = {kinds[loop] for d in group if (loop := index_map[d]) is not None}
            if len(read) > 1:
                return True
    return False


def _plan(
    root: ir.Operation,
    maps: list[ops.IndexMap],
    views: list[tuple[ops.IndexMap, tuple[tuple[int, ...], ...]]],
) -> _Plan | NoMatch | None:
    merged: list[tuple[int, ...]] = []
    for index_map, reassociation in views:
        for group in reassociation:
            loops = tuple(_loop(index_map[d]) for d in group)
            if len(loops) > 1 and not any(set(loops) & set(g) for g in merged):
                merged.append(loops)
    if not merged:
        return None
    kinds = ops.iterator_types(root)
    merged = [g for g in merged if len({kinds[d] for d in g}) == 1]
    # A group that some operand reads in part stays as it is; the others still collapse.
    merged = [g for g in merged if all(_whole(m, g) for m in maps)]
    if not merged:
        return NoMatch(Reason.SHAPE_MISMATCH, "an operand reads only part of the collapsed loops")
    owner = {d: g for g in merged for d in g}
    groups = list(dict.fromkeys(owner.get(d, (d,)) for d in range(len(kinds))))
    new_loop = {d: i for i, g in enumerate(groups) for d in g}
    new_maps = tuple(tuple(dict.fromkeys(new_loop[_loop(d)] for d in m)) for m in maps)
    return _Plan(tuple(groups), new_maps)


def _loop(entry: int | None) -> int:
    assert entry is not None
    return entry


def _whole(index_map: ops.IndexMap, group: tuple[int, ...]) -> bool:
    """Whether the map reads the group's loops together, adjacent and in order, or not at all."""
    positions = [p for p, d in enumerate(index_map) if d in group]
    if not positions:
        return True
    return tuple(index_map[positions[0] : positions[0] + len(group)]) == group


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the op on collapsed loops and expands its results."""
    op, plan = match.root, match.data
    old_maps = ops.indexing_maps(op)
    kinds = ops.iterator_types(op)
    with ir.InsertionPoint(op), op.location:
        split = ops.num_inputs(op)
        inputs = [
            builders.collapse(v, _tensor_groups(m, plan.groups))
            for v, m in zip(ops.inputs(op), old_maps, strict=False)
        ]
        read = {
            loop: (value, dim)
            for value, index_map in zip(inputs, plan.maps, strict=False)
            for dim, loop in enumerate(index_map)
            if ops.shape(value)[dim] is None
        }
        inits = [
            _collapsed_init(v, _tensor_groups(old, plan.groups), [read.get(d) for d in new])
            for v, old, new in zip(ops.inits(op), old_maps[split:], plan.maps[split:], strict=True)
        ]
        new = builders.generic(
            inputs, inits, plan.maps, [kinds[g[0]] for g in plan.groups], builders.body_of(op)
        )
        for old, value, index_map in zip(op.results, new.results, old_maps[split:], strict=True):
            builders.replace_expanded(old, value, _tensor_groups(index_map, plan.groups))
    op.erase()
    return new


def _tensor_groups(
    index_map: ops.IndexMap | None, groups: tuple[tuple[int, ...], ...]
) -> list[tuple[int, ...]]:
    """The reassociation of a tensor that is read through the map when the loops collapse."""
    assert index_map is not None
    owner = {d: g for g in groups for d in g}
    result: list[list[int]] = []
    last: tuple[int, ...] | None = None
    for position, entry in enumerate(index_map):
        group = owner[_loop(entry)]
        if group == last and len(group) > 1:
            result[-1].append(position)
        else:
            result.append([position])
        last = group
    return [tuple(g) for g in result]


def _collapsed_init(
    value: ir.Value, groups: list[tuple[int, ...]], read: list[tuple[ir.Value, int] | None]
) -> ir.Value:
    """The init for the collapsed loops: empty and filled tensors are created again.

    Args:
      value: the init.
      groups: its dimensions that collapse to one each.
      read: for each of those an input and its dimension, where that is dynamic.
    """
    if all(len(g) == 1 for g in groups):
        return value
    op = ops.defining_op(value)
    sizes = ops.shape(value)
    merged = [builders.product([sizes[d] for d in g]) for g in groups]
    # The input's own size: no analysis could prove a product of the old sizes equal to it.
    sources = [
        (value, group[0]) if found is None and len(group) == 1 else found
        for group, found in zip(groups, read, strict=True)
    ]
    known = [s for s, size in zip(sources, merged, strict=True) if size is None and s is not None]
    if op is None or not slices.is_clonable(op) or len(known) < merged.count(None):
        return builders.collapse(value, groups)
    dynamic = [builders.dimension(*source) for source in known]
    fresh = builders.empty(merged, ops.element_type(value), dynamic)
    return fresh if op.name == "tensor.empty" else builders.fill(op.operands[0], fresh)


PASS = FusionPass(
    name="expand_dims_hoist_rewrite",
    summary="Expanding reshapes move from before an op to after it, out of the way of fusion",
    roots=("linalg.generic",),
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    contained=True,
    source="MLIR linalg reshape propagation",
)
