"""Problem and configuration of convolution kernels."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.kernels.problem import Problem

PACKED_CHANNELS = 16
"""Input channels below which a block of K spans several taps: the smallest K of a matrix
instruction of 16-bit operands."""

MIN_GEMM_CHANNELS = 4
"""Output channels of a group from which its convolution is a GEMM: a tile of an image is loaded
once for all of them, where the direct kernel loads it for each."""

PERSISTENT_BITS = 16
"""Bits of an element of image and filter in the persistent kernel."""


@dataclasses.dataclass(frozen=True, slots=True)
class ConvolutionProblem(Problem):
    """A convolution as an implicit GEMM: M output pixels, N output channels, K taps by channels.

    Attributes:
      pixels: output pixels of all images.
      out_channels: output channels.
      in_channels: input channels.
      taps: taps of the filter.
      channels_last: whether the channels of an image are contiguous in memory.
      k_contiguous: whether each tap has whole blocks of K, contiguous in image and filter, and the
        filter's taps are in the order of its loops.
      operand_bits: bits of an element of image and filter.
      groups: groups of channels; the numbers of channels are those of one group.
      narrow_filter: whether the filter has rows of input channels that are not aligned for
        vectorized loads, unless it is copied.
    """

    pixels: int
    out_channels: int
    in_channels: int
    taps: int
    channels_last: bool = True
    k_contiguous: bool = True
    operand_bits: int = 16
    groups: int = 1
    narrow_filter: bool = False

    SIZES: ClassVar[tuple[str, ...]] = ("pixels", "out_channels", "in_channels", "taps")

    @property
    def is_direct(self) -> bool:
        """Whether the kernel is the direct one: groups have too few channels for a GEMM."""
        return self.groups > 1 and self.out_channels < MIN_GEMM_CHANNELS

    @property
    def family(self) -> str:
        """`convolution`."""
        return "convolution"


@dataclasses.dataclass(frozen=True, slots=True)
class ConvolutionConfig(MatmulConfig):
    """How CTAs compute the tiles of the implicit GEMM.

    `block_m` counts output pixels, `block_n` output channels, `block_k` input channels of a tap, or
    of several taps where a tap has few. No kernel has `split_k` or `weight_streaming`.
    """
