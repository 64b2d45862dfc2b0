"""Structured ops: indexing maps, iterator types, operands, scalar bodies, contractions."""

from __future__ import annotations

import collections
import dataclasses
import functools
from typing import cast

from iree.compiler import ir

from mlirfuse.structured.ir import analysis_cache
from mlirfuse.structured.ir.tensor_types import shape

IndexMap = tuple[int | None, ...]
"""Per tensor dimension: index of the loop that addresses it; None for a constant zero."""


def is_generic(op: ir.Operation) -> bool:
    """Whether the op is a `linalg.generic`."""
    return bool(op.name == "linalg.generic")


@functools.cache
def _decode_map(attribute: ir.AffineMapAttr) -> IndexMap | None:
    entries: list[int | None] = []
    for expr in attribute.value.results:
        if isinstance(expr, ir.AffineDimExpr):
            entries.append(expr.position)
        elif isinstance(expr, ir.AffineConstantExpr) and expr.value == 0:
            entries.append(None)
        else:
            return None
    return tuple(entries)


@dataclasses.dataclass(frozen=True, slots=True)
class LinearIndex:
    """An index along a tensor dimension that is linear in the loops of an op.

    Attributes:
      factors: loop -> its factor, not zero.
      start: the index where all loops are at 0.
    """

    factors: tuple[tuple[int, int], ...]
    start: int


def linear_map(op: ir.Operation, operand: int) -> tuple[LinearIndex, ...] | None:
    """The indexing map of an operand of a generic; None where an index is not linear."""
    found = [_linear(expr) for expr in op.attributes["indexing_maps"][operand].value.results]
    indices = tuple(index for index in found if index is not None)
    return indices if len(indices) == len(found) else None


def _linear(expr: ir.AffineExpr) -> LinearIndex | None:
    if isinstance(expr, ir.AffineDimExpr):
        return LinearIndex(((expr.position, 1),), 0)
    if isinstance(expr, ir.AffineConstantExpr):
        return LinearIndex((), expr.value)
    if not isinstance(expr, ir.AffineAddExpr | ir.AffineMulExpr):
        return None
    left, right = _linear(expr.lhs), _linear(expr.rhs)
    if left is None or right is None:
        return None
    if isinstance(expr, ir.AffineAddExpr):
        factors = collections.Counter(dict(left.factors))
        for loop, factor in right.factors:
            factors[loop] += factor
        start = left.start + right.start
    else:  # One of the two is a constant.
        varying, number = (right, left.start) if not left.factors else (left, right.start)
        factors = collections.Counter({loop: f * number for loop, f in varying.factors})
        start = varying.start * number
    return LinearIndex(tuple((n, f) for n, f in sorted(factors.items()) if f), start)


_NAMED_MAPS: dict[str, tuple[IndexMap, ...]] = {
    "linalg.batch_matmul": ((0, 1, 3), (0, 3, 2), (0, 1, 2)),
    "linalg.batch_matvec": ((0, 1, 2), (0, 2), (0, 1)),
    "linalg.batch_vecmat": ((0, 2), (0, 2, 1), (0, 1)),
    "linalg.matmul": ((0, 2), (2, 1), (0, 1)),
    "linalg.matvec": ((0, 1), (1,), (0,)),
    "linalg.vecmat": ((1,), (1, 0), (0,)),
}
"""Indexing maps of the named contractions that carry none as an attribute."""


@analysis_cache.per_op
def indexing_maps(op: ir.Operation) -> tuple[IndexMap | None, ...]:
    """One map per operand of a structured op, inputs first, then inits."""
    if "indexing_maps" in op.attributes:
        return tuple(_decode_map(a) for a in op.attributes["indexing_maps"])
    if op.name in _NAMED_MAPS:
        return _NAMED_MAPS[op.name]
    if op.name == "linalg.fill":
        return ((), tuple(range(len(shape(op.operands[1])))))
    return ()


def plain_maps(op: ir.Operation) -> tuple[IndexMap, ...]:
    """The indexing maps of an op whose maps are known to be projected permutations."""
    maps = indexing_maps(op)
    assert None not in maps, op.name
    return cast("tuple[IndexMap, ...]", maps)


@functools.cache
def _decode_iterators(attribute: ir.ArrayAttr) -> tuple[str, ...]:
    kinds = str(attribute).split(",")
    return tuple("parallel" if "parallel" in k else "reduction" for k in kinds if "iterator" in k)


def clear_caches() -> None:
    """Drops the decoded attributes, which keep their context alive."""
    _decode_map.cache_clear()
    _decode_iterators.cache_clear()


@analysis_cache.per_op
def iterator_types(op: ir.Operation) -> tuple[str, ...]:
    """`parallel` or `reduction` per loop of a structured op."""
    if "iterator_types" in op.attributes:
        return _decode_iterators(op.attributes["iterator_types"])
    maps = indexing_maps(op)
    outputs = {d for m in maps[num_inputs(op) :] if m is not None for d in m}
    loops = max((d for m in maps if m for d in m if d is not None), default=-1) + 1
    return tuple("parallel" if d in outputs else "reduction" for d in range(loops))


def num_inputs(op: ir.Operation) -> int:
    """Number of `ins` operands of a structured op."""
    return len(op.operands) - len(op.results)


def inputs(op: ir.Operation) -> list[ir.Value]:
    """The `ins` operands of a structured op."""
    return list(op.operands)[: num_inputs(op)]


def inits(op: ir.Operation) -> list[ir.Value]:
    """The `outs` operands of a structured op."""
    return list(op.operands)[num_inputs(op) :]


@analysis_cache.per_op
def is_elementwise(op: ir.Operation) -> bool:
    """Whether every loop of the generic is parallel."""
    return is_generic(op) and all(t == "parallel" for t in iterator_types(op))


@analysis_cache.per_op
def loop_sizes(op: ir.Operation) -> tuple[int | None, ...]:
    """Trip count of each loop of a structured op; None where dynamic or unknown."""
    sizes: list[int | None] = [None] * len(iterator_types(op))
    for value, index_map in zip(op.operands, indexing_maps(op), strict=False):
        for size, loop in zip(shape(value), index_map or (), strict=False):
            if loop is not None and size is not None:
                sizes[loop] = size
    return tuple(sizes)


def body(op: ir.Operation) -> ir.Block:
    """The scalar body of a structured op."""
    return op.regions[0].blocks[0]


@analysis_cache.per_op
def reads_inits(op: ir.Operation) -> bool:
    """Whether the scalar body reads the initial values of the `outs` operands."""
    return any(list(a.uses) for a in list(body(op).arguments)[num_inputs(op) :])


@analysis_cache.per_op
def is_projection(op: ir.Operation) -> bool:
    """Whether the generic only moves data: it yields its one input unchanged."""
    return num_inputs(op) == 1 and moved_input(op) is not None


@analysis_cache.per_op
def moved_input(op: ir.Operation) -> int | None:
    """Index of the input that an elementwise generic yields unchanged; None if it computes.

    Its other inputs are unused: for example the ids by which a row of a one-row table was gathered.
    """
    if not is_elementwise(op) or len(op.results) != 1:
        return None
    block = body(op)
    if len(block.operations) != 1:
        return None
    yielded = block.operations[0].operation.operands[0]
    arguments = list(block.arguments)[: num_inputs(op)]
    return next((index for index, a in enumerate(arguments) if a == yielded), None)


@analysis_cache.per_op
def reads_index(op: ir.Operation) -> bool:
    """Whether the scalar body reads a loop index (`linalg.index`)."""
    return "linalg.index" in scalar_names(op)


@analysis_cache.per_op
def scalar_names(op: ir.Operation) -> tuple[str, ...]:
    """The names of the ops in the scalar body, the terminator last."""
    return tuple(o.operation.name for o in body(op).operations)


NAMED_CONTRACTIONS = frozenset({*_NAMED_MAPS, "linalg.contract"})


@analysis_cache.per_op
def is_contraction(op: ir.Operation) -> bool:
    """Whether the op multiplies two inputs and accumulates over at least one reduction loop.

    These are named contractions, and generics whose body is `yield(out + a * b)` with casts of `a`
    and `b` to the accumulator's type.
    """
    if op.name in NAMED_CONTRACTIONS:
        return True
    if not is_generic(op) or num_inputs(op) != 2 or len(op.results) != 1:
        return False
    if "reduction" not in iterator_types(op) or None in indexing_maps(op):
        return False
    return multiplies_and_adds(op)


def multiplies_and_adds(op: ir.Operation) -> bool:
    """Whether the generic's body is `yield(out + a * b)`, with or without casts of `a` and `b`."""
    names = scalar_names(op)
    casts = {"arith.extf", "arith.extsi", "arith.extui"}
    rest = [n for n in names if n not in casts]
    return rest in (
        ["arith.mulf", "arith.addf", "linalg.yield"],
        ["arith.muli", "arith.addi", "linalg.yield"],
    )


def predicate(op: ir.Operation) -> str:
    """The predicate of a comparison, as the attribute prints; empty for any other scalar op."""
    return str(op.attributes["predicate"]) if "predicate" in op.attributes else ""


def softmax_axis(op: ir.Operation) -> int:
    """The dimension over which a `linalg.softmax` normalizes."""
    return int(op.attributes["dimension"].value)
