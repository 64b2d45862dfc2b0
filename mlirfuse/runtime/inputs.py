"""Seeded arguments for a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlirfuse.frontends.imported import TensorSpec
from mlirfuse.runtime.arrays import numpy_dtype

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


def random_inputs(specs: Sequence[TensorSpec], seed: int) -> list[Array]:
    """One array for each argument, of `DYNAMIC_SIZE` where a dimension is dynamic."""
    return [
        random_array(
            tuple(DYNAMIC_SIZE if n is None else n for n in spec.shape),
            numpy_dtype(spec.dtype),
            seed=seed,
            index=index,
        )
        for index, spec in enumerate(specs)
    ]
