"""Sizes of tensors as numbers of the program."""

from __future__ import annotations

import numpy as np

from mlirfuse.frontends.onnx_repairs.values import Value


def size_of(value: Value, axis: int) -> Value:
    """A size of a tensor, a scalar."""
    shape: Value = value.builder.add("Shape", value)
    return shape.take(axis, 0)


def numbers(count: Value) -> Value:
    """0, 1, ... below a scalar."""
    made: Value = count.builder.add("Range", np.array(0), count, np.array(1))
    return made
