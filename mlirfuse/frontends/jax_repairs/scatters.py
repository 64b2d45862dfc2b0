"""`stablehlo.scatter` in the one form that IREE 3.13 lowers right.

The indexed dimensions lead, each row of indices names one element of them, and no index is out of
bounds: IREE refuses other windows and writes outside of the tensor's memory. StableHLO ignores
windows that do not fit. Here they become neutral elements of the combination, or, where elements
are replaced, copies of the last window that fits. For another combination, as the larger of two
complex numbers, they are written to elements that are added to the operand and cut off again.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.jax_repairs.definitions import define, traced

if TYPE_CHECKING:
    from iree.compiler import ir

Array = Any

_REPLACE = "replace"

_COMBINATIONS = {
    "stablehlo.add": "add",
    "stablehlo.subtract": "sub",
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
    """Replaces scatters of one operand."""
    if len(op.operands) != 3:
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
    combination = _combination(op)
    if combination is None:
        _combine_freely(op, numbers)
    else:
        define(op, functools.partial(_scatter, numbers=numbers, combination=combination))


def _combination(op: ir.Operation) -> str | None:
    """`replace`, `add`, `sub`, `mul`, `min` or `max`; None for others."""
    block = op.regions[0].blocks[0]
    body = [each.operation for each in block.operations]
    arguments = list(block.arguments)
    if len(body) == 1 and list(body[0].operands) == arguments[1:]:
        return _REPLACE
    if len(body) != 2 or set(body[0].operands) != set(arguments):
        return None
    if body[0].name != "stablehlo.subtract" or list(body[0].operands) == arguments:
        return _COMBINATIONS.get(body[0].name)
    return None


def _integers(text: str, name: str) -> tuple[int, ...]:
    _, found, rest = text.partition(f"{name} = ")
    if not found:
        return ()
    inner = rest[1 : rest.index("]")] if rest.startswith("[") else rest.split(",")[0].rstrip(">")
    return tuple(int(part) for part in inner.split(",") if part.strip())


@dataclasses.dataclass(frozen=True)
class _Rows:
    """A scatter whose indexed dimensions lead.

    Attributes:
      operand: the operand, transposed.
      places: an index of the indexed dimensions for each row of `values`.
      values: the updates.
      fits: whether the window that a row is from is inside of the operand.
      order: the operand's own dimensions, in the order of `operand`.
    """

    operand: Array
    places: Array
    values: Array
    fits: Array
    order: tuple[int, ...]

    @property
    def indexed(self) -> int:
        """Number of indexed dimensions."""
        return int(self.places.shape[1])

    def restored(self, result: Array) -> Array:
        """A result, with the dimensions in the operand's own order."""
        return result.transpose([self.order.index(d) for d in range(len(self.order))])


def _scatter(
    operand: Array, indices: Array, updates: Array, *, numbers: _Numbers, combination: str
) -> Array:
    from jax import lax

    rows = _leading(operand, indices, updates, numbers)
    places, values = _inside(rows.operand, rows.places, rows.values, rows.fits, combination)
    dimensions = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(1, values.ndim)),
        inserted_window_dims=tuple(range(rows.indexed)),
        scatter_dims_to_operand_dims=tuple(range(rows.indexed)),
    )
    apply: Callable[..., Array] = (
        lax.scatter if combination == _REPLACE else getattr(lax, f"scatter_{combination}")
    )
    result = apply(rows.operand, places, values, dimensions, mode="promise_in_bounds")
    return rows.restored(result)


def _combine_freely(op: ir.Operation, numbers: _Numbers) -> None:
    """Keeps the combination of a scatter; IREE for CUDA crashes on unique indices of most."""
    from iree.compiler import ir

    made: list[_Rows] = []

    def before(operand: Array, indices: Array, updates: Array) -> tuple[Array, Array, Array]:
        import jax.numpy as jnp

        rows = _leading(operand, indices, updates, numbers)
        made.append(rows)
        widths = [(0, int(d == 0)) for d in range(operand.ndim)]
        added = jnp.zeros_like(rows.places[:1]).at[0, 0].set(rows.operand.shape[0])
        places = jnp.where(rows.fits[:, None], rows.places, added)
        return jnp.pad(rows.operand, widths), places, rows.values

    operands = traced(op, before, list(op.operands))
    if operands is None:
        return
    (rows,) = made
    indexed = ", ".join(map(str, range(rows.indexed)))
    windows = ", ".join(map(str, range(1, rows.values.ndim)))
    dimensions = (
        f"#stablehlo.scatter<update_window_dims = [{windows}], inserted_window_dims = [{indexed}],"
        f" scatter_dims_to_operand_dims = [{indexed}], index_vector_dim = 1>"
    )
    with op.location, ir.InsertionPoint(op):
        new = ir.Operation.create(
            op.name,
            [operands[0].type],
            operands,
            {
                "scatter_dimension_numbers": ir.Attribute.parse(dimensions),
                "indices_are_sorted": ir.BoolAttr.get(False),
                "unique_indices": ir.BoolAttr.get(False),
            },
            regions=1,
        )
    op.regions[0].blocks[0].append_to(new.regions[0])
    results = traced(op, lambda found: rows.restored(found[:-1]), [new.results[0]])
    assert results is not None
    op.results[0].replace_all_uses_with(results[0])
    op.erase()


def _leading(operand: Array, indices: Array, updates: Array, numbers: _Numbers) -> _Rows:
    """One row for each element of the dimensions that are not updated as a whole."""
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
    order = (*partial, *whole)
    values = windows.transpose([0, *(d + 1 for d in order)])
    values = values.reshape(len(fits), *(sizes[d] for d in whole))
    return _Rows(operand.transpose(order), places, values, fits, order)


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

    if combination in ("add", "sub", "mul"):
        # Of a zero, 0.0 subtracted and -0.0 added keep the sign.
        zero = -0.0 if combination == "add" and jnp.issubdtype(dtype, jnp.floating) else 0
        return 1 if combination == "mul" else zero
    if jnp.issubdtype(dtype, jnp.bool_):
        return combination == "min"
    if jnp.issubdtype(dtype, jnp.integer):
        limits = jnp.iinfo(dtype)
        return limits.max if combination == "min" else limits.min
    return jnp.inf if combination == "min" else -jnp.inf
