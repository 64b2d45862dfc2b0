"""Problem and configuration of attention kernels."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from mlirfuse.kernels.problem import Problem, Record

PORTABLE = "portable"
"""Flash attention in Triton, for every architecture; few queries split the keys (split-KV)."""

OVERLAPPED_SM90 = "overlapped_sm90"
"""Asynchronous matmuls of Hopper that run under the softmax of the block before, in Gluon."""

WARP_SPECIALIZED_SM90 = "warp_specialized_sm90"
"""Producer warps and two consumer warpgroups in ping-pong on Hopper, in Gluon."""


@dataclasses.dataclass(frozen=True, slots=True)
class AttentionProblem(Problem):
    """Attention of all heads of all batches, in f16, bf16 or f32.

    Attributes:
      queries: queries of a head; those of all query heads that are packed with one KV head.
      keys: keys of a head.
      head_size: elements of a query, key or value, the larger where they differ.
      heads: independent problems: batches times KV heads, or query heads that are not packed.
      mask: `none`, `causal` or `general`.
      operand_bits: width of the elements of q, k and v: 16 or 32.
    """

    queries: int
    keys: int
    head_size: int
    heads: int
    mask: str = "none"
    operand_bits: int = 16

    SIZES: ClassVar[tuple[str, ...]] = ("queries", "keys", "head_size", "heads")

    @property
    def family(self) -> str:
        """`attention`."""
        return "attention"


@dataclasses.dataclass(frozen=True, slots=True)
class AttentionConfig(Record):
    """Tiles and strategy of an attention kernel.

    Attributes:
      block_m: queries of a tile.
      block_n: keys of a block.
      num_warps: warps of a CTA that compute; producer warps are extra.
      num_stages: depth of the software pipeline, in blocks of keys and values.
      heads_first: whether tiles of all heads precede the next tile of a head in the grid.
      kernel: `portable`, `overlapped_sm90` or `warp_specialized_sm90`; where the last two cannot
        compute a region, the portable kernel does.
    """

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int
    heads_first: bool = False
    kernel: str = PORTABLE
