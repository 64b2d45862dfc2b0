"""Elementwise ops and row reductions that may be fused with their neighbors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import analysis_cache, ops, slices

_SCALAR = ("arith.", "math.", "linalg.yield")
_INDEXED = (*_SCALAR, "linalg.index")
_GATHERING = (*_INDEXED, "tensor.extract", "cf.assert")
"""Beginnings of the names of ops in bodies: arithmetic; with the indices of loops; and with
elements of tensors at computed indices, which importers assert to be in bounds."""

MAX_GROUP_OPS = 64
"""Ops in one group: IREE's code generation takes superlinear time in their number."""

MAX_KERNEL_OPS = 512
"""Ops in one group that a kernel computes; a bicubic `grid_sample` has 281."""


@analysis_cache.per_op
def has_scalar_body(op: ir.Operation) -> bool:
    """Whether the generic's body is arithmetic only: no gather, no assertion, no loop index."""
    return all(name.startswith(_SCALAR) for name in ops.scalar_names(op))


@analysis_cache.per_op
def has_indexed_body(op: ir.Operation) -> bool:
    """Whether the generic's body is arithmetic, possibly of the indices of loops."""
    return all(name.startswith(_INDEXED) for name in ops.scalar_names(op))


@analysis_cache.per_op
def has_gathering_body(op: ir.Operation) -> bool:
    """Whether the generic's body is arithmetic, possibly of elements at computed indices."""
    return all(name.startswith(_GATHERING) for name in ops.scalar_names(op))


_MAX_EPILOGUE_OPS = 32
"""Ops between a contraction and the last op of its epilogue."""


def is_epilogue_of_compute(op: ir.Operation) -> bool:
    """Whether IREE fuses the op as an epilogue with a contraction-like op.

    Contraction-like are structured ops with a reduction that is no plain row reduction: matmuls,
    convolutions, poolings. Only elementwise ops and reshapes of the same element count are between
    the two.
    """
    seen, level = {op}, [op]
    for _ in range(_MAX_EPILOGUE_OPS):
        producers = {p for user in level for p in _producers_in_space(user)} - seen
        if any(map(is_compute, producers)):
            return True
        seen |= producers
        level = [p for p in producers if ops.is_elementwise(p)]
        if not level:
            return False
    return False


def only_widens(op: ir.Operation) -> bool:
    """Whether an op extends floats, and does nothing else."""
    return ops.scalar_names(op) == ("arith.extf", "linalg.yield")


_WIDENING = ("arith.bitcast", "arith.extui", "arith.shli", "arith.bitcast", "linalg.yield")


def widens_bits(op: ir.Operation) -> bool:
    """Whether an op writes bf16 as f32 by its bits: `image_widening_rewrite` makes such ops."""
    if not ops.is_elementwise(op):
        return False
    names = tuple(name for name in ops.scalar_names(op) if name != "arith.constant")
    loops = len(ops.iterator_types(op))
    return names == _WIDENING and all(is_identity(m, loops) for m in ops.indexing_maps(op))


def is_widened_by_users(op: ir.Operation) -> bool:
    """Whether an op only widens elements, which its users do at no cost.

    Elementwise ops and reductions do; the op before it writes half the bytes.
    """
    if not only_widens(op):
        return False
    users = ops.users(op.results[0])
    return bool(users) and all(
        ops.is_generic(user) and user.block == op.block and not is_compute(user) for user in users
    )


def is_among_epilogues(op: ir.Operation) -> bool:
    """`is_epilogue_of_compute` from a cached table, for queries about many ops of a block."""
    first = op.block.operations[0].operation
    return _distances(first).get(op, _MAX_EPILOGUE_OPS) < _MAX_EPILOGUE_OPS


@analysis_cache.until_change
def _distances(first: ir.Operation) -> dict[ir.Operation, int]:
    """Number of elementwise ops between each op of the block and the contraction-like op above."""
    found: dict[ir.Operation, int] = {}
    for view in first.block.operations:
        op = view.operation
        if not ops.is_generic(op):
            continue
        for producer in _producers_in_space(op):
            distance = _MAX_EPILOGUE_OPS
            if is_compute(producer):
                distance = 0
            elif ops.is_elementwise(producer):
                distance = found.get(producer, _MAX_EPILOGUE_OPS) + 1
            found[op] = min(distance, found.get(op, _MAX_EPILOGUE_OPS))
    return found


def feeds_epilogue(op: ir.Operation) -> bool:
    """Whether epilogues of contraction-like ops alone use the op, directly or not.

    The group of such an epilogue computes it, or IREE does.
    """
    first = op.block.operations[0].operation
    return op in _feeding(first)


@analysis_cache.until_change
def _feeding(first: ir.Operation) -> frozenset[ir.Operation]:
    """The ops of the block that `feeds_epilogue`."""
    found: set[ir.Operation] = set()
    for view in reversed([*first.block.operations]):
        op = view.operation
        if not is_free_elementwise(op):
            continue
        users = ops.users(op.results[0])
        if users and all(u in found or _is_epilogue_over(u, op) for u in users):
            found.add(op)
    return frozenset(found)


def _is_epilogue_over(user: ir.Operation, op: ir.Operation) -> bool:
    """Whether an op is an epilogue that can compute another op without repeating its work."""
    if user.block != op.block or not ops.is_elementwise(user) or not is_among_epilogues(user):
        return False
    return is_computed_once(op, user)


def is_computed_once(op: ir.Operation, user: ir.Operation) -> bool:
    """Whether a user of as many elements, or of an op that reads nothing, repeats no work of it."""
    return _keeps_space(op, user) or ops.num_inputs(op) == 0


def is_free_elementwise(op: ir.Operation, *, gathers: bool = False) -> bool:
    """Whether the group that alone reads an op may compute it: its prologue, or an operand.

    It is elementwise, possibly of the indices of its loops, in no group, and no epilogue itself.

    Args:
      op: any op.
      gathers: whether it may read elements at computed indices.
    """
    body = has_gathering_body if gathers else has_indexed_body
    return is_elementwise_in_order(op, body) and not is_among_epilogues(op)


def is_elementwise_in_order(
    op: ir.Operation, has_body: Callable[[ir.Operation], bool] = has_scalar_body
) -> bool:
    """Whether the op, in no group, is elementwise and writes its one result in its loops' order.

    Args:
      op: any op.
      has_body: whether its body is one that is wanted.
    """
    if not ops.is_elementwise(op) or ops.in_region(op) or not has_body(op):
        return False
    if len(op.results) != 1 or ops.reads_inits(op) or ops.moved_input(op) is not None:
        return False
    maps, rank = ops.indexing_maps(op), len(ops.iterator_types(op))
    return None not in maps and is_identity(maps[-1], rank)


def has_one_order(op: ir.Operation) -> bool:
    """Whether the op is an elementwise generic of one result, whose maps are all the identity."""
    if not ops.is_generic(op) or not ops.is_elementwise(op) or len(op.results) != 1:
        return False
    rank = len(ops.iterator_types(op))
    return all(is_identity(index_map, rank) for index_map in ops.indexing_maps(op))


def _producers_in_space(user: ir.Operation) -> Iterator[ir.Operation]:
    """The producers, through reshapes, whose results have as many elements as the op's.

    IREE does not fuse through a reshape that splits dimensions differently, as (2, 64) to (4, 32).
    """
    for value in ops.inputs(user):
        producer, shape = ops.defining_op(ops.strip_views(value, ops.RESHAPES)), ops.shape(value)
        if producer is None or slices.is_clonable(producer) or not _keeps_space(producer, user):
            continue
        if not any(nests(ops.shape(result), shape) for result in producer.results):
            continue
        if producer.name not in ("linalg.softmax", "linalg.transpose", "linalg.broadcast"):
            yield producer


def nests(before: tuple[int | None, ...], after: tuple[int | None, ...]) -> bool:
    """Whether each dimension of one shape is split or collapsed to dimensions of the other.

    Shapes of different numbers of elements do not nest; with a dynamic size the answer is yes.
    """
    left, right = ([s for s in sizes if s is not None and s != 1] for sizes in (before, after))
    if None in before or None in after:
        return True
    if math.prod(left) != math.prod(right):
        return False
    if 0 in left:
        return True
    while left and right:
        a, b = left.pop(), right.pop()
        collapses = splits = False
        while a != b:
            if a < b:
                a, collapses = a * left.pop(), True
            else:
                b, splits = b * right.pop(), True
        if collapses and splits:
            return False
    return True


def is_compute(op: ir.Operation) -> bool:
    """Whether the op is a contraction, a convolution, a pooling, or a named op."""
    named = op.name.startswith("linalg.") and not ops.is_generic(op)
    return named or ops.is_contraction(op) or has_window(op)


def _keeps_space(producer: ir.Operation, user: ir.Operation) -> bool:
    sizes = [ops.num_elements(r) for r in (*producer.results, *user.results)]
    return len(set(sizes)) == 1


_MAX_OPS_AFTER_REDUCTION = 8
"""Elementwise ops after a reduction that IREE fuses with it."""


def is_fused_by_iree(op: ir.Operation) -> bool:
    """Whether IREE fuses it with a contraction, convolution, pooling or reduction in no region."""
    return is_epilogue_of_compute(op) or is_adjacent_to_reduction(op)


def is_adjacent_to_reduction(op: ir.Operation) -> bool:
    """Whether the elementwise op is a producer or an epilogue of a row reduction in no region.

    IREE fuses both with the reduction; a region of their own would be an additional dispatch.
    """
    if any(map(_is_free_reduction, (u for r in op.results for u in ops.users(r)))):
        return True
    level = [op]
    for _ in range(_MAX_OPS_AFTER_REDUCTION):
        inputs = [v for user in level for v in ops.inputs(user)]
        producers = {p for v in inputs if (p := ops.defining_op(v)) is not None}
        if any(map(_is_free_reduction, producers)):
            return True
        level = [p for p in producers if ops.is_elementwise(p) and not ops.in_region(p)]
    return False


def _is_free_reduction(op: ir.Operation) -> bool:
    if not ops.is_generic(op) or ops.is_elementwise(op) or ops.in_region(op):
        return False
    return not is_compute(op)


def has_window(op: ir.Operation) -> bool:
    """Whether an indexing map of the generic is no projected permutation: a sliding window."""
    return ops.is_generic(op) and None in ops.indexing_maps(op)


def inlining_refusal(
    producer: ir.Operation,
    user: ir.Operation,
    value: ir.Value,
    kept: bool,
    *,
    leading: bool = False,
) -> NoMatch | None:
    """Why a loop nest over the user's loops cannot compute the value where it is used.

    Args:
      producer: the op that computes the value.
      user: the op that reads it.
      value: the value.
      kept: whether the value has other users, so that the nest has to write it.
      leading: whether the nest can write a value of its leading loops alone, as a row's sum.
    """
    index_map = read_map(user, value)
    if index_map is None or None in index_map:
        return NoMatch(
            Reason.INDEXING_MAP, f"{user.name} reads the value through two indexing maps"
        )
    if list(index_map) != sorted(d for d in index_map if d is not None):
        return NoMatch(Reason.INDEXING_MAP, f"{user.name} reads the value transposed")
    # A scalar has no loops: every tile of the nest would write it.
    loops = len(index_map) if leading and index_map else len(ops.iterator_types(user))
    if kept and not is_identity(index_map, loops):
        return NoMatch(Reason.EXTRA_USERS, f"{producer.name} is broadcast and has other users")
    if kept and ops.num_inputs(producer) == 0:
        # IREE computes a filled tensor or an iota where it is read.
        return NoMatch(Reason.EXTRA_USERS, f"{producer.name} reads nothing and has other users")
    if kept and ops.element_type(value) == "i1":
        # IREE 3.13 makes bytes of booleans that a dispatch writes, in a loop nest that reads them.
        detail = f"the booleans of {producer.name} have other users"
        return NoMatch(Reason.TARGET_UNSUPPORTED, detail)
    return None


def read_map(user: ir.Operation, value: ir.Value) -> ops.IndexMap | None:
    """The indexing map through which the op reads the value; None if there are several."""
    maps = {m for v, m in zip(user.operands, ops.indexing_maps(user), strict=True) if v == value}
    return maps.pop() if len(maps) == 1 else None


def is_identity(index_map: ops.IndexMap | None, loops: int) -> bool:
    """Whether the indexing map is the identity on so many loops."""
    return index_map == tuple(range(loops))
