"""Seeded arguments for a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlirfuse.runtime.arrays import numpy_dtype
from mlirfuse.support.signature import DynamicSize, TensorSpec

Array = np.ndarray[Any, np.dtype[Any]]

RANDOM_INTEGERS = 10
"""Exclusive upper bound of random integers: small enough for token ids of any model."""

DYNAMIC_SIZE = 8
"""Size of a dynamic dimension without a known range."""


def random_array(shape: tuple[int, ...], dtype: np.dtype[Any], *, seed: int, index: int) -> Array:
    """Floats and complex numbers of a standard normal distribution, small integers, or booleans.

    Args:
      shape: sizes of the array.
      dtype: element type.
      seed: seed of the random values.
      index: ordinal of the argument; each has values of its own.
    """
    generator = np.random.default_rng([seed, index])
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        return generator.integers(0, RANDOM_INTEGERS, shape).astype(dtype)
    values = np.asarray(generator.standard_normal(shape))
    if np.issubdtype(dtype, np.complexfloating):
        values = values + 1j * generator.standard_normal(shape)
    return values.astype(dtype)


def call_shapes(
    specs: Sequence[TensorSpec], sizes: Sequence[DynamicSize] = ()
) -> list[tuple[int, ...]]:
    """Shapes of the arguments of one call.

    A dynamic dimension is `DYNAMIC_SIZE`, or the nearest size in the model's range.

    Args:
      specs: specs of the arguments.
      sizes: the model's dynamic sizes, with their ranges.
    """
    known = {
        dimension: min(max(DYNAMIC_SIZE, size.min), size.max or max(DYNAMIC_SIZE, size.min))
        for size in sizes
        for dimension in size.dimensions
    }
    return [
        tuple(
            known.get((index, axis), DYNAMIC_SIZE) if n is None else n
            for axis, n in enumerate(spec.shape)
        )
        for index, spec in enumerate(specs)
    ]


def random_inputs(
    specs: Sequence[TensorSpec], seed: int, sizes: Sequence[DynamicSize] = ()
) -> list[Array]:
    """One array for each argument, of the shapes of `call_shapes`."""
    return [
        random_array(shape, numpy_dtype(spec.dtype), seed=seed, index=index)
        for index, (spec, shape) in enumerate(zip(specs, call_shapes(specs, sizes), strict=True))
    ]
