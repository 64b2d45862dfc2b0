"""Analysis of a region around one `iree_linalg_ext.attention`, before a kernel is planned."""

from __future__ import annotations

import dataclasses
import math

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.attention.problem import AttentionProblem
from mlirfuse.kernels.attention.sizes import (
    BATCH_SIZE,
    KEY_SIZE,
    QUERY_SIZE,
    AttentionSizes,
)
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.iteration_space import known_product
from mlirfuse.kernels.codegen.tile_writer import computing
from mlirfuse.kernels.plan import Extent, Size
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.strided_views import strided_view
from mlirfuse.structured.recognize.attention_matches import MAX_KERNEL_HEAD_SIZE

ATTENTION_OP = "iree_linalg_ext.attention"

MAX_PACKED_QUERIES = 32
"""Queries of a head up to which the query heads of one KV head fill a tile together."""

ASSUMED_SEQUENCE = 1024
"""Queries or keys that configurations are chosen for where their number is dynamic."""

ASSUMED_BATCH = 8
"""Batches that configurations are chosen for where their number is dynamic."""


@dataclasses.dataclass(frozen=True, slots=True)
class AttentionLoops:
    """Roles of the loops of an attention op.

    Attributes:
      batch: batches, and heads that share nothing.
      queries: queries, preceded by the query heads that are packed with them.
      key: keys, which the softmax reduces.
      qk_head: elements of a query and a key, which their contraction reduces.
      v_head: elements of a value.
    """

    batch: tuple[int, ...]
    queries: tuple[int, ...]
    key: int
    qk_head: int
    v_head: int


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """Where the elements of a tensor are: in it or, for a slice, in the tensor it was taken from.

    Attributes:
      value: the tensor in memory.
      shape: a shape of the tensor in memory that has the slice's dimensions.
      taken: sizes of the slice.
      offset: index of the slice's first element.
    """

    value: ir.Value
    shape: tuple[int | None, ...]
    taken: tuple[int | None, ...]
    offset: int

    def is_aligned(self, vector: int) -> bool:
        """Whether each row of a slice starts at a whole vector of so many elements."""
        return self.shape == self.taken or (
            self.offset % vector == 0 and (self.shape[-1] or 0) % vector == 0
        )


@dataclasses.dataclass(frozen=True, slots=True)
class AttentionAnalysis:
    """A region around one attention.

    Attributes:
      region: the `flow.dispatch.region`.
      op: its attention op.
      loops: roles of the op's loops.
      batch_sizes: sizes of the batch loops; the first may be dynamic.
      query_sizes: sizes of the query loops; a single one may be dynamic.
      sizes: sizes of a head, and the number of heads.
      scale: factor of the scores.
      score_body: further scalar operations on a score; None for none.
      prologue: ops that compute the mask.
      epilogue: ops on the result of the attention.
      causal: whether the mask lets a query see the keys up to its own index.
    """

    region: ir.Operation
    op: ir.Operation
    loops: AttentionLoops
    batch_sizes: tuple[int | None, ...]
    query_sizes: tuple[int | None, ...]
    sizes: AttentionSizes
    scale: float
    score_body: ir.Block | None
    prologue: list[ir.Operation]
    epilogue: list[ir.Operation]
    causal: bool

    @property
    def operand_type(self) -> str:
        """Element type of q, k and v."""
        return ops.element_type(self.op.operands[0])

    def memory(self, operand: int) -> Memory:
        """Where the elements of q, k or v are: operand 0, 1 or 2; or, with -1, of the result."""
        value = self.op.results[0] if operand < 0 else self.op.operands[operand]
        view = None if operand < 0 else strided_view(value)
        covering = None if view is None else view.covering_shape()
        if view is None or covering is None:
            return Memory(value, ops.shape(value), ops.shape(value), 0)
        return Memory(view.base, covering, ops.shape(value), view.offset)

    @property
    def mask(self) -> ir.Value | None:
        """The mask operand; None where all keys are seen."""
        return _mask(self.op)

    def query_tiles(self, block_m: int) -> Extent:
        """The number of tiles of `block_m` queries, over all heads."""
        sizes = self.sizes
        queries, batches = (sizes.dynamic_index(name) for name in (QUERY_SIZE, BATCH_SIZE))
        return Extent(sizes.queries or 1, block_m, queries, sizes.heads, batches)

    @property
    def dynamic_sizes(self) -> tuple[Size, ...]:
        """Sources of the dynamic sizes, in the order of `AttentionSizes.dynamic`."""
        maps = ops.plain_maps(self.op)
        loops = {
            BATCH_SIZE: (0, self.loops.batch[:1]),
            QUERY_SIZE: (0, self.loops.queries),
            KEY_SIZE: (1, (self.loops.key,)),
        }
        found = []
        for name in self.sizes.dynamic:
            operand, (loop, *_) = loops[name]
            found.append(Size(self.op.operands[operand], maps[operand].index(loop)))
        return tuple(found)


def problem_of(analysis: AttentionAnalysis) -> AttentionProblem:
    """The problem that a configuration is chosen for; assumed numbers for dynamic sizes."""
    sizes = analysis.sizes
    mask = "causal" if analysis.causal else "none" if analysis.mask is None else "general"
    return AttentionProblem(
        queries=sizes.queries or ASSUMED_SEQUENCE,
        keys=sizes.keys or ASSUMED_SEQUENCE,
        head_size=max(sizes.qk_head_size, sizes.v_head_size),
        heads=sizes.heads * (ASSUMED_BATCH if sizes.dynamic_batch else 1),
        mask=mask,
        operand_bits=ops.element_bits(analysis.op.operands[0]),
    )


def analyze(region: ir.Operation, *, any_head: bool = False) -> AttentionAnalysis | NoMatch | None:
    """Analyzes a region; None where it has no attention op.

    Args:
      region: a `flow.dispatch.region`.
      any_head: whether to take heads larger than those of kernels for GPUs.
    """
    group = computing(region)
    found = [op for op in group if op.name == ATTENTION_OP]
    if not found:
        return None
    others = [op for op in group if op not in found and not ops.is_elementwise(op)]
    if len(found) > 1 or others:
        return NoMatch(
            Reason.STRUCTURE, f"the kernel has no {ops.described((others or found)[-1])}"
        )
    try:
        return _analyze(region, group, found[0], any_head)
    except Unsupported as reason:
        return NoMatch(Reason.STRUCTURE, f"the kernel cannot compute {reason}")


def _analyze(
    region: ir.Operation, group: list[ir.Operation], op: ir.Operation, any_head: bool
) -> AttentionAnalysis | NoMatch:
    """Analyzes a region with one attention op among elementwise ops.

    Raises:
      Unsupported: the op has loops of other roles, or its mask another user.
    """
    loops = _loops(op)
    kinds = {ops.element_type(x) for x in list(op.operands)[:3]}
    if kinds not in ({"f16"}, {"bf16"}, {"f32"}):
        return NoMatch(Reason.ELEMENT_TYPE, f"attention in {' and '.join(sorted(kinds))}")
    scale_operand = ops.constant(op.operands[3])
    if scale_operand is None:
        return NoMatch(Reason.CONSTANT_UNVERIFIED, "the scale is not a constant")
    scale, score_body = _scale(op, float(scale_operand))
    extents = _loop_sizes(op)
    batch = tuple(extents[n] for n in loops.batch)
    queries = tuple(extents[n] for n in loops.queries)
    qk_head, v_head, keys = (extents[n] for n in (loops.qk_head, loops.v_head, loops.key))
    if not qk_head or not v_head:
        return NoMatch(Reason.DYNAMIC_SHAPE, "the head size is dynamic")
    if None in batch[1:] or (len(queries) > 1 and None in queries):
        return NoMatch(
            Reason.DYNAMIC_SHAPE, "of the heads and batches only the first size may be dynamic"
        )
    if 0 in (*batch, *queries, keys):
        return NoMatch(Reason.STRUCTURE, "an attention without queries or keys")
    limit = MAX_KERNEL_HEAD_SIZE[min(kinds)]
    if max(qk_head, v_head) > limit and not any_head:
        return NoMatch(Reason.NOT_PROFITABLE, f"heads of {max(qk_head, v_head)}, above {limit}")
    prologue, epilogue = _prologue_and_epilogue(group, op)
    return AttentionAnalysis(
        region=region,
        op=op,
        loops=loops,
        batch_sizes=batch,
        query_sizes=queries,
        sizes=AttentionSizes(
            qk_head_size=qk_head,
            v_head_size=v_head,
            keys=keys,
            queries=None if None in queries else known_product(queries),
            heads=known_product(batch),
            dynamic_batch=None in batch,
        ),
        scale=scale,
        score_body=score_body,
        prologue=prologue,
        epilogue=epilogue,
        causal=len(queries) == 1 and _is_causal(op, loops, prologue),
    )


def _loops(op: ir.Operation) -> AttentionLoops:
    maps = ops.indexing_maps(op)
    if any(m is None or None in m for m in maps):
        raise Unsupported(f"an indexing map of {op.name}")
    q, k, v, out = (tuple(d for d in m if d is not None) for m in (*maps[:3], maps[-1]) if m)
    # The query heads that share a KV head, and the queries as the last of these.
    queries = [d for d in q if d in out and d not in (*k, *v)]
    v_heads = [d for d in v if d in out and d not in (*q, *k)]
    keys = [d for d in k if d in v and d not in (*q, *out)]
    qk_heads = [d for d in q if d in k and d not in (*v, *out)]
    if not queries or [len(x) for x in (v_heads, keys, qk_heads)] != [1, 1, 1]:
        raise Unsupported("an attention without one loop each of keys and of both head sizes")
    sizes = _loop_sizes(op)
    # The query heads of a KV head may be an inner loop of the queries, but are fewer.
    queries.sort(key=lambda d: sizes[d] or math.inf)
    if len(queries) > 1 and (sizes[queries[-1]] or MAX_PACKED_QUERIES + 1) > MAX_PACKED_QUERIES:
        queries = queries[-1:]
    batch = sorted({*q, *k, *v, *out} - {*queries, *v_heads, *keys, *qk_heads})
    if not set(batch) <= set(out) & set(q):
        raise Unsupported("an attention whose q or result lacks a batch dimension")
    return AttentionLoops(tuple(batch), tuple(queries), keys[0], qk_heads[0], v_heads[0])


def _mask(op: ir.Operation) -> ir.Value | None:
    return op.operands[4] if len(op.operands) == 6 else None


def _loop_sizes(op: ir.Operation) -> dict[int, int | None]:
    """The size of each loop of an attention op."""
    sizes: dict[int, int | None] = {}
    for value, index_map in zip(op.operands, ops.indexing_maps(op), strict=True):
        for size, loop in zip(ops.shape(value), index_map or (), strict=True):
            if loop is not None:
                sizes[loop] = size
    return sizes


def _scale(op: ir.Operation, scale: float) -> tuple[float, ir.Block | None]:
    """The factor of the scores, and the body of the op where it does more than scale them."""
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


def _prologue_and_epilogue(
    group: list[ir.Operation], op: ir.Operation
) -> tuple[list[ir.Operation], list[ir.Operation]]:
    """The ops that compute the mask, and the direct and indirect users of the attention."""
    users = {op}
    for other in group:
        if any(ops.defining_op(v) in users for v in other.operands):
            users.add(other)
    prologue = [o for o in group if o not in users]
    mask_values = {result for o in prologue for result in o.results}
    terminator = group[-1].block.operations[len(group[-1].block.operations) - 1].operation
    for user in (*users - {op}, terminator):
        if any(v in mask_values for v in user.operands):
            raise Unsupported("a mask with a user after the attention")
    return prologue, [o for o in group if o in users and o != op]


def _is_causal(op: ir.Operation, loops: AttentionLoops, prologue: list[ir.Operation]) -> bool:
    """Whether the mask is `query >= key`, computed from the indices alone."""
    mask = _mask(op)
    if mask is None or len(prologue) != 1 or ops.num_inputs(prologue[0]):
        return False
    body = [o.operation for o in ops.body(prologue[0]).operations]
    compared = [o for o in body if o.name == "arith.cmpi"]
    names = {o.name for o in body}
    if len(compared) != 1 or not names <= {
        "linalg.index",
        "arith.index_cast",
        "arith.cmpi",
        "linalg.yield",
    }:
        return False
    read, written = ops.plain_maps(op)[4], ops.plain_maps(prologue[0])[-1]
    if mask != prologue[0].results[0] or len(written) != len(set(written)):
        return False
    masked = dict(zip(written, read, strict=True))
    sides = [masked.get(_indexed_loop(v)) for v in compared[0].operands]
    query, key = loops.queries[-1], loops.key
    predicate = compared[0].attributes["predicate"].value
    return (sides, predicate) in (([query, key], 5), ([key, query], 3))


def _indexed_loop(value: ir.Value) -> int | None:
    op = ops.defining_op(value)
    while op is not None and op.name == "arith.index_cast":
        op = ops.defining_op(op.operands[0])
    return op.attributes["dim"].value if op is not None and op.name == "linalg.index" else None
