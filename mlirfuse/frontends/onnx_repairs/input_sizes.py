"""Sizes that a model leaves open, from example inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from mlirfuse.core import UsageError, nearest
from mlirfuse.frontends.onnx_repairs.values import numpy_type


def fix(model: onnx.ModelProto, example_inputs: Any) -> dict[str, np.ndarray]:
    """Gives the inputs of a model the shapes of example inputs, and forgets shapes inferred before.

    Args:
      model: the model; changed.
      example_inputs: a sequence of arrays, one for each input, or a mapping of some by name. An
        array is anything with a `shape`; a number of Python is a constant in the place of an input.

    Returns:
      The inputs that are constants now, by name.

    Raises:
      UsageError: a name is not that of an input, or a shape does not fit.
    """
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {v.name: v for v in model.graph.input if v.name not in constants}
    numbers = {}
    for name, example in _by_name(example_inputs, list(inputs)).items():
        tensor = inputs[name].type.tensor_type
        is_number = isinstance(example, bool | int | float)
        _fix_shape(name, tensor.shape, () if is_number else tuple(example.shape))
        if is_number:
            numbers[name] = np.array(example, numpy_type(tensor.elem_type))
            model.graph.initializer.append(numpy_helper.from_array(numbers[name], name))
            model.graph.input.remove(inputs[name])
    _forget(model.graph)
    for value in model.graph.output:
        for size in value.type.tensor_type.shape.dim:
            if not size.HasField("dim_value"):
                size.Clear()
    return numbers


def _by_name(example_inputs: Any, names: Sequence[str]) -> dict[str, Any]:
    if isinstance(example_inputs, Mapping):
        for name in example_inputs:
            if name not in names:
                raise UsageError(f"the model has no input '{name}'{nearest(name, names)}")
        return dict(example_inputs)
    if not isinstance(example_inputs, list | tuple):
        example_inputs = (example_inputs,)
    if len(example_inputs) != len(names):
        raise UsageError(
            f"{len(example_inputs)} example inputs for a model that has {len(names)}:"
            f" {', '.join(names)}"
        )
    return dict(zip(names, example_inputs, strict=True))


def _fix_shape(name: str, shape: onnx.TensorShapeProto, sizes: tuple[int, ...]) -> None:
    known = [d.dim_value if d.dim_value > 0 else None for d in shape.dim]
    fits = len(known) == len(sizes) and all(
        k in (None, size) for k, size in zip(known, sizes, strict=True)
    )
    if not fits:
        wanted = "x".join("?" if k is None else str(k) for k in known)
        raise UsageError(
            f"the example of input '{name}' has the shape {'x'.join(map(str, sizes))}; {wanted}"
            " would be accepted"
        )
    for dimension, size in zip(shape.dim, sizes, strict=True):
        dimension.dim_value = size


def _forget(graph: onnx.GraphProto) -> None:
    """Removes the types of inner values, which may hold the open sizes."""
    del graph.value_info[:]
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _forget(inner)
