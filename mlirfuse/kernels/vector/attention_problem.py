"""An attention as a kernel for CPUs computes it: sizes, operands, mask and results."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.vector.pointwise import Axes
from mlirfuse.kernels.vector.writer import Linear


@dataclasses.dataclass(frozen=True, slots=True)
class AttentionTile:
    """How an attention is blocked.

    Attributes:
      vectors: vectors of queries of a tile.
      keys: keys of a block.
    """

    vectors: int
    keys: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An attention.

    Attributes:
      outer: sizes of the loops over batches and heads.
      groups: how many of them, at their end, are over heads that share keys and values.
      queries: queries of a head.
      keys: keys.
      qk_head: elements of a query and a key.
      v_head: elements of a value.
      operands: q, k and v, or the tensors that they are slices of.
      strides: for each of them the elements from one index of each dimension to the next.
      offsets: for each of them the index of its first element.
      loops: for each of them the loop of each dimension.
      roles: the outer loops, and those of queries, keys, and elements of keys and of values.
      scale: factor of the scores.
      score_body: further scalar ops on a score; None for none.
      mask: addend of the scores, or condition that keeps them; None without one.
      mask_axes: its axes among outer loops, keys and queries.
      causal: whether the mask lets a query see the keys up to its own index.
      value: result of the attention op.
      results: the region's results.
      axes: values that depend on `value`, and it -> axes among outer loops, queries, elements.
    """

    outer: tuple[int, ...]
    groups: int
    queries: int
    keys: int
    qk_head: int
    v_head: int
    operands: tuple[ir.Value, ...]
    strides: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    loops: tuple[tuple[int | None, ...], ...]
    roles: tuple[tuple[int, ...], int, int, int, int]
    scale: float
    score_body: ir.Block | None
    mask: ir.Value | None
    mask_axes: Axes
    causal: bool
    value: ir.Value
    results: tuple[ir.Value, ...]
    axes: dict[ir.Value, Axes]

    @property
    def shared(self) -> tuple[int, ...]:
        """Sizes of the outer loops that keys and values have, too."""
        return self.outer[: len(self.outer) - self.groups]

    @property
    def rows(self) -> int:
        """Queries that share keys and values."""
        return math.prod(self.outer[len(self.shared) :]) * self.queries

    def step(self, operand: int, loop: int) -> int:
        """The distance of an operand's elements of adjacent indices of a loop; 0 without it."""
        loops = self.loops[operand]
        return self.strides[operand][loops.index(loop)] if loop in loops else 0

    def head(self, operand: int, outer: Sequence[Linear]) -> Linear:
        """The offset in an operand of its first element in a batch and head."""
        total = Linear() + self.offsets[operand]
        for loop, index in zip(self.roles[0], outer, strict=True):
            total = total + index * self.step(operand, loop)
        return total
