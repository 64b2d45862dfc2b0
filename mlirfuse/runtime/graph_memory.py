"""Memory that a CUDA graph gets anew at each launch: of its arguments and of its results."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.runtime.arrays import ALIGNMENT
from mlirfuse.runtime.graph_nodes import Node

if TYPE_CHECKING:
    import torch


@dataclasses.dataclass(slots=True)
class MemoryRange:
    """Memory that moves from launch to launch: an argument's, or that of results that share it.

    Attributes:
      start: first address when the call was recorded.
      size: in bytes.
      current: first address that the nodes hold now.
      uses: node, operand, and offset of each address in the range, in bytes.
    """

    start: int
    size: int
    current: int = dataclasses.field(init=False)
    uses: list[tuple[Node, int, int]] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        """Nothing has moved yet."""
        self.current = self.start

    @classmethod
    def of(cls, tensor: torch.Tensor) -> MemoryRange:
        """The bytes of a tensor without gaps."""
        return cls(tensor.data_ptr(), tensor.nbytes)

    def contains(self, address: int) -> bool:
        """Whether an address lies in the range."""
        return self.start <= address < self.start + self.size

    def overlaps(self, other: MemoryRange) -> bool:
        """Whether the two share a byte, or one is empty and lies in the other."""
        return self.contains(other.start) or other.contains(self.start)

    def move(self, address: int) -> list[Node]:
        """Moves the range; returns the nodes that this changes."""
        if address == self.current:
            return []
        self.current = address
        for node, operand, offset in self.uses:
            node.patch(operand, address + offset)
        return [node for node, _, _ in self.uses]


@dataclasses.dataclass(frozen=True, slots=True)
class ResultView:
    """The part of a memory range that holds a result, or a constant of the program.

    Attributes:
      range: index of the memory range; None for a constant.
      offset: first byte in the range.
      nbytes: size in bytes.
      dtype: PyTorch's element type.
      shape: sizes.
      copied: whether the caller gets a copy, since the result lies in an argument, overlaps another
        result or is a constant.
      constant: memory that the program keeps; None for results of other kinds.
    """

    range: int | None
    offset: int
    nbytes: int
    dtype: Any
    shape: tuple[int, ...]
    copied: bool
    constant: torch.Tensor | None = None

    def fits(self, out: Any, taken: Sequence[torch.Tensor]) -> bool:
        """Whether the program can write the result into an array of the caller.

        Args:
          out: the array.
          taken: tensors that it must not overlap.
        """
        if not (
            getattr(out, "is_cuda", False)
            and (out.dtype, tuple(out.shape)) == (self.dtype, self.shape)
            and out.is_contiguous()
            and out.data_ptr() % ALIGNMENT == 0
            and out.device == taken[0].device
        ):
            return False
        memory = MemoryRange.of(out)
        return not any(memory.overlaps(MemoryRange.of(tensor)) for tensor in taken)

    def view(self, memory: Sequence[torch.Tensor]) -> torch.Tensor:
        """The result, where a launch has it.

        Args:
          memory: tensor of each range.
        """
        found = self.constant
        if self.range is not None:
            raw = memory[self.range].detach().view(-1).view(sys.modules["torch"].uint8)
            part = raw[self.offset : self.offset + self.nbytes]
            found = part.view(self.dtype).view(self.shape)
        assert found is not None
        return found.clone() if self.copied else found


def locate_results(
    results: Sequence[torch.Tensor], ranges: list[MemoryRange], allocated: Sequence[MemoryRange]
) -> list[ResultView]:
    """Finds the memory range of each result.

    Args:
      results: of the recorded call.
      ranges: of the arguments; those of `allocated` that hold results are appended, and an empty
        one for each empty result.
      allocated: memory that the call allocated.
    """
    located: list[ResultView] = []
    arguments = len(ranges)
    seen: list[MemoryRange] = []
    for tensor in results:
        memory = MemoryRange.of(tensor)
        index = next((n for n, r in enumerate(ranges) if r.contains(memory.start)), None)
        if index is None:
            empty = None if memory.size else MemoryRange(memory.start, 0)
            found = empty or next((r for r in allocated if r.contains(memory.start)), None)
            if found is not None:
                index = len(ranges)
                ranges.append(found)
        constant = tensor if index is None else None
        copied = index is None or index < arguments or any(map(memory.overlaps, seen))
        seen.append(memory)
        offset = 0 if index is None else memory.start - ranges[index].start
        located.append(
            ResultView(
                index, offset, memory.size, tensor.dtype, tuple(tensor.shape), copied, constant
            )
        )
    return located
