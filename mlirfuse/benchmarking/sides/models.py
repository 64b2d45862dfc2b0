"""A model as the processes of `mlirfuse-bench` open it: the framework's own, with arguments."""

from __future__ import annotations

import dataclasses
import os
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlirfuse import frontends
from mlirfuse.benchmarking.sides import JAX, MLIR, ONNX, TORCH
from mlirfuse.core import UsageError
from mlirfuse.runtime import arrays, pytree
from mlirfuse.runtime.inputs import Array
from mlirfuse.support import shapes

SEED = 0
"""Seed of Python's, NumPy's and PyTorch's generators when a function that makes a model is run.
Each process runs it once, and all have to get the same weights."""


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """A model.

    Attributes:
      kind: `torch`, `jax`, `onnx` or `mlir`.
      source: a path, or an object of the framework, as `mlirfuse.compile` takes it.
      example: its own example inputs, as `mlirfuse.compile` takes them; None for none.
      dynamic_shapes: as `mlirfuse.compile` takes them.
    """

    kind: str
    source: Any
    example: Any = None
    dynamic_shapes: Any = None

    def call_arguments(self, flat: Sequence[Array]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call in the model's own form.

        Args:
          flat: the tensors of the call, in order.
        """
        values = of_kind(self.kind, flat)
        tree = _pytrees(self.kind)
        given = _arguments(self.kind, self.source, self.example)
        if tree is None or given is None:
            return tuple(values), {}
        leaves, structure = tree.tree_flatten(given)
        held = [index for index, leaf in enumerate(leaves) if hasattr(leaf, "shape")]
        if len(held) != len(values):
            raise UsageError(
                f"the program takes {len(values)} tensors of the model's {len(held)}, so"
                " other systems cannot be given the same"
            )
        for index, value in zip(held, values, strict=True):
            leaves[index] = value
        args, kwargs = (
            tree.tree_unflatten(leaves, structure)
            if self.kind == TORCH
            else tree.tree_unflatten(structure, leaves)
        )
        return tuple(args), dict(kwargs)


def open_model(name: str, sizes: str | None = None) -> Model:
    """Opens MODEL of a command line.

    Args:
      name: MODEL.
      sizes: the value of `--shapes`, if it is given.

    Raises:
      UsageError, ImportFailedError: as `mlirfuse.compile`.
    """
    if frontends.is_reference(name):
        if sizes is not None:
            raise UsageError(f"{name} returns its own example inputs; --shapes is for .onnx files")
        _seed()
        source, example, *rest = frontends.call_reference(name)
        if isinstance(source, str | os.PathLike):
            return dataclasses.replace(open_model(os.fspath(source)), example=example)
        kind = frontends.kind_of_object(source, example)
        return Model(kind, source, example, rest[0] if rest else None)
    path = Path(name)
    kind = frontends.kind_of_file(path)
    if kind != ONNX and sizes is not None:
        raise UsageError(f"{path} has the sizes of its arguments; --shapes is for .onnx files")
    if kind == TORCH:
        from mlirfuse.frontends.torch_archive import load_program

        return Model(kind, load_program(path))
    if kind == JAX:
        import jax.export

        return Model(kind, jax.export.deserialize(bytearray(path.read_bytes())))
    return Model(kind, path, shapes.example_inputs(sizes))


def own_arguments(model: Model) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The example inputs of a model; None where it has none, or shapes alone."""
    given = _arguments(model.kind, model.source, model.example)
    tree = _pytrees(model.kind)
    if given is None or tree is None:
        return None
    leaves = [leaf for leaf in tree.tree_leaves(given) if hasattr(leaf, "shape")]
    return given if all(arrays.kind_of(leaf) for leaf in leaves) else None


def of_kind(kind: str, values: Sequence[Array]) -> list[Any]:
    """Arrays of numpy as those of the kind's framework."""
    if kind == TORCH:
        import torch  # noqa: F401  torch_of finds it

        return [arrays.torch_of(np.array(value)) for value in values]
    if kind == JAX:
        import jax.numpy as jnp

        return [jnp.asarray(value) for value in values]
    return [np.array(value) for value in values]


def tensors_of(kind: str, results: Any) -> list[Array]:
    """The tensors in the results of a model, in order, as arrays of numpy."""
    tree = _pytrees(kind)
    leaves = pytree.leaves(results) if tree is None else tree.tree_leaves(results)
    return [
        np.array(arrays.numpy_of(leaf.detach() if hasattr(leaf, "detach") else leaf))
        for leaf in leaves
        if leaf is not None
    ]


def _seed() -> None:
    random.seed(SEED)
    np.random.seed(SEED)
    import importlib.util

    if importlib.util.find_spec("torch") is not None:
        import torch

        torch.manual_seed(SEED)


def _pytrees(kind: str) -> Any:
    """The framework's module of nested containers; None for kinds without."""
    if kind in (ONNX, MLIR):
        return None
    if kind == TORCH:
        from torch.utils import _pytree

        return _pytree
    import jax

    return jax.tree_util


def _arguments(
    kind: str, source: Any, example: Any
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    if example is None and kind == TORCH:
        if not isinstance(source, sys.modules["torch"].export.ExportedProgram):
            return None
        found = source.example_inputs
        return None if found is None else (tuple(found[0]), dict(found[1]))
    if example is None:
        return None
    if isinstance(example, Mapping):
        return (), dict(example)
    if isinstance(example, tuple | list):
        return tuple(example), {}
    return (example,), {}
