"""Axes that are known only when the program runs, as a choice between the few that are possible.

ReduceSum(x[2, 3], axes)       becomes
Where(axes == 0, ReduceSum(x, 0), ReduceSum(x, 1))
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from onnx import TensorProto

from mlirfuse.frontends.onnx_repairs.values import Unsupported, Value

MAX_CHOICES = 8
"""Most results that are computed to choose one of."""


def over_axes(
    axes: Value,
    rank: int,
    candidates: Iterable[tuple[int, ...]],
    build: Callable[[tuple[int, ...]], Value],
) -> Value:
    """The result for the axes that an operand holds.

    Args:
      axes: integers, a scalar or one dimension; negative ones count from the end.
      rank: of the tensor that they index.
      candidates: axes that the operand may hold, sorted.
      build: builds the result for axes; all results have one shape.

    Raises:
      Unsupported: there are too many candidates.
    """
    if axes.array is not None:
        known = sorted(int(axis) % rank for axis in axes.array.reshape(-1))
        return build(tuple(known))
    choices = list(candidates)
    if not 0 < len(choices) <= MAX_CHOICES:
        raise Unsupported(f"{len(choices)} choices of axes")
    if len(choices) == 1:
        return build(choices[0])
    index = axes.cast(TensorProto.INT64)
    index = (index < 0).where(index + rank, index)
    bits = index.builder.constant(1 << np.arange(rank, dtype=np.int64)).take(index, 0)
    key = bits if bits.rank == 0 else bits.reduce("ReduceSum", [0])
    results = [build(choice) for choice in choices]
    keyed = list(zip(choices, results, strict=True))

    def chosen(otherwise: Value, pair: tuple[tuple[int, ...], Value]) -> Value:
        choice, result = pair
        return key.equals(sum(1 << axis for axis in choice)).where(result, otherwise)

    return functools.reduce(chosen, keyed[1:], results[0])


def by_value(
    operand: Value, candidates: Sequence[np.ndarray], build: Callable[[np.ndarray], Value]
) -> Value:
    """The result for the elements of an operand.

    Args:
      operand: integers of one dimension.
      candidates: possible elements of the operand.
      build: builds the result for an operand; all results have one shape.

    Raises:
      Unsupported: there are too many candidates.
    """
    if operand.array is not None:
        return build(operand.array)
    if not 0 < len(candidates) <= MAX_CHOICES:
        raise Unsupported(f"{len(candidates)} choices")
    result = build(candidates[0])
    for candidate in candidates[1:]:
        same = operand.equals(candidate.astype(np.int64)).cast(TensorProto.INT32)
        chosen = same.reduce("ReduceMin", [0]).equals(1)
        result = chosen.where(build(candidate), result)
    return result
