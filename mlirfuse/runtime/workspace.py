"""Memory of the intermediate values of CUDA graphs, taken from PyTorch's allocator.

All graphs on a GPU share one workspace: they run one after the other. So it is as large as the
largest of them needs, and PyTorch can use the memory again when the last one is gone.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mlirfuse.runtime.graph_memory import MemoryRange
from mlirfuse.runtime.graph_nodes import Node

if TYPE_CHECKING:
    import torch

_ALIGNMENT = 512
"""Bytes to which PyTorch's allocator aligns memory; CUDA's own does to 256."""

_workspaces: weakref.WeakValueDictionary[torch.device, Workspace] = weakref.WeakValueDictionary()


class Workspace:
    """Memory on a GPU for one graph at a time.

    Attributes:
      size: in bytes.
      address: of its first byte; 0 before memory is reserved.
    """

    def __init__(self, device: torch.device) -> None:
        self.size = 0
        self.address = 0
        self._device = device
        self._memory: torch.Tensor | None = None

    @classmethod
    def of(cls, device: torch.device) -> Workspace:
        """The workspace of a GPU; it lives as long as a graph keeps it."""
        found = _workspaces.get(device)
        if found is None:
            found = _workspaces[device] = cls(device)
        return found

    def reserve(self, size: int) -> None:
        """Makes it at least this large, in bytes. It may move, so no graph may be running."""
        import torch

        if size > self.size:
            self._memory = None  # Before the larger one is allocated, which may be all there is.
            self.size = self.address = 0
            self._memory = torch.empty(size, dtype=torch.uint8, device=self._device)
            self.size, self.address = size, self._memory.data_ptr()


class Placement:
    """The place of a graph's intermediate values in a workspace."""

    def __init__(self, workspace: Workspace, ranges: Iterable[MemoryRange]) -> None:
        """Gives each range its place.

        Args:
          workspace: the workspace.
          ranges: memory of intermediate values, where the program had it when it was recorded.
        """
        self._workspace = workspace
        self._offsets: list[tuple[MemoryRange, int]] = []
        self._address: int | None = None
        self.size = 0
        for memory in ranges:
            self._offsets.append((memory, self.size))
            self.size += -(-memory.size // _ALIGNMENT) * _ALIGNMENT
        self._workspace.reserve(self.size)

    def follow(self) -> list[Node]:
        """Moves the ranges to where the workspace is; returns the nodes that this changes."""
        if self._address == self._workspace.address or not self._offsets:
            return []
        self._workspace.reserve(self.size)  # Another graph's larger one may have failed.
        self._address = self._workspace.address
        return [
            node for memory, offset in self._offsets for node in memory.move(self._address + offset)
        ]
