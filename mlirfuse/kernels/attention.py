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
from mlirfuse.kernels.scalars import POINTERS, TYPES, Unsupported
from mlirfuse.kernels.space import Axis, Conflict, Group, Space, known_product, loop_axes
from mlirfuse.kernels.tiles import Tiles, computing, dynamic_dimension, returned, text_of
from mlirfuse.structured import ops

ENTRY = "attention_kernel"
ATTENTION = "iree_linalg_ext.attention"

BATCH, QUERY, KEY, WIDTH = 0, 1, 2, 3
"""The groups of the iteration space; WIDTH is that of v."""

MAX_HEAD = 256
"""Largest head size: q, the sums, and two blocks of k and v fit registers and workgroup memory."""

FOLDED = 32
"""Queries of a head up to which the heads that share keys are computed together."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tiling:
    """How a workgroup computes its queries.

    Attributes:
      tall: queries of a workgroup.
      block: keys at a time.
      warps: subgroups.
      stages: blocks of keys in workgroup memory.
      heads_first: whether workgroups of all heads run before those of the next queries.
    """

    tall: int
    block: int
    warps: int
    stages: int
    heads_first: bool = False


LOG2E = math.log2(math.e)

LOWEST = -3.4028234663852886e38
"""The lowest f32; a mask of it lets a row without open keys weigh all keys alike."""


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
    region: ir.Operation, arch: str, tiling: Tiling | None = None
) -> Plan | NoMatch | None:
    """Plans a kernel for a region around one attention; None for another kind of region.

    Args:
      region: a group.
      arch: the architecture whose tiles are chosen.
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
    try:
        return _plan(region, group, _parts(found[0]), arch, tiling)
    except Conflict:
        return NoMatch(Reason.WRONG_AXIS, "the ops do not share queries, keys and widths")
    except Unsupported as reason:
        return NoMatch(Reason.STRUCTURE, f"the kernel cannot compute {reason}")


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
    arch: str,
    tiling: Tiling | None,
) -> Plan | NoMatch:
    op = parts.op
    q, k, v = list(op.operands)[:3]
    kinds = {ops.element_type(x) for x in (q, k, v)}
    if kinds not in ({"f16"}, {"bf16"}):
        return NoMatch(Reason.ELEMENT_TYPE, f"attention in {' and '.join(sorted(kinds))}")
    scale = ops.constant(op.operands[3])
    if scale is None:
        return NoMatch(Reason.CONSTANT_UNVERIFIED, "the scale is not a constant")
    sizes = _sizes(op)
    batch = tuple(sizes[n] for n in parts.batch)
    rows = tuple(sizes[n] for n in parts.rows)
    depth, width, keys = (sizes[n] for n in (parts.depth, parts.width, parts.key))
    if None in (*batch, *rows) or not depth or not width or not keys:
        return NoMatch(Reason.DYNAMIC_SHAPE, "the kernel takes static sizes")
    if max(depth, width) > MAX_HEAD:
        return NoMatch(Reason.NOT_PROFITABLE, f"heads of {max(depth, width)}, above {MAX_HEAD}")
    queries = known_product(rows)
    chosen = tiling or _tiling(arch, queries, max(depth, width))
    space = Space(
        (
            Group("batch", batch),
            Group("query", rows, "query_inside" if queries % chosen.tall else ""),
            Group("key", (keys,)),
            Group("column", (width,), "column_inside" if _padded(width) != width else ""),
        )
    )
    axes: dict[int, Axis] = {loop: (BATCH, n) for n, loop in enumerate(parts.batch)}
    axes |= {loop: (QUERY, n) for n, loop in enumerate(parts.rows)}
    axes |= {parts.key: (KEY, 0), parts.width: (WIDTH, 0)}
    tiles = Tiles(space, {})
    places = [_place(tiles, op, n, axes, parts.depth) for n in range(3)]
    before, after = _around(group, op)
    mask_map = () if parts.mask is None else ops.plain_maps(op)[4]
    mask_axes = tuple(axes[d] for d in mask_map if d is not None)
    written = {} if parts.mask is None else {parts.mask: mask_axes}
    mask_loops = loop_axes(space, before, mask_axes, written=written)
    result_axes = [axes[d] for d in ops.indexing_maps(op)[-1] or () if d is not None]
    tiles.loops = {
        **mask_loops,
        **loop_axes(space, after, result_axes, written={op.results[0]: result_axes}),
    }
    shape = _Shape(depth, width, keys, queries, len(parts.rows) == 1)
    causal = shape.plain_rows and _is_causal(parts.mask, before, mask_loops)
    scores = _Scores(tiles, op, float(scale), parts.mask, mask_axes, before)
    lines = _kernel(places, scores, shape, chosen, causal)
    start = len(tiles.body.lines)
    tiles.forget_loads()
    out = ops.element_type(op.results[0])
    tiles.define(op.results[0], tiles.body.name(f"total.to({TYPES[out]})"))
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
        f"Attention, {chosen.tall} queries and {chosen.block} keys at a time.",
    )
    program = Program(ENTRY, text, tuple(arguments), chosen.warps, chosen.stages)
    grid = [Extent(queries, chosen.tall), Extent(known_product(batch)), Extent(1)]
    if chosen.heads_first:
        grid[:2] = reversed(grid[:2])
    return Plan(program, tuple(tiles.operands), tuple(grid))


def _tiling(arch: str, queries: int, head: int) -> Tiling:
    """The tiling for heads of that size."""
    tall = max(16, power_of_two(queries))
    if head > 128:
        return Tiling(min(64, tall), 64, 4, 2)
    return Tiling(min(64, tall), 64, 4, 3)


def _padded(size: int) -> int:
    """The size of a tile along a dimension that is multiplied or summed."""
    return max(16, power_of_two(size))


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


@dataclasses.dataclass(frozen=True, slots=True)
class _Scores:
    """What becomes of the products of q and k.

    Attributes:
      tiles: the kernel that is written.
      op: the attention.
      scale: of the scores.
      mask: None, or which keys are open, or what is added.
      axes: of the mask.
      before: the ops that compute the mask.
    """

    tiles: Tiles
    op: ir.Operation
    scale: float
    mask: ir.Value | None
    axes: tuple[Axis | None, ...]
    before: list[ir.Operation]

    def lines(self, *, masked: bool, ragged: bool) -> tuple[list[str], float]:
        """The lines from `score` to masked scores, and what makes them powers of two.

        Args:
          masked: whether the mask is applied.
          ragged: whether some keys may be none.
        """
        tiles, scale = self.tiles, self.scale * LOG2E
        tiles.forget_loads()
        groups = list(tiles.space.groups)
        groups[KEY] = dataclasses.replace(groups[KEY], mask="key_inside" if ragged else "")
        tiles.space = Space(tuple(groups))
        start = len(tiles.body.lines)
        block = self.op.regions[0].blocks[0]
        score = "score"
        number = self.mask is not None and masked and ops.element_type(self.mask) != "i1"
        if number or scale <= 0 or len(list(block.operations)) > 1:
            tiles.body.lines.append(f"score = score * {scale!r}")
            known = tiles.body.block(block, ["score"], lambda loop: "0")
            score, scale = known[list(block.operations)[-1].operation.operands[0]], 1.0
        opened = ["key_inside"] if ragged else []
        if self.mask is not None and masked:
            for other in self.before:
                tiles.elementwise(other)
            tile = tiles.read(self.mask, self.axes)
            if number:
                # The lowest number times log2(e) would be -inf, which closes a key for good.
                tiles.body.lines += [
                    f"bias = {tile}.to(tl.float32)",
                    f"score = tl.maximum({score} + bias * {LOG2E!r}, {LOWEST!r},"
                    " tl.PropagateNan.ALL)",
                ]
                score, tile = "score", 'bias != float("-inf")'
            opened.append(f"({tile})")
        if opened:
            text = f'tl.where({" & ".join(opened)}, {score}, float("-inf"))'
            tiles.body.lines.append(f"score = {text}")
        elif score != "score":
            tiles.body.lines.append(f"score = {score}")
        lines = tiles.body.lines[start:]
        del tiles.body.lines[start:]
        return lines, scale


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


@dataclasses.dataclass(frozen=True, slots=True)
class _Shape:
    """Sizes of an attention; `plain_rows` when the rows are the queries of one head."""

    depth: int
    width: int
    keys: int
    queries: int
    plain_rows: bool


def _kernel(
    places: list[tuple[str, str]], scores: _Scores, shape: _Shape, tiling: Tiling, causal: bool
) -> list[str]:
    """The lines of the kernel up to the normalized sums `total`."""
    tall, block = tiling.tall, tiling.block
    inner, columns = _padded(shape.depth), _padded(shape.width)
    q, q_step = places[0]
    tile, batch = ("1", "0") if tiling.heads_first else ("0", "1")
    ordered = f"tl.program_id({tile})"
    if causal:
        # The last queries have the most keys, and start first.
        ordered = f"tl.num_programs({tile}) - 1 - {ordered}"
    inside = _condition("query_inside" if shape.queries % tall else "", shape.depth, "[None, :]")
    whole = shape.keys // block * block
    lines = [
        f"batch = tl.program_id({batch})",
        f"tile = {ordered}",
        f"query = (tile * {tall} + tl.arange(0, {tall}))[:, None]",
        f"query_inside = query < {shape.queries}",
        f"column = tl.arange(0, {columns})[None, :]",
        f"column_inside = column < {shape.width}",
        f"term = tl.arange(0, {inner})",
        f"q = library.load({q} + term[None, :] * {q_step}, {inside})",
        f'highest = tl.full([{tall}, 1], float("-inf"), tl.float32)',
        f"weight = tl.zeros([{tall}, 1], tl.float32)",
        f"total = tl.zeros([{tall}, {columns}], tl.float32)",
        f"whole = tl.minimum({whole}, (tile * {tall} + 1) // {block} * {block})"
        if causal
        else f"whole: tl.constexpr = {whole}",
    ]
    lines += _loop(places, scores, shape, tiling, f"0, whole, {block}", not causal, False)
    if causal:
        bound = f"tl.minimum({shape.keys}, (tile + 1) * {tall})"
        lines += _loop(places, scores, shape, tiling, f"whole, {bound}, {block}", True, True)
    elif shape.keys % block:
        lines += _loop(places, scores, shape, tiling, f"whole, {shape.keys}, {block}", True, True)
    return [*lines, "total = total / weight"]


def _loop(
    places: list[tuple[str, str]],
    scores: _Scores,
    shape: _Shape,
    tiling: Tiling,
    bounds: str,
    masked: bool,
    ragged: bool,
) -> list[str]:
    """A loop over blocks of keys."""
    (k, k_step), (v, _) = places[1:]
    block = tiling.block
    ragged = ragged and bool(shape.keys % block)
    key_inside = "key_inside" if ragged else ""
    k_inside = _condition(key_inside, shape.depth, "[:, None]")
    v_inside = " & ".join([*([key_inside] if ragged else []), *_column_inside(shape.width)])
    prepared, scale = scores.lines(masked=masked, ragged=ragged)
    key_lines = [f"key_inside = key < {shape.keys}"] if ragged else []
    body = [
        f"key = (start + tl.arange(0, {block}))[None, :]",
        *key_lines,
        f"k = library.load({k} + term[:, None] * {k_step}, {k_inside})",
        "score = tl.dot(q, k)",
        *prepared,
        f"key = (start + tl.arange(0, {block}))[:, None]",
        *key_lines,
        f"v = library.load({v}, {v_inside or None})",
        f"total, weight, highest = library.attend(score, {scale!r}, v, total, weight, highest)",
    ]
    return [f"for start in range({bounds}):", *(f"    {line}" for line in body)]


def _condition(inside: str, depth: int, shaped: str) -> str:
    """Where elements of a tile of q or k exist; `None` when they all do."""
    terms = [inside] if inside else []
    if _padded(depth) != depth:
        terms.append(f"(term < {depth}){shaped}")
    return " & ".join(terms) or "None"


def _column_inside(width: int) -> list[str]:
    return ["column_inside"] if _padded(width) != width else []
