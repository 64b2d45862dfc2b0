"""Problem and configuration of convolution kernels."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.kernels.problem import Problem

PACKED_CHANNELS = 16
"""Input channels below which a block of K spans several taps: the smallest K of a matrix
instruction of 16-bit operands."""


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
    """

    pixels: int
    out_channels: int
    in_channels: int
    taps: int
    channels_last: bool = True
    k_contiguous: bool = True

    SIZES: ClassVar[tuple[str, ...]] = ("pixels", "out_channels", "in_channels", "taps")

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
