"""`stablehlo.scatter` in the one form that IREE 3.13 lowers right.

The indexed dimensions lead, each row of indices names one element of them, and no index is out of
bounds: IREE refuses other windows and writes outside of the tensor's memory. StableHLO ignores
windows that do not fit. Here they become neutral elements of the combination, or, where elements
are replaced, copies of the last window that fits.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.jax_repairs.definitions import define

if TYPE_CHECKING:
    from iree.compiler import ir

Array = Any

_REPLACE = "replace"

_COMBINATIONS = {
    "stablehlo.add": "add",
    "stablehlo.multiply": "mul",
    "stablehlo.minimum": "min",
    "stablehlo.maximum": "max",
}
"""Ops of a region -> the suffix of `lax.scatter_*`."""


@dataclasses.dataclass(frozen=True)
class _Numbers:
    """`#stablehlo.scatter`: the dimension numbers."""

    window: tuple[int, ...]
    inserted: tuple[int, ...]
    mapped: tuple[int, ...]
    index_vector: int


def scatter(op: ir.Operation) -> None:
    """Replaces scatters of one operand that combine by one op."""
    from iree.compiler import ir

    combination = _combination(op)
    if len(op.operands) != 3 or combination is None:
        return
    text = str(op.attributes["scatter_dimension_numbers"])
    if "batching" in text:
        return
    numbers = _Numbers(
        _integers(text, "update_window_dims"),
        _integers(text, "inserted_window_dims"),
        _integers(text, "scatter_dims_to_operand_dims"),
        (_integers(text, "index_vector_dim") or (0,))[0],
    )
    element = ir.RankedTensorType(op.operands[0].type).element_type
    if combination in ("min", "max") and isinstance(element, ir.ComplexType):
        return
    define(op, functools.partial(_scatter, numbers=numbers, combination=combination))


def _combination(op: ir.Operation) -> str | None:
    """`replace`, `add`, `mul`, `min` or `max`; None for others."""
    block = op.regions[0].blocks[0]
    body = [each.operation for each in block.operations]
    arguments = list(block.arguments)
    if len(body) == 1 and list(body[0].operands) == arguments[1:]:
        return _REPLACE
    if len(body) == 2 and set(body[0].operands) == set(arguments):
        return _COMBINATIONS.get(body[0].name)
    return None


def _integers(text: str, name: str) -> tuple[int, ...]:
    _, found, rest = text.partition(f"{name} = ")
    if not found:
        return ()
    inner = rest[1 : rest.index("]")] if rest.startswith("[") else rest.split(",")[0].rstrip(">")
    return tuple(int(part) for part in inner.split(",") if part.strip())


def _scatter(
    operand: Array, indices: Array, updates: Array, *, numbers: _Numbers, combination: str
) -> Array:
    import jax.numpy as jnp
    from jax import lax

    rank = operand.ndim
    rows, windows = _rows(operand, indices, updates, numbers)
    sizes = windows.shape[1:]
    whole = [d for d in range(rank) if sizes[d] == operand.shape[d]]
    partial = [d for d in range(rank) if d not in whole] or [0]
    whole = [d for d in range(rank) if d not in partial]
    starts = [
        rows[:, numbers.mapped.index(d)]
        if d in numbers.mapped
        else jnp.zeros(len(rows), rows.dtype)
        for d in range(rank)
    ]
    fits = functools.reduce(
        jnp.logical_and,
        [(starts[d] >= 0) & (starts[d] <= operand.shape[d] - sizes[d]) for d in range(rank)],
    )
    # One row for each element of the partial dimensions.
    grid = (len(rows), *(sizes[d] for d in partial))
    places = jnp.stack(
        [
            jnp.broadcast_to(starts[d].reshape(-1, *[1] * len(partial)), grid).astype(jnp.int32)
            + lax.broadcasted_iota(jnp.int32, grid, 1 + axis)
            for axis, d in enumerate(partial)
        ],
        -1,
    ).reshape(-1, len(partial))
    fits = jnp.broadcast_to(fits.reshape(-1, *[1] * len(partial)), grid).reshape(-1)
    order = [0, *(d + 1 for d in (*partial, *whole))]
    values = windows.transpose(order).reshape(len(fits), *(sizes[d] for d in whole))
    operand = operand.transpose((*partial, *whole))
    places, values = _inside(operand, places, values, fits, combination)
    dimensions = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(1, 1 + len(whole))),
        inserted_window_dims=tuple(range(len(partial))),
        scatter_dims_to_operand_dims=tuple(range(len(partial))),
    )
    apply: Callable[..., Array] = (
        lax.scatter if combination == _REPLACE else getattr(lax, f"scatter_{combination}")
    )
    result = apply(operand, places, values, dimensions, mode="promise_in_bounds")
    back = [(*partial, *whole).index(d) for d in range(rank)]
    return result.transpose(back)


def _rows(operand: Array, indices: Array, updates: Array, numbers: _Numbers) -> tuple[Array, Array]:
    """Start indices as rows, and for each row a window of the operand's rank."""
    import jax.numpy as jnp

    if numbers.index_vector == indices.ndim:
        indices = indices[..., None]
    rows = jnp.moveaxis(indices, numbers.index_vector, -1)
    count = math.prod(rows.shape[:-1])
    rows = rows.reshape(count, rows.shape[-1])
    batch = [d for d in range(updates.ndim) if d not in numbers.window]
    updates = updates.transpose((*batch, *numbers.window))
    sizes = iter(updates.shape[len(batch) :])
    shape = [1 if d in numbers.inserted else next(sizes) for d in range(operand.ndim)]
    return rows, updates.reshape(count, *shape)


def _inside(
    operand: Array, places: Array, values: Array, fits: Array, combination: str
) -> tuple[Array, Array]:
    """Places and values of which all are inside of the operand."""
    import jax.numpy as jnp
    from jax import lax

    mask = fits.reshape(-1, *[1] * (values.ndim - 1))
    if combination != _REPLACE:
        neutral = jnp.asarray(_neutral(values.dtype, combination), values.dtype)
        return jnp.where(fits[:, None], places, 0), jnp.where(mask, values, neutral)
    last = jnp.max(jnp.where(fits, lax.iota(jnp.int32, len(fits)), -1))
    place = lax.dynamic_index_in_dim(places, jnp.maximum(last, 0), 0)
    value = lax.dynamic_index_in_dim(values, jnp.maximum(last, 0), 0)
    first = operand[(0,) * places.shape[1]][None]
    place, value = jnp.where(last < 0, 0, place), jnp.where(last < 0, first, value)
    return jnp.where(fits[:, None], places, place), jnp.where(mask, values, value)


def _neutral(dtype: Any, combination: str) -> Any:
    """The element that changes nothing."""
    import jax.numpy as jnp

    if combination in ("add", "mul"):
        # -0.0 added to a zero keeps its sign.
        zero = -0.0 if jnp.issubdtype(dtype, jnp.floating) else 0
        return 1 if combination == "mul" else zero
    if jnp.issubdtype(dtype, jnp.bool_):
        return combination == "min"
    if jnp.issubdtype(dtype, jnp.integer):
        limits = jnp.iinfo(dtype)
        return limits.max if combination == "min" else limits.min
    return jnp.inf if combination == "min" else -jnp.inf
