"""Problem and configuration of matmul kernels."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Self

from mlirfuse.kernels.problem import Problem, Record

DEFAULT_DYNAMIC_M = 512
"""The M that a dynamic M counts as: it may be one, or thousands."""

MIN_DOT_M = 16
"""Smallest M of a tile of `tl.dot`."""

MIN_STREAMED_M = 8
"""The same where weights are streamed: M is then the N of a matrix instruction."""

MAX_STREAMED_M = 128
"""The M up to which streaming beats dequantization into shared memory for large tiles."""

LINE_BYTES = 64
"""Bytes of streamed weights along K that adjacent threads load at once."""

VECTOR_BYTES = 16
"""Bytes of the widest load of a thread."""

MAX_BUCKETED_M = 1024
"""The M up to which a configuration is chosen by the next power of two."""


@dataclasses.dataclass(frozen=True, slots=True)
class MatmulProblem(Problem):
    """A matmul `C[batch, m, n] = A[batch, m, k] * B[batch, k, n]` with its prologue.

    Attributes:
      m: size along M.
      n: size along N.
      k: size along K, the contracted dimension.
      batch: matmuls, those of several results that share A among them.
      operand_bits: width of the operands' elements: 16, 32, 64, or 8 for i8 with i32 accumulators.
      a_k_contiguous: whether elements of A along K are contiguous in memory.
      b_k_contiguous: the same of B.
      accumulators: results that one tile accumulates together, for gated units.
      prologue: whether operands are computed elementwise in the loop over K.
      weight_bits: width of the narrowest operand of the prologue, where it is below 16; else 0.
      grouped: whether K is in groups that share a scale.
      whole_rows: whether a tile has whole rows of the result, which its epilogue reduces.
      wide_epilogue: whether the ops behind the products need half of the registers; known where a
        configuration is computed for a region.
      epilogue: instructions of those ops for each element; known there, too.
      batch_innermost: of `ab`, the operands whose elements along the batch are contiguous: each
        matrix of such a one has one element of a sector.
      reads_of_a: elements of A of the matmul for each one in memory: the taps of an implicit GEMM.
    """

    m: int
    n: int
    k: int
    batch: int
    operand_bits: int = 16
    a_k_contiguous: bool = True
    b_k_contiguous: bool = True
    accumulators: int = 1
    prologue: bool = False
    weight_bits: int = 0
    grouped: bool = False
    whole_rows: bool = False
    wide_epilogue: bool = False
    epilogue: int = 0
    batch_innermost: str = ""
    reads_of_a: int = 1

    SIZES: ClassVar[tuple[str, ...]] = ("m", "n", "k", "batch")

    @property
    def family(self) -> str:
        """`matmul`."""
        return "matmul"

    @property
    def streamed_bits(self) -> int:
        """Bits of weights in the layout of kernels that stream them to registers; 0 for others."""
        contiguous = self.a_k_contiguous and self.b_k_contiguous and self.accumulators == 1
        contiguous = contiguous and self.operand_bits == 16
        return self.weight_bits if contiguous and self.weight_bits in (4, 8) else 0

    @property
    def is_plain(self) -> bool:
        """Whether the operands are floating-point numbers in memory, of one result."""
        return self.operand_bits in (16, 32) and not self.prologue and self.accumulators == 1

    @property
    def splits_k(self) -> bool:
        """Whether CTAs may have parts of K."""
        return self.is_plain and not self.whole_rows


def bucket_m(m: int, *, streamed: bool) -> int:
    """The M that configurations are chosen by, where near ones have the same tiles.

    Args:
      m: size along M.
      streamed: whether weights are streamed; streaming kernels have other tiles for a small M.
    """
    if m == 1 or m > MAX_BUCKETED_M:
        return m
    if m < MIN_DOT_M:
        return MIN_STREAMED_M if streamed and m <= MIN_STREAMED_M else MIN_DOT_M
    return m if streamed or m == MIN_DOT_M else 1 << (m - 1).bit_length()


@dataclasses.dataclass(frozen=True, slots=True)
class MatmulConfig(Record):
    """How CTAs compute the tiles of a matmul.

    Attributes:
      block_m: size of a tile along M; one for GEMV without tensor cores.
      block_n: size of a tile along N.
      block_k: elements of K per iteration.
      num_warps: warps of a CTA, or of one warpgroup of a persistent kernel.
      num_stages: depth of the software pipeline, in blocks of the operands in shared memory.
      group_m: tiles along M whose CTAs run together and share blocks of B in the L2 (swizzle).
      split_k: parts of `block_k` that different warps of one CTA accumulate (intra-CTA split-K);
        a power of two.
      consumer_warpgroups: warpgroups that compute in a persistent kernel, next to the producer; 0
        for one tile per CTA.
      ping_pong: whether each consumer warpgroup has a tile of its own.
      weight_streaming: whether weights of 4 or 8 bits are loaded from global memory to registers,
        without shared memory.
      k_splits: parts of K that different CTAs accumulate (split-K); a second kernel adds them.
      aligned_copies: operands that a kernel before copies, with rows that start at multiples of
        `VECTOR_BYTES`: `a`, `b`, `ab` or none.
      row_classes: classes of rows of B by their distance from such a multiple, if the parts of K
        have rows of one class each; they divide the parts. 1 where parts are adjacent rows.
    """

    block_m: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int
    group_m: int = 8
    split_k: int = 1
    consumer_warpgroups: int = 0
    ping_pong: bool = False
    weight_streaming: bool = False
    k_splits: int = 1
    aligned_copies: str = ""
    row_classes: int = 1

    def alone(self) -> Self:
        """The configuration without a kernel that adds parts of K or copies operands."""
        return dataclasses.replace(self, k_splits=1, aligned_copies="", row_classes=1)
