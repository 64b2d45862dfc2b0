"""Growing a group from its last op towards producers."""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir

from mlirfuse.structured import ops, slices

_SCALAR = ("arith.", "math.")


def has_scalar_body(op: ir.Operation) -> bool:
    """Whether the generic's body is arithmetic only: no gather, no assertion, no loop index."""
    return all(
        o.operation.name.startswith(_SCALAR) or o.operation.name == "linalg.yield"
        for o in ops.body(op).operations
    )


_LONGEST_EPILOGUE = 32
"""Ops between a contraction and the last op that still counts as its epilogue."""


def is_epilogue_of_compute(op: ir.Operation, depth: int = _LONGEST_EPILOGUE) -> bool:
    """Whether the op belongs to the epilogue of a contraction-like op, which takes it along.

    Any structured op with a reduction that is no plain row reduction counts: matmul, convolution,
    pooling. Between it and the op there are only elementwise ops and reshapes whose readers all
    are of the same kind and shape.
    """
    for value in ops.inputs(op):
        producer = ops.defining_op(value)
        while producer is not None and producer.name in ops.RESHAPES:
            value = producer.operands[0]
            producer = ops.defining_op(value)
        if producer is None or slices.is_cheap(producer) or not _keeps_space(producer, op):
            continue
        if producer.name in ("linalg.softmax", "linalg.transpose", "linalg.broadcast"):
            continue
        named = producer.name.startswith("linalg.") and not ops.is_generic(producer)
        if named or ops.is_contraction(producer) or is_window(producer):
            return True
        if depth and ops.is_elementwise(producer) and is_epilogue_of_compute(producer, depth - 1):
            return True
    return False


def _keeps_space(producer: ir.Operation, reader: ir.Operation) -> bool:
    sizes = [ops.num_elements(r) for r in (*producer.results, *reader.results)]
    return len(set(sizes)) == 1


def is_window(op: ir.Operation) -> bool:
    """Whether the generic reads an input through a map that is no projected permutation."""
    return ops.is_generic(op) and None in ops.indexing_maps(op)


def grow(
    root: ir.Operation, accept: Callable[[ir.Operation, ir.Operation, ir.Value], bool]
) -> list[ir.Operation]:
    """The root and the producers that `accept(producer, reader, value)` lets in, in block order.

    Nearest producers come first. A producer that others read too comes in only when no cycle
    arises and its value can be written by the group; it then becomes a further result.
    """
    group: dict[ir.Operation, None] = {root: None}
    work = [root]
    while work:
        reader = work.pop(0)
        for value in reader.operands:
            op = ops.defining_op(value)
            if op is None or op in group or op.block != root.block or slices.is_cheap(op):
                continue
            if not ops.is_generic(op) or not accept(op, reader, value):
                continue
            trial = slices.in_order([*group, op])
            if not _only_read_by(op, group) and slices.cycle(trial) is not None:
                continue
            group[op] = None
            work.append(op)
    grown = slices.in_order(group)
    while (wide := slices.wider_result(grown)) is not None:
        grown.remove(wide)
    return grown


def _only_read_by(op: ir.Operation, group: dict[ir.Operation, None]) -> bool:
    return all(user in group for result in op.results for user in ops.users(result))


def read_map(reader: ir.Operation, value: ir.Value) -> ops.IndexMap | None:
    """The map through which the op reads the value; None when it reads it in two ways."""
    maps = {
        m for v, m in zip(reader.operands, ops.indexing_maps(reader), strict=True) if v == value
    }
    return maps.pop() if len(maps) == 1 else None


def is_identity(index_map: ops.IndexMap | None, loops: int) -> bool:
    """Whether the map reads one element per iteration, in loop order."""
    return index_map == tuple(range(loops))
