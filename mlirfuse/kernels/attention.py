"""Kernels for regions around one `iree_linalg_ext.attention`.

A workgroup holds some queries of one head and walks over the keys with an online softmax. Scores
and weights stay in registers; blocks of keys that a causal mask closes throughout are left out.
"""

from __future__ import annotations

import dataclasses
import math

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.provider import Extent, Plan, Program
from mlirfuse.kernels.rows import MAX_INDEX, power_of_two
from mlirfuse.kernels.scalars import POINTERS, Unsupported
from mlirfuse.kernels.space import Axis, Conflict, Group, Space, known_product, loop_axes
from mlirfuse.kernels.tiles import Tiles, computing, dynamic_dimension, returned, text_of
from mlirfuse.structured import ops

ENTRY = "attention_kernel"
ATTENTION = "iree_linalg_ext.attention"

BATCH, QUERY, KEY, WIDTH = 0, 1, 2, 3
"""The groups of the iteration space; WIDTH is that of v."""

MAX_HEAD = 256
"""Largest head size: q, the sums, and two blocks of k and v fit registers and workgroup memory."""

LOG2E = math.log2(math.e)

LOWEST = -3.4028234663852886e38
"""The lowest f32; a mask of it lets a row without open keys weigh all keys alike."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Parts:
    """The loops of an attention op, and its operands."""

    op: ir.Operation
    batch: tuple[int, ...]
    query: int
    key: int
    depth: int
    width: int

    @property
    def mask(self) -> ir.Value | None:
        """The mask, where there is one."""
        return self.op.operands[4] if len(self.op.operands) == 6 else None


def supports(region: ir.Operation) -> Plan | NoMatch | None:
    """Plans a kernel for a region around one attention; None for another kind of region."""
    group = computing(region)
    found = [op for op in group if op.name == ATTENTION]
    if not found:
        return None
    others = [op for op in group if op not in found and not ops.is_elementwise(op)]
    if len(found) > 1 or others:
        return NoMatch(
            Reason.STRUCTURE, f"the kernel has no {ops.described((others or found)[-1])}"
        )
    try:
        return _plan(region, group, _parts(found[0]))
    except Conflict:
        return NoMatch(Reason.WRONG_AXIS, "the ops do not share queries, keys and widths")
    except Unsupported as reason:
        return NoMatch(Reason.STRUCTURE, f"the kernel cannot compute {reason}")


def _parts(op: ir.Operation) -> _Parts:
    maps = ops.indexing_maps(op)
    if any(m is None or None in m for m in maps):
        raise Unsupported(f"an indexing map of {op.name}")
    q, k, v, out = (tuple(d for d in m if d is not None) for m in (*maps[:3], maps[-1]) if m)
    # Of the heads that share k and v, and the queries, these are the last.
    queries = [d for d in q if d in out and d not in (*k, *v)]
    widths = [d for d in v if d in out and d not in (*q, *k)]
    keys = [d for d in k if d in v and d not in (*q, *out)]
    depths = [d for d in q if d in k and d not in (*v, *out)]
    if not queries or [len(x) for x in (widths, keys, depths)] != [1, 1, 1]:
        raise Unsupported("an attention without one dimension each of keys, depths and widths")
    batch = sorted({*q, *k, *v, *out} - {queries[-1], *widths, *keys, *depths})
    if not set(batch) <= set(out) & set(q):
        raise Unsupported("an attention whose q or result lacks a batch dimension")
    queries = queries[-1:]
    return _Parts(op, tuple(batch), queries[0], keys[0], depths[0], widths[0])


def _plan(region: ir.Operation, group: list[ir.Operation], parts: _Parts) -> Plan | NoMatch:
    op = parts.op
    q, k, v = list(op.operands)[:3]
    kinds = {ops.element_type(x) for x in (q, k, v)}
    if kinds not in ({"f16"}, {"bf16"}):
        return NoMatch(Reason.ELEMENT_TYPE, f"attention in {' and '.join(sorted(kinds))}")
    scale = ops.constant(op.operands[3])
    if scale is None:
        return NoMatch(Reason.CONSTANT_UNVERIFIED, "the scale is not a constant")
    sizes = _sizes(op)
    batch, depth, width = [sizes[n] for n in parts.batch], sizes[parts.depth], sizes[parts.width]
    queries, keys = sizes[parts.query], sizes[parts.key]
    if None in (*batch, depth, width, queries, keys) or not depth or not width:
        return NoMatch(Reason.DYNAMIC_SHAPE, "the kernel takes static sizes")
    if max(depth, width) > MAX_HEAD:
        return NoMatch(Reason.NOT_PROFITABLE, f"heads of {max(depth, width)}, above {MAX_HEAD}")
    wide = max(depth, width) > 64
    tall = min(128 if max(depth, width) <= 128 else 64, max(16, power_of_two(queries or 1)))
    block = 64 if wide else 128
    space = Space(
        (
            Group("batch", tuple(batch)),
            Group("query", (queries,), "query_inside"),
            Group("key", (keys,), "key_inside"),
            Group("column", (width,), "column_inside"),
        )
    )
    axes: dict[int, Axis] = {loop: (BATCH, n) for n, loop in enumerate(parts.batch)}
    axes |= {parts.query: (QUERY, 0), parts.key: (KEY, 0), parts.width: (WIDTH, 0)}
    tiles = Tiles(space, {})
    places = [_place(tiles, op, n, axes, parts.depth) for n in range(3)]
    before, after = _around(group, op)
    mask_map = () if parts.mask is None else ops.plain_maps(op)[4]
    mask_axes = [axes[d] for d in mask_map if d is not None]
    written = {} if parts.mask is None else {parts.mask: mask_axes}
    mask_loops = loop_axes(space, before, mask_axes, written=written)
    tiles.loops = mask_loops
    inside = _scores(tiles, op, float(scale), parts.mask, tuple(mask_axes), before)
    result_axes = [axes[d] for d in ops.indexing_maps(op)[-1] or () if d is not None]
    tiles.loops = {
        **mask_loops,
        **loop_axes(space, after, result_axes, written={op.results[0]: result_axes}),
    }
    causal = _is_causal(parts.mask, before, mask_loops)
    lines = _kernel(places, inside, sizes, parts, (tall, block), causal)
    start = len(tiles.body.lines)
    tiles.forget_loads()
    kind = {"f16": "tl.float16", "bf16": "tl.bfloat16", "f32": "tl.float32"}
    out = ops.element_type(op.results[0])
    tiles.define(op.results[0], tiles.body.name(f"total.to({kind[out]})"))
    for other in after:
        tiles.elementwise(other)
    results = returned(region)
    for number, value in enumerate(results):
        owned = tuple(result_axes) if value == op.results[0] else tiles.written_axes(value)
        tiles.store(f"y{number}", value, owned)
    dynamic_dimension([*tiles.operands, *results], {})
    total = max(ops.num_elements(x) for x in (*tiles.operands, *results))
    if total >= MAX_INDEX:
        return NoMatch(Reason.NOT_PROFITABLE, f"a tensor of {total} elements")
    arguments = [(name, POINTERS[ops.element_type(x)]) for x, name in tiles.operands.items()]
    arguments += [(f"y{n}", POINTERS[ops.element_type(x)]) for n, x in enumerate(results)]
    text = text_of(
        ENTRY,
        arguments,
        [*lines, *tiles.body.lines[start:]],
        f"Attention, {tall} queries and {block} keys at a time.",
    )
    warps = 8 if wide and tall == 128 else 4
    program = Program(ENTRY, text, tuple(arguments), warps, 2 if max(depth, width) > 128 else 3)
    grid = (Extent(queries or 1, tall), Extent(known_product(batch)), Extent(1))
    return Plan(program, tuple(tiles.operands), grid)


def _sizes(op: ir.Operation) -> dict[int, int | None]:
    """The size of each loop of an attention op."""
    sizes: dict[int, int | None] = {}
    for value, index_map in zip(op.operands, ops.indexing_maps(op), strict=True):
        for size, loop in zip(ops.shape(value), index_map or (), strict=True):
            if loop is not None:
                sizes[loop] = size
    return sizes


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


def _scores(
    tiles: Tiles,
    op: ir.Operation,
    scale: float,
    mask: ir.Value | None,
    axes: tuple[Axis | None, ...],
    before: list[ir.Operation],
) -> list[str]:
    """The lines from the products `score` to `score` in powers of two, masked."""
    start = len(tiles.body.lines)
    tiles.body.lines.append(f"score = score * {scale * LOG2E!r}")
    block = op.regions[0].blocks[0]
    known = tiles.body.block(block, ["score"], lambda loop: "0")
    score = known[list(block.operations)[-1].operation.operands[0]]
    for other in before:
        tiles.elementwise(other)
    closed = "key_inside"
    if mask is not None:
        tile = tiles.read(mask, axes)
        if ops.element_type(mask) == "i1":
            closed = f"key_inside & {tile}"
        else:
            # The lowest number times log2(e) would be -inf, which closes a key for good.
            tiles.body.lines += [
                f"bias = {tile}.to(tl.float32)",
                f"score = tl.maximum({score} + bias * {LOG2E!r}, {LOWEST!r}, tl.PropagateNan.ALL)",
            ]
            closed, score = 'key_inside & (bias != float("-inf"))', "score"
    tiles.body.lines.append(f'score = tl.where({closed}, {score}, float("-inf"))')
    return tiles.body.lines[start:]


def _is_causal(
    mask: ir.Value | None, before: list[ir.Operation], loops: dict[ir.Operation, list[Axis]]
) -> bool:
    """Whether the mask is `query >= key`, computed from the indices alone."""
    if mask is None or len(before) != 1 or ops.num_inputs(before[0]):
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
    sides = [_loop_of(v) for v in compared[0].operands]
    groups = [None if s is None else loops[before[0]][s] for s in sides]
    predicate = compared[0].attributes["predicate"].value
    return (groups, predicate) in (
        ([(QUERY, 0), (KEY, 0)], 5),
        ([(KEY, 0), (QUERY, 0)], 3),
    )


def _loop_of(value: ir.Value) -> int | None:
    op = ops.defining_op(value)
    while op is not None and op.name == "arith.index_cast":
        op = ops.defining_op(op.operands[0])
    return op.attributes["dim"].value if op is not None and op.name == "linalg.index" else None


def _kernel(
    places: list[tuple[str, str]],
    scores: list[str],
    sizes: dict[int, int | None],
    parts: _Parts,
    tile: tuple[int, int],
    causal: bool,
) -> list[str]:
    """The lines of the kernel up to the normalized sums `total`."""
    tall, block = tile
    depth, width, keys = sizes[parts.depth] or 0, sizes[parts.width] or 0, sizes[parts.key] or 0
    queries = sizes[parts.query] or 0
    inner, columns = max(16, power_of_two(depth)), max(16, power_of_two(width))
    (q, q_step), (k, k_step), (v, _) = places
    bound = f"tl.minimum({keys}, (tl.program_id(0) + 1) * {tall})" if causal else str(keys)
    return [
        "batch = tl.program_id(1)",
        f"query = tl.program_id(0) * {tall} + tl.arange(0, {tall})[:, None]",
        f"query_inside = query < {queries}",
        f"column = tl.arange(0, {columns})[None, :]",
        f"column_inside = column < {width}",
        f"term = tl.arange(0, {inner})",
        f"q = tl.load({q} + term[None, :] * {q_step},"
        f" mask=query_inside & (term < {depth})[None, :], other=0.0)",
        f'highest = tl.full([{tall}, 1], float("-inf"), tl.float32)',
        f"weight = tl.zeros([{tall}, 1], tl.float32)",
        f"total = tl.zeros([{tall}, {columns}], tl.float32)",
        f"for start in range(0, {bound}, {block}):",
        f"    key = start + tl.arange(0, {block})[None, :]",
        f"    key_inside = key < {keys}",
        f"    k = tl.load({k} + term[:, None] * {k_step},"
        f" mask=key_inside & (term < {depth})[:, None], other=0.0)",
        "    score = tl.dot(q, k)",
        *(f"    {line}" for line in scores),
        f"    key = start + tl.arange(0, {block})[:, None]",
        f"    v = tl.load({v}, mask=(key < {keys}) & (column < {width}), other=0.0)",
        "    total, weight, highest = library.attend(score, v, total, weight, highest)",
        "total = total / weight",
    ]
