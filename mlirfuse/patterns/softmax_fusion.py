"""Fuse a softmax over rows with its prologue and epilogue into one dispatch.

    %m = max(%x), %p = exp(%x - %m), %s = sum(%p)      tensor<MxNxT> -> tensor<MxT>
    %y = %p / %s                                       tensor<MxNxT>
  becomes
    %y = flow.dispatch.region { %m; %s, %p; %y }       // rows collapsed, tiled for a CPU

Root: a cast or select of the softmax, its quotient, `linalg.softmax`, or log softmax's difference.
Fused: elementwise producers over the same space that only the softmax uses, except a contraction's
epilogue unless it widens the elements or `fuse_prologue` asks for it; casts; the zeros that PyTorch
writes into rows of -inf throughout, found by the maximum instead of a reduction of their own. On a
CPU rows of fewer elements than its tiles have are for a kernel, which takes a vector of them. M
static or dynamic, N static; T f16, bf16, f32. Numerics: reassociating (one accumulator per lane).
Source: Milakov, Gimelshein, Online normalizer calculation for softmax, 2018, algorithm 2.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.builders.softmax_builder import Tiles, form_softmax
from mlirfuse.core import FusionPass, Match, NoMatch, Numerics, PassContext, Reason
from mlirfuse.structured.expr.expressions import start, type_of
from mlirfuse.structured.expr.nodes import Const, Element, Expr
from mlirfuse.structured.ir import fusable_neighbors, ops, slices
from mlirfuse.structured.recognize.row_softmax import (
    Body,
    RowSoftmax,
    at_column,
    find_row_softmax,
    group_of,
    may_end_softmax,
)
from mlirfuse.targets.base import CpuTiles

_POWER_BYTES = 4
"""Bytes of an exponential that is kept: an f32."""

MAX_SKIPS_NAN = frozenset({"rocm", "vulkan"})
"""Targets for which IREE 3.13.0 lowers a reduction by `maximumf`, which propagates a NaN, to one
that does not: `llvm.maxnum` for gfx942; on Mesa's software device the row -inf, NaN has maximum
-inf."""


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """Optional parts of the group.

    Attributes:
      fuse_prologue: whether elementwise ops that could be a contraction's epilogue are fused.
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
    """Refuses other results, rows of dynamic length, and other element types and accesses."""
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
    if ctx.target.cpu_tiles is None:
        alone = len(match.ops) == 1 and not ctx.single_op_groups
        return NoMatch(Reason.SINGLE_OP, match.root.name) if alone else None
    lanes = ctx.target.cpu_tiles.softmax_lanes
    if sizes[-1] is not None and sizes[-1] < lanes and not _are_short_rows(sizes, ctx):
        return NoMatch(Reason.NOT_PROFITABLE, f"rows of {sizes[-1]} columns, fewer than {lanes}")
    return None


def _are_short_rows(sizes: Sequence[int | None], ctx: PassContext) -> bool:
    """Whether a kernel takes the rows, a vector of them at a time."""
    if not ctx.target.vector_kernels or ctx.target.cpu is None or None in sizes:
        return False
    return math.prod(size or 0 for size in sizes[:-1]) >= ctx.target.cpu.lanes


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the softmax in a dispatch region."""
    found: RowSoftmax = match.data
    *rows, columns = ops.shape(match.root.results[0])
    tiles = None
    if ctx.target.cpu_tiles is not None and columns is not None:
        tiles = tiles_of(columns, ctx.target.cpu_tiles, single=not rows)
        if _has_epilogue(match.root, ctx) and not tiles.keeps_power:
            # In lanes the result is in whole columns all the same, which no epilogue can join.
            tiles = dataclasses.replace(tiles, lanes=False)
    skips = ctx.target.name in MAX_SKIPS_NAN
    return form_softmax(found, match.ops, tiles, max_skips_nan=skips)


def _has_epilogue(root: ir.Operation, ctx: PassContext) -> bool:
    """Whether a kernel for a CPU takes a softmax of static sizes with ops behind it."""
    if not ctx.target.vector_kernels or None in ops.shape(root.results[0]):
        return False
    users = ops.users_through_reshapes(root.results[0])
    return any(map(fusable_neighbors.is_free_elementwise, users))


def tiles_of(columns: int, sizes: CpuTiles, *, single: bool = False) -> Tiles:
    """The tiles in which a CPU computes rows of that many elements.

    A tensor that is a single row is not split into lanes: IREE 3.13 refuses its tiles.
    """
    even = columns % sizes.softmax_lanes == 0 and not single
    rows = limit = sizes.softmax_rows if even else sizes.softmax_uneven_rows
    while rows > 1 and rows * columns * _POWER_BYTES > sizes.softmax_stack_bytes:
        rows //= 2
    keeps = rows > 1
    rows = rows if keeps else limit
    whole = sizes.softmax_workgroup_elements // columns // rows * rows
    workgroup = min(sizes.max_softmax_workgroup_rows, max(rows, whole))
    vector = sizes.softmax_lanes if even else sizes.softmax_uneven_columns
    return Tiles(rows, workgroup, vector, even, keeps)


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
