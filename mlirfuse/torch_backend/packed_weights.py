"""Weights that a program is given when it is loaded, so that it packs them once.

They are parameters of IREE, whose initializers pack them. Where PyTorch's version counters say that
one has changed, the program is loaded again with the new values, which packs them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_graph import parameter_name
from mlirfuse.frontends.weights import PARAMETERS
from mlirfuse.support.tensor_bytes import bytes_of

if TYPE_CHECKING:
    import torch

    from mlirfuse.runtime.parameters import Archives

MIN_BYTES = 4096
"""Smallest weight that is packed ahead: packing a smaller one takes less than checking it."""

MAX_CHANGES = 8
"""Changes in a row, with few calls between them, after which weights are arguments again."""

FEW_CALLS = 4
"""Number of calls that pack the weights for less than loading the program again takes."""

Version = tuple[int, int]


def takes(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a weight of matmuls or convolutions that is worth packing ahead."""
    import torch

    kinds = (torch.float32, torch.float16, torch.bfloat16)
    return tensor.dim() >= 2 and tensor.dtype in kinds and tensor.nbytes >= MIN_BYTES


def version(tensor: torch.Tensor) -> Version:
    """The version of a tensor: another one where it was changed in place, or replaced."""
    return tensor.data_ptr(), tensor._version


def versions(tensors: Mapping[int, torch.Tensor]) -> dict[int, Version]:
    """The versions of some tensors by index."""
    return {index: version(tensor) for index, tensor in tensors.items()}


def changed(given: Sequence[Any], known: Mapping[int, Version]) -> bool:
    """Whether one of the arguments has another version than the known one."""
    return any(version(given[index]) != found for index, found in known.items())


def archives(tensors: Mapping[int, torch.Tensor]) -> Archives:
    """The parameters of a program from the tensors by index of the argument, without copies."""
    arrays = {parameter_name(i): bytes_of(t).numpy() for i, t in tensors.items()}
    return {PARAMETERS: arrays}


class Changes:
    """Counts the changes of weights, to tell inference from training."""

    def __init__(self) -> None:
        """There was none."""
        self._in_a_row = 0
        self._calls = 0

    def call(self) -> None:
        """Counts a call without a change."""
        self._calls += 1

    def change(self) -> bool:
        """Counts a change; returns whether weights change too often to be packed ahead."""
        self._in_a_row = self._in_a_row + 1 if self._calls < FEW_CALLS else 1
        self._calls = 0
        return self._in_a_row > MAX_CHANGES
