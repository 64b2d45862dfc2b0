"""The program of a plan: linalg on tensors with one function, whose arguments are the plan's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlirfuse.fusion_plan import (
    computed_windows,
    image_ops,
    pointwise_ops,
    row_ops,
    training_ops,
)
from mlirfuse.fusion_plan.chain import Chain
from mlirfuse.fusion_plan.mlir_text import Module, Tensor
from mlirfuse.fusion_plan.ops import Derived, Op
from mlirfuse.fusion_plan.tensors import TensorSpec


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A plan's program.

    Attributes:
      text: MLIR.
      arguments: index of the op and name of each argument after the input, in order.
      results: index of the op and name of each result after the output, in order.
    """

    text: str
    arguments: tuple[tuple[int, str], ...]
    results: tuple[tuple[int, str], ...]


Writer = Callable[[Chain, Any, TensorSpec, Mapping[str, Tensor]], Mapping[str, Tensor] | None]
"""Writes an op: from the chain, the op, its input and its arguments to its further results."""

WRITERS: Mapping[str, Writer] = {
    **pointwise_ops.WRITERS,
    **image_ops.WRITERS,
    **row_ops.WRITERS,
    **training_ops.WRITERS,
}

COMPUTED: Mapping[str, Writer] = {**WRITERS, **computed_windows.WRITERS}
"""Writers of which those of windows compute the positions that they read."""


def write(
    given: TensorSpec, chain_of: Sequence[tuple[Op, Derived]], *, computes_positions: bool = False
) -> Program:
    """The program of ops with their tensors.

    Args:
      given: the first op's input.
      chain_of: the ops with their tensors.
      computes_positions: whether windows compute the positions that they read, in place of reading
        a padded image; transposed convolutions need it.
    """
    writers = COMPUTED if computes_positions else WRITERS
    module = Module()
    x = Tensor("%input", given.shape, given.dtype)
    tensors = [x]
    arguments: list[tuple[int, str]] = []
    results: list[tuple[int, str]] = []
    values: list[Tensor] = []
    chain = Chain(module, x)
    current = given
    for index, (op, derived) in enumerate(chain_of):
        own = {}
        for name, spec in derived.arguments.items():
            own[name] = Tensor(f"%op{index}_{name}", spec.shape, spec.dtype)
            tensors.append(own[name])
            arguments.append((index, name))
        extra = writers[op.kind](chain, op, current, own) or {}
        for name in derived.results:
            results.append((index, name))
            values.append(extra[name])
        current = derived.output
    output = chain.flush(current.dtype, force=True)
    text = module.text(tensors, [output, *values])
    return Program(text, tuple(arguments), tuple(results))
