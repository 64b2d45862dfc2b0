"""The text of attention kernels in Triton: from q, k and v to sums over the keys."""

from __future__ import annotations

import dataclasses
import math

from iree.compiler import ir

from mlirfuse.kernels.attention.problem import AttentionConfig
from mlirfuse.kernels.codegen.iteration_space import Axis, Space, power_of_two
from mlirfuse.kernels.codegen.scalar_ops import POINTERS
from mlirfuse.kernels.codegen.tile_writer import Tiles, text_of
from mlirfuse.kernels.plan import Program
from mlirfuse.structured.ir import ops

ENTRY = "attention_kernel"

BATCH, QUERY, KEY, WIDTH = 0, 1, 2, 3
"""The groups of the iteration space; WIDTH is that of v."""

SIZES = BATCH_SIZE, QUERY_SIZE, KEY_SIZE = ("batch_size", "query_size", "key_size")
"""Names of the dynamic sizes."""

LOG2E = math.log2(math.e)

LOWEST = -3.4028234663852886e38
"""The lowest f32; a mask of it lets a row without open keys weigh all keys alike."""


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
    """Sizes of an attention.

    Attributes:
      depth: of a head of q and k.
      width: of a head of v.
      keys: of a head; None for a dynamic number.
      queries: likewise.
      heads: of all batches, or of each where their number is dynamic.
      batched: whether it is.
    """

    depth: int
    width: int
    keys: int | None
    queries: int | None
    heads: int
    batched: bool

    @property
    def told(self) -> tuple[str, ...]:
        """The names of the dynamic sizes, in the order in which a kernel is told them."""
        sizes = (None if self.batched else 1, self.queries, self.keys)
        return tuple(name for name, size in zip(SIZES, sizes, strict=True) if size is None)

    def numbers(self, name: str) -> tuple[int, ...]:
        """The number of a size among the dynamic ones; nothing where it is static."""
        return (self.told.index(name),) if name in self.told else ()

    @property
    def head_count(self) -> str:
        """The number of heads in a kernel's text."""
        return f"(batch_size * {self.heads})" if self.batched else str(self.heads)

    @property
    def query_count(self) -> str:
        """The same of the queries."""
        return "query_size" if self.queries is None else str(self.queries)

    @property
    def key_count(self) -> str:
        """The same of the keys."""
        return "key_size" if self.keys is None else str(self.keys)

    @property
    def wide(self) -> str:
        """What makes a number 64 bits wide where 32 may not number the elements."""
        return ".to(tl.int64)" if self.told else ""

    def cuts(self, tall: int) -> bool:
        """Whether a tile of so many queries may be cut."""
        return self.queries is None or self.queries % tall != 0

    def cuts_keys(self, block: int) -> bool:
        """Whether a block of so many keys may be cut."""
        return self.keys is None or self.keys % block != 0


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """How workgroups share the keys of a head.

    Attributes:
      parts: workgroups at most.
      span: the keys of each in the kernel's text.
    """

    parts: int
    span: str


def program(
    tiles: Tiles,
    lines: list[str],
    tiling: AttentionConfig,
    written: list[str],
    told: tuple[str, ...],
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
      told: names of the dynamic sizes.
      scratch: tensors of f32 that a kernel before it wrote.
      gluon: whether the lines are Gluon's.
      functions: what the lines call.
    """
    arguments = [(f"s{n}", "*fp32") for n in range(scratch)]
    arguments += [(name, POINTERS[ops.element_type(x)]) for x, name in tiles.operands.items()]
    arguments += [(f"y{n}", kind) for n, kind in enumerate(written)]
    arguments += [(name, "i32") for name in told]
    note = f"Attention, {tiling.block_m} queries and {tiling.block_n} keys at a time."
    if scratch:
        note = "Joins what was summed over parts of the keys."
    text = text_of(ENTRY, arguments, lines, note, gluon=gluon, functions=functions)
    return Program(ENTRY, text, tuple(arguments), tiling.num_warps, tiling.num_stages)


def sums(
    places: list[tuple[str, str]],
    scores: Scores,
    shape: Shape,
    tiling: AttentionConfig,
    causal: bool,
    split: Split | None,
) -> list[str]:
    """The lines up to `total`, the sums of values, and `weight`, of weights, against `highest`.

    Args:
      places: where q, k and v start, and the elements between steps of the depth.
      scores: what becomes of the products of q and k.
      shape: the sizes.
      tiling: the tiles.
      causal: whether a query sees no keys after it.
      split: how workgroups share the keys; None where each has all of them.
    """
    tall, block = tiling.block_m, tiling.block_n
    inner, columns = padded(shape.depth), padded(shape.width)
    q, q_step = places[0]
    inside = _condition("query_inside" if shape.cuts(tall) else "", shape.depth, "[None, :]")
    lines = [
        *_placed(shape, tiling, causal=causal),
        f"column = tl.arange(0, {columns})[None, :]",
        f"column_inside = column < {shape.width}",
        f"term = tl.arange(0, {inner})",
        f"q = library.load({q} + term[None, :] * {q_step}, {inside})",
        f'highest = tl.full([{tall}, 1], float("-inf"), tl.float32)',
        f"weight = tl.zeros([{tall}, 1], tl.float32)",
        f"total = tl.zeros([{tall}, {columns}], tl.float32)",
    ]
    keys = shape.key_count
    whole = str(shape.keys // block * block) if shape.keys else f"({keys} // {block} * {block})"
    start, last, first = "0", keys, whole
    if causal:
        lines.append(f"whole = tl.minimum({whole}, (tile * {tall} + 1) // {block} * {block})")
        first, last = "whole", f"tl.minimum({keys}, (tile + 1) * {tall})"
    if split is not None:
        lines += [f"span = {split.span}", "part = tl.program_id(2) * span"]
        start, last = "part", f"tl.minimum({keys}, part + span)"
        first = f"tl.minimum({whole}, part + span)"
    bounds = f"{start}, {first}, {block}"
    lines += _loop(places, scores, shape, tiling, bounds, masked=not causal, ragged=False)
    if causal or shape.cuts_keys(block):
        bounds = f"{f'tl.maximum({whole}, part)' if split else first}, {last}, {block}"
        lines += _loop(places, scores, shape, tiling, bounds, masked=True, ragged=True)
    return lines


def _placed(shape: Shape, tiling: AttentionConfig, *, causal: bool = False) -> list[str]:
    """The lines that say which queries of which head a workgroup has."""
    tall = tiling.block_m
    ordered = "number // tiles, number % tiles"
    if tiling.heads_first:
        ordered = f"number % {shape.head_count}, number // {shape.head_count}"
    return [
        "number = tl.program_id(0)",
        f"tiles = tl.cdiv({shape.query_count}, {tall})",
        f"batch, tile = {ordered}",
        # The last queries have the most keys, and start first.
        *(["tile = tiles - 1 - tile"] if causal else []),
        *(["batch = batch.to(tl.int64)"] if shape.wide else []),
        f"query = (tile * {tall} + tl.arange(0, {tall}){shape.wide})[:, None]",
        f"query_inside = query < {shape.query_count}",
    ]


def store_parts(shape: Shape, tall: int) -> list[str]:
    """The lines that write what was summed over a part of the keys."""
    owned, wide = _rows_inside(shape, tall)
    return [
        f"place = {_place(shape, 'tl.program_id(2)')}",
        f"tl.store(y0 + place * {shape.width} + column, total, mask={wide})",
        f"tl.store(y1 + place, highest, mask={owned})",
        f"tl.store(y2 + place, weight, mask={owned})",
    ]


def join_parts(shape: Shape, tiling: AttentionConfig, split: Split) -> list[str]:
    """The lines that add up what `store_parts` wrote, and normalize it to `total`."""
    tall, columns = tiling.block_m, padded(shape.width)
    owned, wide = _rows_inside(shape, tall)
    return [
        *_placed(shape, tiling),
        f"column = tl.arange(0, {columns})[None, :]",
        f"column_inside = column < {shape.width}",
        f'highest = tl.full([{tall}, 1], float("-inf"), tl.float32)',
        f"weight = tl.zeros([{tall}, 1], tl.float32)",
        f"total = tl.zeros([{tall}, {columns}], tl.float32)",
        f"for part in range(tl.cdiv({shape.key_count}, {split.span})):",
        f"    place = {_place(shape, 'part')}",
        f"    values = library.load(s0 + place * {shape.width} + column, {wide})",
        f"    power = library.load(s1 + place, {owned})",
        f"    share = library.load(s2 + place, {owned})",
        "    total, weight, highest = library.join(values, share, power, total, weight, highest)",
        "total = total / weight",
    ]


def _place(shape: Shape, part: str) -> str:
    """The number of a query among those of all heads and parts."""
    queries = shape.query_count
    return f"{part} * ({shape.head_count} * {queries}) + batch * {queries} + query"


def _rows_inside(shape: Shape, tall: int) -> tuple[str, str]:
    """Which queries of a tile exist, and which elements of their results."""
    owned = ["query_inside"] if shape.cuts(tall) else []
    return " & ".join(owned) or "None", " & ".join([*owned, *_column_inside(shape.width)]) or "None"


def _loop(
    places: list[tuple[str, str]],
    scores: Scores,
    shape: Shape,
    tiling: AttentionConfig,
    bounds: str,
    *,
    masked: bool,
    ragged: bool,
) -> list[str]:
    """A loop over blocks of keys."""
    (k, k_step), (v, _) = places[1:]
    block = tiling.block_n
    ragged = ragged and shape.cuts_keys(block)
    key_inside = "key_inside" if ragged else ""
    k_inside = _condition(key_inside, shape.depth, "[:, None]")
    v_inside = " & ".join([*([key_inside] if ragged else []), *_column_inside(shape.width)])
    prepared, scale = scores.lines(masked=masked, ragged=ragged)
    numbers = f"start + tl.arange(0, {block}){shape.wide}"
    key_lines = [f"key_inside = key < {shape.key_count}"] if ragged else []
    body = [
        f"key = ({numbers})[None, :]",
        *key_lines,
        f"k = library.load({k} + term[:, None] * {k_step}, {k_inside})",
        "score = tl.dot(q, k)",
        *prepared,
        f"key = ({numbers})[:, None]",
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
