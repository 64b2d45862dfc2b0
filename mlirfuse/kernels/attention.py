"""Kernels for regions around one `iree_linalg_ext.attention`.

A workgroup holds some queries of one head and walks over the keys with an online softmax. Scores
and weights stay in registers; blocks of keys that a causal mask closes throughout are left out.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels import building, tuning
from mlirfuse.kernels.attention_text import (
    BATCH,
    COMPUTING_WARPS,
    KEY,
    QUERY,
    WIDTH,
    Scores,
    Shape,
    Tiling,
    join_parts,
    overlapped,
    padded,
    store_parts,
    sums,
)
from mlirfuse.kernels.matmul import FILLED
from mlirfuse.kernels.provider import Extent, Key, Plan, Program
from mlirfuse.kernels.rows import MAX_INDEX, power_of_two
from mlirfuse.kernels.scalars import POINTERS, TYPES, Unsupported
from mlirfuse.kernels.space import Axis, Group, Space, known_product, loop_axes
from mlirfuse.kernels.tiles import Tiles, attempted, computing, dynamic_dimension, returned, text_of
from mlirfuse.structured import ops
from mlirfuse.targets.base import Target

ENTRY = "attention_kernel"
ATTENTION = "iree_linalg_ext.attention"

MAX_HEAD = 256
"""Largest head size: q, the sums, and two blocks of k and v fit registers and workgroup memory."""

SHORTEST = 256
"""Keys that are worth a workgroup of their own, at least."""

PARTS_FILLED = 264
"""Workgroups that share keys until then: two for each multiprocessor of an H100."""

_JOINED = 16
"""Rows of a workgroup that joins parts, at most."""

HOPPER = "sm_90"
"""Architecture with the asynchronous products of `triton/hopper.py`."""

FEWEST = 48
"""Queries below which a good part of a tile of 64 would be empty."""

HEADS = (64, 128)
"""Head sizes of those kernels: a row is one or two lines of 128 bytes in workgroup memory."""

FOLDED = 32
"""Queries of a head up to which the heads that share keys are computed together."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Parts:
    """The loops of an attention op, and its operands."""

    op: ir.Operation
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    key: int
    depth: int
    width: int

    @property
    def mask(self) -> ir.Value | None:
        """The mask, where there is one."""
        return self.op.operands[4] if len(self.op.operands) == 6 else None


def supports(
    region: ir.Operation, target: Target, tiling: Tiling | None = None
) -> Plan | NoMatch | None:
    """Plans a kernel for a region around one attention; None for another kind of region.

    Args:
      region: a group.
      target: what is compiled for.
      tiling: instead of the chosen one.
    """
    group = computing(region)
    found = [op for op in group if op.name == ATTENTION]
    if not found:
        return None
    others = [op for op in group if op not in found and not ops.is_elementwise(op)]
    if len(found) > 1 or others:
        return NoMatch(
            Reason.STRUCTURE, f"the kernel has no {ops.described((others or found)[-1])}"
        )
    return attempted(
        lambda: _plan(region, group, _parts(found[0]), target, tiling), "queries, keys and widths"
    )


def _parts(op: ir.Operation) -> _Parts:
    maps = ops.indexing_maps(op)
    if any(m is None or None in m for m in maps):
        raise Unsupported(f"an indexing map of {op.name}")
    q, k, v, out = (tuple(d for d in m if d is not None) for m in (*maps[:3], maps[-1]) if m)
    # The heads that share k and v, and the queries as the last of these.
    queries = [d for d in q if d in out and d not in (*k, *v)]
    widths = [d for d in v if d in out and d not in (*q, *k)]
    keys = [d for d in k if d in v and d not in (*q, *out)]
    depths = [d for d in q if d in k and d not in (*v, *out)]
    if not queries or [len(x) for x in (widths, keys, depths)] != [1, 1, 1]:
        raise Unsupported("an attention without one dimension each of keys, depths and widths")
    sizes = _sizes(op)
    if len(queries) > 1 and (sizes[queries[-1]] or FOLDED + 1) > FOLDED:
        queries = queries[-1:]
    batch = sorted({*q, *k, *v, *out} - {*queries, *widths, *keys, *depths})
    if not set(batch) <= set(out) & set(q):
        raise Unsupported("an attention whose q or result lacks a batch dimension")
    return _Parts(op, tuple(batch), tuple(queries), keys[0], depths[0], widths[0])


def _plan(
    region: ir.Operation,
    group: list[ir.Operation],
    parts: _Parts,
    target: Target,
    tiling: Tiling | None,
) -> Plan | NoMatch:
    op = parts.op
    q, k, v = list(op.operands)[:3]
    kinds = {ops.element_type(x) for x in (q, k, v)}
    if kinds not in ({"f16"}, {"bf16"}):
        return NoMatch(Reason.ELEMENT_TYPE, f"attention in {' and '.join(sorted(kinds))}")
    given = ops.constant(op.operands[3])
    if given is None:
        return NoMatch(Reason.CONSTANT_UNVERIFIED, "the scale is not a constant")
    scale, body = _scale(op, float(given))
    sizes = _sizes(op)
    batch = tuple(sizes[n] for n in parts.batch)
    rows = tuple(sizes[n] for n in parts.rows)
    depth, width, keys = (sizes[n] for n in (parts.depth, parts.width, parts.key))
    if None in (*batch, *rows) or not depth or not width or not keys:
        return NoMatch(Reason.DYNAMIC_SHAPE, "the kernel takes static sizes")
    if max(depth, width) > MAX_HEAD:
        return NoMatch(Reason.NOT_PROFITABLE, f"heads of {max(depth, width)}, above {MAX_HEAD}")
    queries = known_product(rows)
    before, after = _around(group, op)
    mask_map = () if parts.mask is None else ops.plain_maps(op)[4]
    axes: dict[int, Axis] = {loop: (BATCH, n) for n, loop in enumerate(parts.batch)}
    axes |= {loop: (QUERY, n) for n, loop in enumerate(parts.rows)}
    axes |= {parts.key: (KEY, 0), parts.width: (WIDTH, 0)}
    causal = len(parts.rows) == 1 and _is_causal(parts, before)
    form = "causal" if causal else "open" if parts.mask is None else "masked"
    key = Key("attention", form, (queries, keys, max(depth, width), known_product(batch)))
    chosen = tiling or _tiling(target, key)
    shape = Shape(depth, width, keys, queries)
    overlaps = (
        target.arch == HOPPER
        and form != "masked"
        and not (after or body or queries > known_product(rows[-1:]))
        and scale > 0
        and _whole_heads(parts, shape)
    )
    span = 0 if causal else _span(key, chosen)
    gluon = chosen.overlapped and overlaps and not span
    if gluon and chosen.warps > COMPUTING_WARPS and (queries % chosen.tall or keys % chosen.block):
        # The kernel with loaders was checked on a device for whole tiles alone.
        chosen = dataclasses.replace(chosen, tall=64, block=64, warps=COMPUTING_WARPS)
    if chosen.overlapped and not gluon:
        chosen = _plain(target, key)
        span = 0 if causal else _span(key, chosen)
    space = Space(
        (
            Group("batch", batch),
            Group("query", rows, "query_inside" if queries % chosen.tall else ""),
            Group("key", (keys,)),
            Group("column", (width,), "column_inside" if padded(width) != width else ""),
        )
    )
    tiles = Tiles(space, {})
    places = [_place(tiles, op, n, axes, parts.depth) for n in range(3)]
    mask_axes = tuple(axes[d] for d in mask_map if d is not None)
    written = {} if parts.mask is None else {parts.mask: mask_axes}
    mask_loops = loop_axes(space, before, mask_axes, written=written)
    result_axes = [axes[d] for d in ops.indexing_maps(op)[-1] or () if d is not None]
    tiles.loops = {
        **mask_loops,
        **loop_axes(space, after, result_axes, written={op.results[0]: result_axes}),
    }
    if gluon:
        lines = _overlapped(tiles, parts, axes, scale, shape, chosen, causal)
        chosen = dataclasses.replace(chosen, warps=COMPUTING_WARPS)
    else:
        scores = Scores(tiles, op, scale, body, parts.mask, mask_axes, before)
        lines = sums(places, scores, shape, chosen, causal, span)
    grid = [Extent(queries, chosen.tall), Extent(known_product(batch))]
    if chosen.heads_first:
        grid.reverse()
    first = None
    if span:
        parts_of = -(-keys // span)
        rows_of = known_product(batch) * queries
        lines += store_parts(shape, known_product(batch), bool(space.groups[QUERY].mask))
        scratch = ((parts_of, rows_of, width), (parts_of, rows_of), (parts_of, rows_of))
        first = Plan(
            _program(tiles, lines, chosen, ["*fp32"] * len(scratch)),
            tuple(tiles.operands),
            (),
            (*grid, Extent(parts_of)),
            scratch=scratch,
        )
        chosen = Tiling(min(_JOINED, power_of_two(queries)), 0, 4, 1)
        grid = [Extent(queries, chosen.tall), Extent(known_product(batch))]
        groups = list(space.groups)
        groups[QUERY] = dataclasses.replace(
            groups[QUERY], mask="query_inside" if queries % chosen.tall else ""
        )
        tiles = Tiles(Space(tuple(groups)), tiles.loops)
        lines = join_parts(shape, chosen, known_product(batch), parts_of)
    elif not gluon:
        lines.append("total = total / weight")
    results = returned(region)
    if not gluon:
        lines += _epilogue(tiles, op, after, results, tuple(result_axes))
    read = [*tiles.operands, *(first.operands if first else ()), *results]
    dynamic_dimension(read, {})
    total = max(ops.num_elements(x) for x in read)
    if total >= MAX_INDEX:
        return NoMatch(Reason.NOT_PROFITABLE, f"a tensor of {total} elements")
    written_types = [POINTERS[ops.element_type(x)] for x in results]
    program = _program(tiles, lines, chosen, written_types, 3 if first else 0, gluon=gluon)
    return Plan(
        program,
        tuple(tiles.operands),
        tuple(results),
        (*grid, Extent(1)),
        key=None if first else key,
        before=first,
    )


def _epilogue(
    tiles: Tiles,
    op: ir.Operation,
    after: list[ir.Operation],
    results: list[ir.Value],
    axes: tuple[Axis | None, ...],
) -> list[str]:
    """The lines from the normalized sums `total` to the results."""
    start = len(tiles.body.lines)
    tiles.forget_loads()
    out = ops.element_type(op.results[0])
    tiles.define(op.results[0], tiles.body.name(f"total.to({TYPES[out]})"))
    for other in after:
        tiles.elementwise(other)
    for number, value in enumerate(results):
        owned = axes if value == op.results[0] else tiles.written_axes(value)
        tiles.store(f"y{number}", value, owned)
    return tiles.body.lines[start:]


def _program(
    tiles: Tiles,
    lines: list[str],
    tiling: Tiling,
    written: list[str],
    scratch: int = 0,
    *,
    gluon: bool = False,
) -> Program:
    """The program of some lines.

    Args:
      tiles: what the lines were written with.
      lines: the body.
      tiling: its tiling.
      written: the types of what it writes.
      scratch: tensors of f32 that a kernel before it wrote.
      gluon: whether the lines are Gluon's.
    """
    arguments = [(f"s{n}", "*fp32") for n in range(scratch)]
    arguments += [(name, POINTERS[ops.element_type(x)]) for x, name in tiles.operands.items()]
    arguments += [(f"y{n}", kind) for n, kind in enumerate(written)]
    note = f"Attention, {tiling.tall} queries and {tiling.block} keys at a time."
    if scratch:
        note = "Joins what was summed over parts of the keys."
    text = text_of(ENTRY, arguments, lines, note, gluon=gluon)
    return Program(ENTRY, text, tuple(arguments), tiling.warps, tiling.stages)


def _span(key: Key, tiling: Tiling) -> int:
    """Keys for each of the workgroups that share some queries; 0 where one has all keys."""
    queries, keys, _, batch = key.sizes
    workgroups = -(-queries // tiling.tall) * batch
    parts = min(PARTS_FILLED // workgroups, keys // SHORTEST)
    if workgroups >= FILLED or parts < 2:
        return 0
    return -(-keys // (parts * tiling.block)) * tiling.block


def _tiling(target: Target, key: Key) -> Tiling:
    """The tiling for that many queries and heads of that size."""
    queries, _, head, _ = key.sizes
    numbers = tuning.tiling(target, key)
    if numbers is not None:
        tall, block, warps, stages, *flags = numbers
        found = Tiling(tall, block, warps, stages, *map(bool, flags))
    elif head > HEADS[0] and queries > 64:
        found = Tiling(128, 128, 8, 2, overlapped=True)
    else:
        found = Tiling(64, 64, 4, 2, overlapped=True)
    if found.overlapped and (queries < FEWEST or not building.has_gluon()):
        return _plain(target, key)
    return dataclasses.replace(found, tall=min(found.tall, max(16, power_of_two(queries))))


def _plain(target: Target, key: Key) -> Tiling:
    """The tiling where nothing was measured, of a kernel that does not overlap; an estimate."""
    queries, _, head, _ = key.sizes
    stages = 2 if head > 128 or target.name == "rocm" else 3
    return Tiling(min(64, max(16, power_of_two(queries))), 64, 4, stages)


def candidates(key: Key) -> list[Tiling]:
    """The tilings that a search measures."""
    queries, _, head, _ = key.sizes
    if queries <= 32:
        tall = max(16, power_of_two(queries))
        return [Tiling(tall, block, 4, stages) for block, stages in ((64, 3), (128, 2), (128, 3))]
    shapes: list[tuple[int, int, int, int]] = [
        (64, 32, 4, 3),
        (64, 64, 4, 2),
        (64, 64, 4, 3),
        (64, 128, 4, 2),
        (128, 64, 8, 2),
        (128, 64, 8, 3),
    ]
    if head <= 64:
        shapes += [(64, 64, 4, 4), (128, 64, 4, 3), (128, 128, 4, 2), (128, 128, 4, 3)]
    else:
        shapes += [(64, 32, 4, 4), (128, 128, 8, 2), (128, 32, 4, 3), (128, 32, 8, 4)]
    orders = (False, True) if key.form == "causal" else (False,)
    found = [Tiling(*shape, order) for order in orders for shape in shapes]
    if key.form != "masked" and head in HEADS:
        shapes = [(64, 64, 4, 2), (64, 128, 4, 2), (128, 64, 8, 2), (128, 128, 8, 2)]
        found += [Tiling(*shape, order, True) for order in orders for shape in shapes]
    return found


def _sizes(op: ir.Operation) -> dict[int, int | None]:
    """The size of each loop of an attention op."""
    sizes: dict[int, int | None] = {}
    for value, index_map in zip(op.operands, ops.indexing_maps(op), strict=True):
        for size, loop in zip(ops.shape(value), index_map or (), strict=True):
            if loop is not None:
                sizes[loop] = size
    return sizes


def _scale(op: ir.Operation, scale: float) -> tuple[float, ir.Block | None]:
    """The factor of the scores, and what else becomes of them."""
    block = op.regions[0].blocks[0]
    (score,) = block.arguments
    *body, last = (view.operation for view in block.operations)
    body = [inner for inner in body if inner.name != "arith.constant"]
    if not body and last.operands[0] == score:
        return scale, None
    if [inner.name for inner in body] == ["arith.mulf"] and last.operands[0] == body[0].results[0]:
        factors = [ops.constant(v) for v in body[0].operands if v != score]
        if len(factors) == 1 and factors[0] is not None:
            return scale * float(factors[0]), None
    return scale, block


def _whole_heads(parts: _Parts, shape: Shape) -> bool:
    """Whether heads are of a size of `HEADS`, and dense in q, k, v and the results."""
    maps = [*ops.indexing_maps(parts.op)[:3], ops.indexing_maps(parts.op)[-1]]
    last = (parts.depth, parts.depth, parts.width, parts.width)
    return (
        shape.depth == shape.width
        and shape.width in HEADS
        and all(
            index_map is not None and index_map[-1] == loop
            for index_map, loop in zip(maps, last, strict=True)
        )
    )


def _overlapped(
    tiles: Tiles,
    parts: _Parts,
    axes: dict[int, Axis],
    scale: float,
    shape: Shape,
    tiling: Tiling,
    causal: bool,
) -> list[str]:
    """The lines of a kernel in Gluon, which writes the results itself."""
    op, query = parts.op, parts.rows[-1]
    maps = ops.plain_maps(op)
    places, steps = [], []
    for value, index_map, loop in (
        (op.operands[0], maps[0], query),
        (op.operands[1], maps[1], parts.key),
        (op.operands[2], maps[2], parts.key),
        (op.results[0], maps[-1], query),
    ):
        sizes = ops.shape(value)
        heads = [None if d not in parts.batch else axes[d] for d in index_map]
        pointer = "y0" if value == op.results[0] else tiles.pointer(value)
        places.append(f"{pointer} + {tiles.space.offset(sizes, heads)}")
        steps.append(known_product(sizes[index_map.index(loop) + 1 :]))
    return overlapped(places, steps, scale, shape, tiling, causal)


def _place(
    tiles: Tiles, op: ir.Operation, number: int, axes: dict[int, Axis], depth: int
) -> tuple[str, str]:
    """Where q, k or v starts for a workgroup, and the elements between steps of the depth."""
    value, index_map = op.operands[number], ops.indexing_maps(op)[number] or ()
    shape = ops.shape(value)
    known = tuple(None if d == depth or d is None else axes[d] for d in index_map)
    tiles.axes[value] = known
    place = f"{tiles.pointer(value)} + {tiles.space.offset(shape, known)}"
    step = known_product(shape[index_map.index(depth) + 1 :]) if depth in index_map else 0
    return place, str(step)


def _around(
    group: list[ir.Operation], op: ir.Operation
) -> tuple[list[ir.Operation], list[ir.Operation]]:
    """The ops that compute the mask, and those that follow the attention."""
    after = {op}
    for other in group:
        if any(ops.defining_op(v) in after for v in other.operands):
            after.add(other)
    before = [o for o in group if o not in after]
    hidden = {result for o in before for result in o.results}
    last = group[-1].block.operations[len(group[-1].block.operations) - 1].operation
    for reader in (*after - {op}, last):
        if any(v in hidden for v in reader.operands):
            raise Unsupported("a mask that is read after the attention")
    return before, [o for o in group if o in after and o != op]


def _is_causal(parts: _Parts, before: list[ir.Operation]) -> bool:
    """Whether the mask is `query >= key`, computed from the indices alone."""
    if parts.mask is None or len(before) != 1 or ops.num_inputs(before[0]):
        return False
    body = [o.operation for o in ops.body(before[0]).operations]
    compared = [o for o in body if o.name == "arith.cmpi"]
    names = {o.name for o in body}
    if len(compared) != 1 or not names <= {
        "linalg.index",
        "arith.index_cast",
        "arith.cmpi",
        "linalg.yield",
    }:
        return False
    read, written = ops.plain_maps(parts.op)[4], ops.plain_maps(before[0])[-1]
    if parts.mask != before[0].results[0] or len(written) != len(set(written)):
        return False
    loops = dict(zip(written, read, strict=True))
    sides = [loops.get(_loop_of(v)) for v in compared[0].operands]
    query, key = parts.rows[-1], parts.key
    predicate = compared[0].attributes["predicate"].value
    return (sides, predicate) in (([query, key], 5), ([key, query], 3))


def _loop_of(value: ir.Value) -> int | None:
    op = ops.defining_op(value)
    while op is not None and op.name == "arith.index_cast":
        op = ops.defining_op(op.operands[0])
    return op.attributes["dim"].value if op is not None and op.name == "linalg.index" else None
