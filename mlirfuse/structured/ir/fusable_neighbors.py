"""Which ops grow together to groups: elementwise ops and reductions over rows."""

from __future__ import annotations

from collections.abc import Iterator

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import analysis_cache, ops, slices

_SCALAR = ("arith.", "math.")

MOST_OPS = 64
"""Ops in one group: code generation takes more than linear time in them."""


@analysis_cache.per_op
def has_scalar_body(op: ir.Operation) -> bool:
    """Whether the generic's body is arithmetic only: no gather, no assertion, no loop index."""
    return all(name.startswith(_SCALAR) or name == "linalg.yield" for name in ops.scalar_names(op))


_LONGEST_EPILOGUE = 32
"""Ops between a contraction and the last op that still counts as its epilogue."""


def is_epilogue_of_compute(op: ir.Operation) -> bool:
    """Whether the op belongs to the epilogue of a contraction-like op, which takes it along.

    Any structured op with a reduction that is no plain row reduction counts: matmul, convolution,
    pooling. Between it and the op there are only elementwise ops and reshapes whose readers all
    are of the same kind and shape.
    """
    seen, level = {op}, [op]
    for _ in range(_LONGEST_EPILOGUE):
        producers = {p for reader in level for p in _producers_in_space(reader)} - seen
        if any(map(is_compute, producers)):
            return True
        seen |= producers
        level = [p for p in producers if ops.is_elementwise(p)]
        if not level:
            return False
    return False


def is_among_epilogues(op: ir.Operation) -> bool:
    """`is_epilogue_of_compute`, for many ops of a block that does not change meanwhile."""
    first = op.block.operations[0].operation
    return _distances(first).get(op, _LONGEST_EPILOGUE) < _LONGEST_EPILOGUE


@analysis_cache.until_change
def _distances(first: ir.Operation) -> dict[ir.Operation, int]:
    """How many elementwise ops stand between an op of the block and the compute before it."""
    found: dict[ir.Operation, int] = {}
    for view in first.block.operations:
        op = view.operation
        if not ops.is_generic(op):
            continue
        for producer in _producers_in_space(op):
            steps = _LONGEST_EPILOGUE
            if is_compute(producer):
                steps = 0
            elif ops.is_elementwise(producer):
                steps = found.get(producer, _LONGEST_EPILOGUE) + 1
            found[op] = min(steps, found.get(op, _LONGEST_EPILOGUE))
    return found


def _producers_in_space(reader: ir.Operation) -> Iterator[ir.Operation]:
    """The ops behind reshapes that the op reads and whose results have as many elements.

    A reshape that cuts dimensions differently, (2, 64) to (4, 32), keeps IREE from fusing the two.
    """
    for value in ops.inputs(reader):
        producer, shape = ops.defining_op(ops.strip_views(value, ops.RESHAPES)), ops.shape(value)
        if producer is None or slices.is_cheap(producer) or not _keeps_space(producer, reader):
            continue
        if not any(_nests(ops.shape(result), shape) for result in producer.results):
            continue
        if producer.name not in ("linalg.softmax", "linalg.transpose", "linalg.broadcast"):
            yield producer


def _nests(before: tuple[int | None, ...], after: tuple[int | None, ...]) -> bool:
    """Whether each dimension of one shape splits into dimensions of the other, or joins them.

    The shapes have as many elements; a dynamic size may do anything.
    """
    left, right = ([s for s in sizes if s is not None and s != 1] for sizes in (before, after))
    if None in before or None in after:
        return True
    while left and right:
        a, b = left.pop(), right.pop()
        joins = splits = False
        while a != b:
            if a < b:
                a, joins = a * left.pop(), True
            else:
                b, splits = b * right.pop(), True
        if joins and splits:
            return False
    return True


def is_compute(op: ir.Operation) -> bool:
    """Whether the op is a contraction, a convolution, a pooling, or a named op."""
    named = op.name.startswith("linalg.") and not ops.is_generic(op)
    return named or ops.is_contraction(op) or is_window(op)


def _keeps_space(producer: ir.Operation, reader: ir.Operation) -> bool:
    sizes = [ops.num_elements(r) for r in (*producer.results, *reader.results)]
    return len(set(sizes)) == 1


_BEHIND = 8
"""Elementwise ops between a reduction and the last op that IREE still computes with it."""


def is_beside_reduction(op: ir.Operation) -> bool:
    """Whether the elementwise op feeds a row reduction that is in no group, or goes on behind one.

    IREE computes both with the reduction; in a group of their own they would be a dispatch more.
    """
    if any(map(_is_free_reduction, (u for r in op.results for u in ops.users(r)))):
        return True
    level = [op]
    for _ in range(_BEHIND):
        inputs = [v for reader in level for v in ops.inputs(reader)]
        producers = {p for v in inputs if (p := ops.defining_op(v)) is not None}
        if any(map(_is_free_reduction, producers)):
            return True
        level = [p for p in producers if ops.is_elementwise(p) and not ops.in_region(p)]
    return False


def _is_free_reduction(op: ir.Operation) -> bool:
    if not ops.is_generic(op) or ops.is_elementwise(op) or ops.in_region(op):
        return False
    return not is_compute(op)


def is_window(op: ir.Operation) -> bool:
    """Whether the generic reads an input through a map that is no projected permutation."""
    return ops.is_generic(op) and None in ops.indexing_maps(op)


def parts(
    producer: ir.Operation,
    reader: ir.Operation,
    value: ir.Value,
    kept: bool,
    *,
    leading: bool = False,
) -> NoMatch | None:
    """Why a loop nest over the reader's loops cannot compute the value where it is read.

    Args:
      producer: the op that computes it.
      reader: the op that reads it.
      value: what is read.
      kept: whether others read it too.
      leading: whether a value of the leading loops alone may be kept, as a row's sum may.
    """
    index_map = read_map(reader, value)
    if index_map is None or None in index_map:
        return NoMatch(Reason.INDEXING_MAP, f"{reader.name} reads the value in more than one way")
    if list(index_map) != sorted(d for d in index_map if d is not None):
        return NoMatch(Reason.INDEXING_MAP, f"{reader.name} reads the value transposed")
    loops = len(index_map) if leading else len(ops.iterator_types(reader))
    if kept and not is_identity(index_map, loops):
        return NoMatch(Reason.EXTRA_USERS, f"{producer.name} is broadcast, and others read it too")
    return None


def read_map(reader: ir.Operation, value: ir.Value) -> ops.IndexMap | None:
    """The map through which the op reads the value; None when it reads it in two ways."""
    maps = {
        m for v, m in zip(reader.operands, ops.indexing_maps(reader), strict=True) if v == value
    }
    return maps.pop() if len(maps) == 1 else None


def is_identity(index_map: ops.IndexMap | None, loops: int) -> bool:
    """Whether the map reads one element per iteration, in loop order."""
    return index_map == tuple(range(loops))
