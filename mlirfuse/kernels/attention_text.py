"""The text of attention kernels in Triton: from q, k and v to sums over the keys."""

from __future__ import annotations

import dataclasses
import math

from iree.compiler import ir

from mlirfuse.kernels.provider import Program
from mlirfuse.kernels.rows import power_of_two
from mlirfuse.kernels.scalars import POINTERS
from mlirfuse.kernels.space import Axis, Space
from mlirfuse.kernels.tiles import Tiles, text_of
from mlirfuse.structured import ops

ENTRY = "attention_kernel"

BATCH, QUERY, KEY, WIDTH = 0, 1, 2, 3
"""The groups of the iteration space; WIDTH is that of v."""

LOG2E = math.log2(math.e)

LOWEST = -3.4028234663852886e38
"""The lowest f32; a mask of it lets a row without open keys weigh all keys alike."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tiling:
    """How a workgroup computes its queries.

    Attributes:
      tall: queries of a workgroup.
      block: keys at a time.
      warps: subgroups.
      stages: blocks of keys in workgroup memory.
      heads_first: whether workgroups of all heads run before those of the next queries.
      overlapped: whether products run under the softmax, see `triton/hopper.py`; where that kernel
        cannot compute the group, the plain one has the same tiles.
    """

    tall: int
    block: int
    warps: int
    stages: int
    heads_first: bool = False
    overlapped: bool = False


def padded(size: int) -> int:
    """The size of a tile along a dimension that is multiplied or summed."""
    return max(16, power_of_two(size))


@dataclasses.dataclass(frozen=True, slots=True)
class Scores:
    """What becomes of the products of q and k.

    Attributes:
      tiles: the kernel that is written.
      op: the attention.
      scale: of the scores.
      body: what else becomes of a score; None for nothing.
      mask: None, or which keys are open, or what is added.
      axes: of the mask.
      before: the ops that compute the mask.
    """

    tiles: Tiles
    op: ir.Operation
    scale: float
    body: ir.Block | None
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
        score = "score"
        number = self.mask is not None and masked and ops.element_type(self.mask) != "i1"
        if number or scale <= 0 or self.body is not None:
            tiles.body.lines.append(f"score = score * {scale!r}")
            scale = 1.0
        if self.body is not None:
            known = tiles.body.block(self.body, ["score"], lambda loop: "0")
            score = known[list(self.body.operations)[-1].operation.operands[0]]
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


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of an attention."""

    depth: int
    width: int
    keys: int
    queries: int


def program(
    tiles: Tiles,
    lines: list[str],
    tiling: Tiling,
    written: list[str],
    scratch: int = 0,
    *,
    gluon: bool = False,
    functions: str = "",
) -> Program:
    """The program of some lines.

    Args:
      tiles: what the lines were written with.
      lines: the body.
      tiling: its tiling.
      written: the types of what it writes.
      scratch: tensors of f32 that a kernel before it wrote.
      gluon: whether the lines are Gluon's.
      functions: what the lines call.
    """
    arguments = [(f"s{n}", "*fp32") for n in range(scratch)]
    arguments += [(name, POINTERS[ops.element_type(x)]) for x, name in tiles.operands.items()]
    arguments += [(f"y{n}", kind) for n, kind in enumerate(written)]
    note = f"Attention, {tiling.tall} queries and {tiling.block} keys at a time."
    if scratch:
        note = "Joins what was summed over parts of the keys."
    text = text_of(ENTRY, arguments, lines, note, gluon=gluon, functions=functions)
    return Program(ENTRY, text, tuple(arguments), tiling.warps, tiling.stages)


def sums(
    places: list[tuple[str, str]],
    scores: Scores,
    shape: Shape,
    tiling: Tiling,
    causal: bool,
    span: int,
) -> list[str]:
    """The lines up to `total`, the sums of values, and `weight`, of weights, against `highest`.

    Args:
      places: where q, k and v start, and the elements between steps of the depth.
      scores: what becomes of the products of q and k.
      shape: the sizes.
      tiling: the tiles.
      causal: whether a query sees no keys after it.
      span: keys of a workgroup; 0 where it has all of them.
    """
    tall, block = tiling.tall, tiling.block
    inner, columns = padded(shape.depth), padded(shape.width)
    q, q_step = places[0]
    inside = _condition("query_inside" if shape.queries % tall else "", shape.depth, "[None, :]")
    whole = shape.keys // block * block
    lines = [
        *_placed(tiling, causal),
        f"query = (tile * {tall} + tl.arange(0, {tall}))[:, None]",
        f"query_inside = query < {shape.queries}",
        f"column = tl.arange(0, {columns})[None, :]",
        f"column_inside = column < {shape.width}",
        f"term = tl.arange(0, {inner})",
        f"q = library.load({q} + term[None, :] * {q_step}, {inside})",
        f'highest = tl.full([{tall}, 1], float("-inf"), tl.float32)',
        f"weight = tl.zeros([{tall}, 1], tl.float32)",
        f"total = tl.zeros([{tall}, {columns}], tl.float32)",
    ]
    start, last, first = "0", str(shape.keys), str(whole)
    if causal:
        lines.append(f"whole = tl.minimum({whole}, (tile * {tall} + 1) // {block} * {block})")
        first, last = "whole", f"tl.minimum({shape.keys}, (tile + 1) * {tall})"
    if span:
        lines.append(f"part = tl.program_id(2) * {span}")
        start, last = "part", f"tl.minimum({shape.keys}, part + {span})"
        first = f"tl.minimum({whole}, part + {span})"
    bounds = f"{start}, {first}, {block}"
    lines += _loop(places, scores, shape, tiling, bounds, masked=not causal, ragged=False)
    if causal or shape.keys % block:
        bounds = f"{f'tl.maximum({whole}, part)' if span else first}, {last}, {block}"
        lines += _loop(places, scores, shape, tiling, bounds, masked=True, ragged=True)
    return lines


def _placed(tiling: Tiling, causal: bool) -> list[str]:
    """The lines that say which queries of which head a workgroup has."""
    tile, batch = (1, 0) if tiling.heads_first else (0, 1)
    ordered = f"tl.program_id({tile})"
    if causal:
        # The last queries have the most keys, and start first.
        ordered = f"tl.num_programs({tile}) - 1 - {ordered}"
    return [f"batch = tl.program_id({batch})", f"tile = {ordered}"]


def store_parts(shape: Shape, batch: int, masked: bool) -> list[str]:
    """The lines that write what was summed over a part of the keys."""
    rows = batch * shape.queries
    condition = ["query_inside"] if masked else []
    owned = f", mask={condition[0]}" if condition else ""
    wide = " & ".join([*condition, *_column_inside(shape.width)])
    return [
        f"place = tl.program_id(2) * {rows} + batch * {shape.queries} + query",
        f"tl.store(y0 + place * {shape.width} + column, total{f', mask={wide}' if wide else ''})",
        f"tl.store(y1 + place, highest{owned})",
        f"tl.store(y2 + place, weight{owned})",
    ]


def join_parts(shape: Shape, tiling: Tiling, batch: int, parts: int) -> list[str]:
    """The lines that add up what `store_parts` wrote, and normalize it to `total`."""
    tall, columns = tiling.tall, padded(shape.width)
    ragged = bool(shape.queries % tall)
    owned = "query_inside" if ragged else "None"
    wide = " & ".join([*(["query_inside"] if ragged else []), *_column_inside(shape.width)])
    return [
        "batch = tl.program_id(1)",
        f"query = (tl.program_id(0) * {tall} + tl.arange(0, {tall}))[:, None]",
        f"query_inside = query < {shape.queries}",
        f"column = tl.arange(0, {columns})[None, :]",
        f"column_inside = column < {shape.width}",
        f'highest = tl.full([{tall}, 1], float("-inf"), tl.float32)',
        f"weight = tl.zeros([{tall}, 1], tl.float32)",
        f"total = tl.zeros([{tall}, {columns}], tl.float32)",
        f"for part in range({parts}):",
        f"    place = part * {batch * shape.queries} + batch * {shape.queries} + query",
        f"    values = library.load(s0 + place * {shape.width} + column, {wide or None})",
        f"    power = library.load(s1 + place, {owned})",
        f"    share = library.load(s2 + place, {owned})",
        "    total, weight, highest = library.join(values, share, power, total, weight, highest)",
        "total = total / weight",
    ]


def _loop(
    places: list[tuple[str, str]],
    scores: Scores,
    shape: Shape,
    tiling: Tiling,
    bounds: str,
    *,
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
    if padded(depth) != depth:
        terms.append(f"(term < {depth}){shaped}")
    return " & ".join(terms) or "None"


def _column_inside(width: int) -> list[str]:
    return ["column_inside"] if padded(width) != width else []
