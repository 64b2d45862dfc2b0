"""`stablehlo.select_and_scatter`, the gradient of max pooling, which IREE 3.13 does not lower.

For each position in a window, in order: a strided slice of the padded operand, compared with the
selected elements so far. Then the source goes to the selected positions, spread by a padding
between its elements, and is added up.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from mlirfuse.frontends.jax_repairs.definitions import define

if TYPE_CHECKING:
    from iree.compiler import ir

Array = Any

_LARGEST_WINDOW = 1024
"""Number of elements of a window up to which the slices are written out."""


def select_and_scatter(op: ir.Operation) -> None:
    """Replaces those that select by a comparison and add."""
    from iree.compiler import ir

    select, scatter = ([o.operation for o in r.blocks[0].operations] for r in op.regions)
    if [o.name for o in select] != ["stablehlo.compare", "stablehlo.return"]:
        return
    if [o.name for o in scatter] != ["stablehlo.add", "stablehlo.return"]:
        return
    direction = str(select[0].attributes["comparison_direction"])
    larger, either = "G" in direction, "E>" in direction
    rank = ir.RankedTensorType(op.operands[0].type).rank
    window = _integers(op, "window_dimensions", [1] * rank)
    strides = _integers(op, "window_strides", [1] * rank)
    padding = np.asarray(_integers(op, "padding", [0] * (2 * rank))).reshape(rank, 2)
    if np.prod(window) > _LARGEST_WINDOW:
        return

    def function(x: Array, source: Array, init: Array) -> Array:
        return _select_and_scatter(x, source, init, window, strides, padding, larger, either)

    define(op, function)


def _integers(op: ir.Operation, name: str, default: list[int]) -> list[int]:
    from iree.compiler import ir

    if name not in op.attributes:
        return default
    value = op.attributes[name]
    if isinstance(value, ir.DenseI64ArrayAttr):
        return list(value)
    return [int(v) for v in np.asarray(ir.DenseIntElementsAttr(value)).reshape(-1)]


def _select_and_scatter(
    x: Array,
    source: Array,
    init: Array,
    window: list[int],
    strides: list[int],
    padding: Any,
    larger: bool,
    either: bool,
) -> Array:
    import jax.numpy as jnp
    from jax import lax

    amounts = [(int(low), int(high), 0) for low, high in padding]
    padded = lax.pad(x, jnp.zeros((), x.dtype), amounts)
    inside = lax.pad(jnp.ones(x.shape, bool), jnp.zeros((), bool), amounts)
    positions = list(itertools.product(*(range(size) for size in window)))

    def taken(a: Array, position: tuple[int, ...]) -> Array:
        stops = [
            p + (n - 1) * s + 1 for p, n, s in zip(position, source.shape, strides, strict=True)
        ]
        return lax.slice(a, position, stops, strides)

    best = taken(padded, positions[0])
    found = taken(inside, positions[0])
    chosen = jnp.where(found, 0, -1)
    for number, position in enumerate(positions[1:], 1):
        candidate, exists = taken(padded, position), taken(inside, position)
        compare = (lax.ge if either else lax.gt) if larger else (lax.le if either else lax.lt)
        keeps = found & compare(best, candidate) | ~exists
        best, chosen = jnp.where(keeps, best, candidate), jnp.where(keeps, chosen, number)
        found = found | exists
    result = jnp.zeros(padded.shape, source.dtype)
    zero = jnp.zeros((), source.dtype)
    for number, position in enumerate(positions):
        spread = [
            (p, full - p - (n - 1) * s - 1, s - 1)
            for p, full, n, s in zip(position, padded.shape, source.shape, strides, strict=True)
        ]
        result = result + lax.pad(jnp.where(chosen == number, source, zero), zero, spread)
    starts = [int(low) for low, _ in padding]
    stops = [start + size for start, size in zip(starts, x.shape, strict=True)]
    return lax.slice(result, starts, stops) + init
