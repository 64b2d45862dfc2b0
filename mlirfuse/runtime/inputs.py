"""Seeded arguments for a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlirfuse.runtime.arrays import numpy_dtype
from mlirfuse.support.signature import DynamicSize, TensorSpec

Array = np.ndarray[Any, np.dtype[Any]]

RANDOM_INTEGERS = 10
"""Random integers are from 0 up to this, exclusive: small enough to be token ids of any model."""

DYNAMIC_SIZE = 8
"""What a dynamic dimension is where nobody says."""


def random_array(shape: tuple[int, ...], dtype: np.dtype[Any], *, seed: int, index: int) -> Array:
    """Floats of a standard normal distribution, small integers, or truth values.

    Args:
      shape: sizes.
      dtype: element type.
      seed: of the random values.
      index: position of the argument; each has values of its own.
    """
    generator = np.random.default_rng([seed, index])
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        return generator.integers(0, RANDOM_INTEGERS, shape).astype(dtype)
    return np.asarray(generator.standard_normal(shape)).astype(dtype)


def call_shapes(
    specs: Sequence[TensorSpec], sizes: Sequence[DynamicSize] = ()
) -> list[tuple[int, ...]]:
    """Shapes of the arguments of one call.

    A dynamic dimension is `DYNAMIC_SIZE`, or what is nearest to it of what the model takes.

    Args:
      specs: of the arguments.
      sizes: what the model says of dynamic sizes.
    """
    known = {
        place: min(max(DYNAMIC_SIZE, size.least), size.most or max(DYNAMIC_SIZE, size.least))
        for size in sizes
        for place in size.places
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
