"""Fold a transpose that feeds a contraction into the contraction's indexing map.

    %t = linalg.generic {transpose} ins(%k)            tensor<BxNxHxDxT> -> tensor<BxHxDxNxT>
    %r = tensor.collapse_shape %t [[0, 1], [2], [3]]   tensor<(B*H)xDxNxT>
    %c = linalg.batch_matmul ins(%q, %r)               tensor<(B*H)xMxNxT>
  becomes
    %w = linalg.generic {mulf, addf} ins(%q', %k)      tensor<BxHxMxNxT>, %k read as (b, n, h, d)
    %c = tensor.collapse_shape %w [[0, 1], [2], [3]]

Root: the contraction. Any permutation, on either operand or both, also seen through a reshape that
merges batch dimensions (the batch loop splits into the merged ones). A reshape of the other loops
stays: the contraction would lose the form that data tiling packs. Static sizes where a reshape is
crossed; any element type. Numerics: exact (the same operations in the same order).
Source: MindSpore transpose_matmul_fusion.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.expr.nodes import Index, Part
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import contractions, matrix_instructions, operand_views


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """The views of the inputs, and the sizes that each split loop splits into."""

    views: tuple[operand_views.View | None, ...]
    radices: dict[int, tuple[int, ...]]


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a contraction that reads through a transpose."""
    if not ops.is_contraction(root):
        return None
    views = [operand_views.view(root, operand) for operand in range(2)]
    if not any(views):
        return None
    radices: dict[int, tuple[int, ...]] = {}
    batch = contractions.batch_loops(root)
    for operand, view in enumerate(views):
        for index in view.index if view is not None else ():
            if not isinstance(index, Part):
                continue
            refusal = _split(index, batch, radices)
            if refusal is not None:
                if not views[1 - operand]:
                    return refusal
                views[operand] = None
    if not any(views):
        return NoMatch(Reason.SHAPE_MISMATCH, "the operands split the batch loop differently")
    used = {
        d for v in views if v is not None for i in v.index if isinstance(i, Part) for d in [_of(i)]
    }
    return Match(
        root, (root,), _Plan(tuple(views), {d: r for d, r in radices.items() if d in used})
    )


def _of(index: Index) -> int:
    loop = index.index if isinstance(index, Part) else index
    assert isinstance(loop, int)
    return loop


def _split(
    index: Part, batch: frozenset[int], radices: dict[int, tuple[int, ...]]
) -> NoMatch | None:
    loop = _of(index)
    if loop not in batch:
        return NoMatch(Reason.SHAPE_MISMATCH, "a reshape cuts a loop that is not a batch loop")
    sizes = tuple(s for s in index.sizes if s is not None)
    if len(sizes) != len(index.sizes):
        return NoMatch(Reason.DYNAMIC_SHAPE, "a merged batch dimension is dynamic")
    if radices.setdefault(loop, sizes) != sizes:
        return NoMatch(Reason.SHAPE_MISMATCH, "the operands split the batch loop differently")
    return None


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses a form that the target's code generator fails on."""
    op, plan = match.root, match.data
    sizes = [
        size for d, whole in enumerate(ops.loop_sizes(op)) for size in plan.radices.get(d, (whole,))
    ]
    return matrix_instructions.inner_batch_refusal(op, _maps(op, plan), sizes, ctx.target)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the contraction on the untransposed operands, its batch loops split."""
    op, plan = match.root, match.data
    maps = ops.plain_maps(op)
    loops = [k for d, k in enumerate(ops.iterator_types(op)) for _ in plan.radices.get(d, (0,))]
    with ir.InsertionPoint(op), op.location:
        inputs = [
            view.source if view is not None else _wide(value, index_map, plan.radices)
            for view, value, index_map in zip(plan.views, ops.inputs(op), maps, strict=False)
        ]
        init = _wide_init(op.operands[2], maps[2], plan.radices)
        new = builders.generic(inputs, [init], _maps(op, plan), loops, builders.body_of(op))
        builders.replace_collapsed(op.results[0], new.results[0], _groups(maps[2], plan.radices))
    op.erase()
    return new


def _maps(op: ir.Operation, plan: _Plan) -> list[ops.IndexMap]:
    """The indexing maps of the new contraction."""
    maps = ops.plain_maps(op)
    first: dict[int, int] = {}
    for loop in range(len(ops.iterator_types(op))):
        first[loop] = sum(len(plan.radices.get(d, (0,))) for d in range(loop))
    read = [
        tuple(_renumbered(i, first) for i in view.index)
        if view is not None
        else _wide_map(index_map, plan.radices, first)
        for view, index_map in zip(plan.views, maps, strict=False)
    ]
    return [*read, _wide_map(maps[2], plan.radices, first)]


def _renumbered(index: Index, first: dict[int, int]) -> int:
    if isinstance(index, Part):
        return first[_of(index)] + index.position
    return first[_of(index)]


def _wide_map(
    index_map: ops.IndexMap, radices: dict[int, tuple[int, ...]], first: dict[int, int]
) -> ops.IndexMap:
    return tuple(
        first[d] + i for d in index_map if d is not None for i in range(len(radices.get(d, (0,))))
    )


def _groups(index_map: ops.IndexMap, radices: dict[int, tuple[int, ...]]) -> list[list[int]]:
    groups: list[list[int]] = []
    position = 0
    for d in index_map:
        count = len(radices.get(_of(d), (0,)))
        groups.append(list(range(position, position + count)))
        position += count
    return groups


def _wide_sizes(
    value: ir.Value, index_map: ops.IndexMap, radices: dict[int, tuple[int, ...]]
) -> list[int | None]:
    sizes: list[int | None] = []
    for d, size in zip(index_map, ops.shape(value), strict=True):
        sizes += radices.get(_of(d), (size,))
    return sizes


def _wide(
    value: ir.Value, index_map: ops.IndexMap, radices: dict[int, tuple[int, ...]]
) -> ir.Value:
    groups = _groups(index_map, radices)
    if all(len(g) == 1 for g in groups):
        return value
    sizes = _wide_sizes(value, index_map, radices)
    source = ops.defining_op(value)
    collapsed = source is not None and source.name == "tensor.collapse_shape"
    if source is not None and collapsed and ops.shape(source.operands[0]) == tuple(sizes):
        return source.operands[0]
    return builders.expand(value, groups, sizes, builders.dynamic_sizes(value))


def _wide_init(
    value: ir.Value, index_map: ops.IndexMap, radices: dict[int, tuple[int, ...]]
) -> ir.Value:
    if all(d not in radices for d in index_map):
        return value
    op = ops.defining_op(value)
    if op is None or op.name != "linalg.fill" or not slices.is_clonable(op):
        return _wide(value, index_map, radices)
    sizes = _wide_sizes(value, index_map, radices)
    fresh = builders.empty(sizes, ops.element_type(value), builders.dynamic_sizes(value))
    return builders.fill(op.operands[0], fresh)


PASS = FusionPass(
    name="transpose_matmul_fusion",
    summary="Transposes that feed a contraction fold into its indexing maps",
    roots=contractions.ROOTS,
    where=ops.is_contraction,
    match=match,
    legal=legal,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    contained=True,
    source="MindSpore transpose_matmul_fusion",
)
