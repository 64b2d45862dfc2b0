"""Problem and configuration of attention kernels."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from mlirfuse.kernels.problem import Problem, Record


@dataclasses.dataclass(frozen=True, slots=True)
class AttentionProblem(Problem):
    """Attention of all heads of all batches.

    Attributes:
      queries: queries of a head; those of all query heads that share a key head.
      keys: keys of a head.
      head_size: elements of a head, the larger of those of keys and of values.
      heads: key heads of all batches.
      mask: `none`, `causal`, or `general`.
    """

    queries: int
    keys: int
    head_size: int
    heads: int
    mask: str = "none"

    SIZES: ClassVar[tuple[str, ...]] = ("queries", "keys", "head_size", "heads")

    @property
    def family(self) -> str:
        """`attention`."""
        return "attention"


@dataclasses.dataclass(frozen=True, slots=True)
class AttentionConfig(Record):
    """How CTAs compute attention.

    Attributes:
      block_m: queries of a tile.
      block_n: keys at a time.
      num_warps: warps of a CTA.
      num_stages: depth of the software pipeline, in blocks of keys in shared memory.
      heads_first: whether CTAs of all heads run before those of the next queries.
      warp_specialized: whether matmuls overlap the softmax, on Hopper; where that kernel cannot
        compute the group, the portable one has the same tiles.
    """

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int
    heads_first: bool = False
    warp_specialized: bool = False
