"""Fuse a softmax over rows, with what feeds it and what is done to it, into one dispatch.

    %m = max(%x), %p = exp(%x - %m), %s = sum(%p)      tensor<MxNxT> -> tensor<MxT>
    %y = %p / %s                                       tensor<MxNxT>
  becomes
    %y = flow.dispatch.region { %m; %s, %p; %y }       // rows joined, tiled for a CPU

Root: a cast or select of the softmax, its quotient, `linalg.softmax`, or log softmax's difference.
Comes along: elementwise ops over the same space that only the softmax reads, except a contraction's
epilogue unless `fuse_prologue` asks for it; casts; the zeros that PyTorch writes into rows of -inf
throughout, by the maximum instead of a reduction of their own. M static or dynamic, N static; T
f16, bf16, f32. Numerics: reassociating (the sum is taken lane by lane).
Source: Milakov, Gimelshein, Online normalizer calculation for softmax, 2018, algorithm 2.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.builders.softmax_builder import Tiles, form_softmax
from mlirfuse.core import FusionPass, Match, NoMatch, Numerics, PassContext, Reason
from mlirfuse.structured.expr.expressions import start, type_of
from mlirfuse.structured.expr.nodes import Const, Element, Expr
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize.row_softmax import (
    Body,
    RowSoftmax,
    at_column,
    find_row_softmax,
    group_of,
    may_end_softmax,
)

LANES = 16
"""Accumulators of one row on a CPU, and the shortest row that pays. Measured with IREE 3.13.0, one
thread of an AMD EPYC (Zen 5), AVX-512, microseconds: 6144x128 f32 takes 991 as `linalg.softmax`,
411 in the two dispatches that IREE makes of the parts, 376 with 8 lanes, 200 with 16, 240 with 32.
Rows of 8 columns take 74 in two dispatches and 86 here."""

ROWS = 8
"""Rows in flight on a CPU; same source: 1 row 397, 2 rows 300, 4 rows 212, 8 rows 196, 16 rows
229."""

POWER_BYTES = 16 * 1024
"""Bytes of stack for the exponentials of the rows in flight. Fewer rows in flight are better than
computing them again down to two rows; same source: 768x1024 takes 190 with 4 rows kept, 280
computed again; 192x4096 takes 330 with one row kept, 252 computed again."""

WORKGROUP_ELEMENTS = 4096
"""Elements of one workgroup on a CPU; same source: 6144x128 takes 208 with 1024, 196 with 4096, 195
with 8192."""

WORKGROUP_ROWS = 64
"""Most rows of one workgroup on a CPU."""

UNEVEN_ROWS, UNEVEN_COLUMNS = 4, 32
"""Tile of rows whose length is no multiple of `LANES`; same source, 98304 elements: rows of 100
columns take 73 against 111 in IREE's two dispatches and 186 as `linalg.softmax`, of 197 columns 67,
105 and 163, of 1000 columns 64, 70 and 113. Tiles of 8x32 and 8x16 are within a tenth of it."""

MAX_SKIPS_NAN = frozenset({"rocm", "vulkan"})
"""Targets for which IREE 3.13.0 makes a reduction by `maximumf`, which propagates a NaN, one that
does not: `llvm.maxnum` for gfx942; on Mesa's software device the row -inf, NaN has maximum -inf."""


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """What the pass may be told.

    Attributes:
      fuse_prologue: take elementwise ops that a contraction could take as its epilogue.
    """

    fuse_prologue: bool = False


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the softmax that ends at `root`."""
    found = find_row_softmax(root)
    if not isinstance(found, RowSoftmax):
        return found
    group = group_of(found, fuse_prologue=ctx.options.fuse_prologue)
    return Match(root, tuple(group), found)


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses what the group cannot write, rows of unknown length, other types and accesses."""
    found: RowSoftmax = match.data
    group = list(match.ops)
    results = list(found.root.results)
    others = [v for v in slices.results_of(group) if v not in results]
    if others:
        owner = ops.defining_op(others[0])
        return NoMatch(Reason.EXTRA_USERS, "-" if owner is None else owner.name)
    if ops.shape(results[0])[found.column] is None:
        return NoMatch(Reason.DYNAMIC_SHAPE, "the row's length is dynamic")
    types = [type_of(found.maximum.init), type_of(found.denominator.init)]
    leaves = _leaves(found, group)
    bound = _VIEWS * sum(isinstance(leaf, Element) for leaf in leaves) + len(results)
    if bound > ctx.target.max_operands:
        limit = ctx.target.max_operands
        return NoMatch(Reason.TOO_MANY_OPERANDS, f"up to {bound} operands, the limit is {limit}")
    for leaf in leaves:
        if isinstance(leaf, Element):
            types.append(ops.element_type(leaf.value))
            index = [d for d in leaf.index if isinstance(d, int)]
            if len(index) != len(leaf.index) or index != sorted(set(index)):
                return NoMatch(Reason.INDEXING_MAP, f"an operand is indexed by {leaf.index}")
        elif leaf not in (found.maximum, found.denominator):
            return NoMatch(Reason.STRUCTURE, "reads a loop index or a scalar from outside its op")
    wrong = [t for t in (*types, ops.element_type(results[0])) if t == "f64"]
    if wrong:
        return NoMatch(Reason.ELEMENT_TYPE, wrong[0])
    return None


_VIEWS = 2
"""Times that an operand may be bound: with its rows whole, and split into lanes."""


def _leaves(found: RowSoftmax, group: list[ir.Operation]) -> list[Expr]:
    body = Body(found, group)
    cuts = frozenset({found.maximum, found.denominator})
    exprs = [at_column(r, found.column) for r in (found.maximum, found.denominator)]
    leaves = [e for expr in (*exprs, start(found.root.results[0])) for e in body.leaves(expr, cuts)]
    return [e for e in dict.fromkeys(leaves) if not isinstance(e, Const)]


def profitable(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses rows that are too short for a CPU, and a lone `linalg.softmax` elsewhere."""
    sizes = ops.shape(match.root.results[0])
    if len(sizes) == 1:
        return NoMatch(Reason.NOT_PROFITABLE, "a single row")
    if ctx.target.name != "cpu":
        alone = len(match.ops) == 1 and not ctx.single_op_groups
        return NoMatch(Reason.SINGLE_OP, match.root.name) if alone else None
    if sizes[-1] is not None and sizes[-1] < LANES:
        return NoMatch(Reason.NOT_PROFITABLE, f"rows of {sizes[-1]} columns, fewer than {LANES}")
    return None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the softmax in a dispatch region."""
    found: RowSoftmax = match.data
    columns = ops.shape(match.root.results[0])[-1]
    tiles = None
    if ctx.target.name == "cpu" and columns is not None:
        tiles = tiles_of(columns)
    skips = ctx.target.name in MAX_SKIPS_NAN
    return form_softmax(found, match.ops, tiles, max_skips_nan=skips)


def tiles_of(columns: int) -> Tiles:
    """How a CPU walks rows of that many elements."""
    even = columns % LANES == 0
    rows = most = ROWS if even else UNEVEN_ROWS
    while rows > 1 and rows * columns * 4 > POWER_BYTES:
        rows //= 2
    keeps = rows > 1
    rows = rows if keeps else most
    workgroup = min(WORKGROUP_ROWS, max(rows, WORKGROUP_ELEMENTS // columns // rows * rows))
    return Tiles(rows, workgroup, LANES if even else UNEVEN_COLUMNS, even, keeps)


PASS = FusionPass(
    name="softmax_fusion",
    summary="Softmax over rows with its scale, mask and casts in one dispatch",
    roots=("linalg.generic", "linalg.softmax"),
    where=may_end_softmax,
    match=match,
    legal=legal,
    profitable=profitable,
    rewrite=rewrite,
    numerics=Numerics.REASSOCIATING,
    takes_single_op=True,
    options=Options,
    source="Milakov, Gimelshein 2018, algorithm 2",
)
