"""What is read off a region around one `iree_linalg_ext.attention` before a kernel is planned."""

from __future__ import annotations

import dataclasses
import math

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.attention.problem import AttentionProblem
from mlirfuse.kernels.attention.source import (
    BATCH,
    BATCH_SIZE,
    KEY,
    KEY_SIZE,
    QUERY,
    QUERY_SIZE,
    WIDTH,
    Shape,
)
from mlirfuse.kernels.codegen.iteration_space import Axis, known_product
from mlirfuse.kernels.codegen.scalar_ops import Unsupported
from mlirfuse.kernels.plan import Extent, Size
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.attention_matches import MAX_KERNEL_HEAD_SIZE

FOLDED = 32
"""Queries of a head up to which the heads that share keys are computed together."""

UNKNOWN = 1024
"""What a dynamic number of queries or keys counts as where tiles are chosen."""

UNKNOWN_BATCH = 8
"""The same of batches."""


@dataclasses.dataclass(frozen=True, slots=True)
class Loops:
    """The loops of an attention op: those of the batch, of queries, and one of each other kind."""

    batch: tuple[int, ...]
    rows: tuple[int, ...]
    key: int
    depth: int
    width: int


@dataclasses.dataclass(frozen=True, slots=True)
class Attention:
    """A region around one attention.

    Attributes:
      region: the group.
      op: its attention.
      loops: of the op.
      batch: the sizes of the loops of the batch; the first may be dynamic.
      rows: the same of the queries.
      shape: the sizes of a head.
      scale: of the scores.
      body: what else becomes of a score; None for nothing.
      before: the ops that compute the mask.
      after: those that follow the attention.
      causal: whether the mask is that a query sees no keys after it.
    """

    region: ir.Operation
    op: ir.Operation
    loops: Loops
    batch: tuple[int | None, ...]
    rows: tuple[int | None, ...]
    shape: Shape
    scale: float
    body: ir.Block | None
    before: list[ir.Operation]
    after: list[ir.Operation]
    causal: bool

    @property
    def mask(self) -> ir.Value | None:
        """The mask, where there is one."""
        return _mask(self.op)

    @property
    def axes(self) -> dict[int, Axis]:
        """The axis of the iteration space that each loop is; none for that of the depth."""
        loops = self.loops
        axes: dict[int, Axis] = {loop: (BATCH, n) for n, loop in enumerate(loops.batch)}
        axes |= {loop: (QUERY, n) for n, loop in enumerate(loops.rows)}
        return axes | {loops.key: (KEY, 0), loops.width: (WIDTH, 0)}

    @property
    def problem(self) -> AttentionProblem:
        """The problem that the configuration is chosen by."""
        mask = "causal" if self.causal else "none" if self.mask is None else "general"
        shape = self.shape
        head = max(shape.depth, shape.width)
        queries, keys = shape.queries or UNKNOWN, shape.keys or UNKNOWN
        heads = shape.heads * (UNKNOWN_BATCH if shape.batched else 1)
        return AttentionProblem(queries, keys, head, heads, mask)

    def workgroups(self, tall: int) -> Extent:
        """One for each tile of so many queries of each head."""
        shape = self.shape
        queries, batches = (shape.numbers(name) for name in (QUERY_SIZE, BATCH_SIZE))
        return Extent(shape.queries or 1, tall, queries, shape.heads, batches)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The dynamic sizes, in the order of `Shape.told`."""
        maps = ops.plain_maps(self.op)
        loops = {BATCH_SIZE: self.loops.batch[:1], QUERY_SIZE: self.loops.rows}
        loops[KEY_SIZE] = (self.loops.key,)
        found = []
        for name in self.shape.told:
            operand = 1 if name == KEY_SIZE else 0
            dim = maps[operand].index(loops[name][0])
            found.append(Size(self.op.operands[operand], dim))
        return tuple(found)


def read(region: ir.Operation, group: list[ir.Operation], op: ir.Operation) -> Attention | NoMatch:
    """Reads a region.

    Args:
      region: the group.
      group: what it computes.
      op: the attention among that.

    Raises:
      Unsupported: the op has loops that no kernel has, or its mask another reader.
    """
    loops = _loops(op)
    kinds = {ops.element_type(x) for x in list(op.operands)[:3]}
    if kinds not in ({"f16"}, {"bf16"}):
        return NoMatch(Reason.ELEMENT_TYPE, f"attention in {' and '.join(sorted(kinds))}")
    given = ops.constant(op.operands[3])
    if given is None:
        return NoMatch(Reason.CONSTANT_UNVERIFIED, "the scale is not a constant")
    scale, body = _scale(op, float(given))
    sizes = _sizes(op)
    batch = tuple(sizes[n] for n in loops.batch)
    rows = tuple(sizes[n] for n in loops.rows)
    depth, width, keys = (sizes[n] for n in (loops.depth, loops.width, loops.key))
    if not depth or not width:
        return NoMatch(Reason.DYNAMIC_SHAPE, "the head size")
    if None in batch[1:] or (len(rows) > 1 and None in rows):
        return NoMatch(
            Reason.DYNAMIC_SHAPE, "of the heads and batches only the first size may be dynamic"
        )
    if 0 in (*batch, *rows, keys):
        return NoMatch(Reason.STRUCTURE, "an attention of nothing")
    if max(depth, width) > MAX_KERNEL_HEAD_SIZE:
        return NoMatch(
            Reason.NOT_PROFITABLE, f"heads of {max(depth, width)}, above {MAX_KERNEL_HEAD_SIZE}"
        )
    before, after = _around(group, op)
    causal = len(loops.rows) == 1 and _is_causal(op, loops, before)
    queries = None if None in rows else known_product(rows)
    shape = Shape(depth, width, keys, queries, known_product(batch), None in batch)
    return Attention(region, op, loops, batch, rows, shape, scale, body, before, after, causal)


def _loops(op: ir.Operation) -> Loops:
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
    # The heads that share a key's may lie behind the queries, but are fewer.
    queries.sort(key=lambda d: sizes[d] or math.inf)
    if len(queries) > 1 and (sizes[queries[-1]] or FOLDED + 1) > FOLDED:
        queries = queries[-1:]
    batch = sorted({*q, *k, *v, *out} - {*queries, *widths, *keys, *depths})
    if not set(batch) <= set(out) & set(q):
        raise Unsupported("an attention whose q or result lacks a batch dimension")
    return Loops(tuple(batch), tuple(queries), keys[0], depths[0], widths[0])


def _mask(op: ir.Operation) -> ir.Value | None:
    return op.operands[4] if len(op.operands) == 6 else None


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


def _is_causal(op: ir.Operation, loops: Loops, before: list[ir.Operation]) -> bool:
    """Whether the mask is `query >= key`, computed from the indices alone."""
    mask = _mask(op)
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
    read, written = ops.plain_maps(op)[4], ops.plain_maps(before[0])[-1]
    if mask != before[0].results[0] or len(written) != len(set(written)):
        return False
    masked = dict(zip(written, read, strict=True))
    sides = [masked.get(_loop_of(v)) for v in compared[0].operands]
    query, key = loops.rows[-1], loops.key
    predicate = compared[0].attributes["predicate"].value
    return (sides, predicate) in (([query, key], 5), ([key, query], 3))


def _loop_of(value: ir.Value) -> int | None:
    op = ops.defining_op(value)
    while op is not None and op.name == "arith.index_cast":
        op = ops.defining_op(op.operands[0])
    return op.attributes["dim"].value if op is not None and op.name == "linalg.index" else None
