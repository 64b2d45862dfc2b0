"""Problem and configuration of convolution kernels."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.kernels.problem import Problem


@dataclasses.dataclass(frozen=True, slots=True)
class ConvolutionProblem(Problem):
    """A convolution as an implicit GEMM: M output pixels, N output channels, K taps by channels.

    Attributes:
      pixels: output pixels of all images.
      out_channels: output channels.
      in_channels: input channels.
      taps: taps of the filter.
      channels_last: whether the channels of an image are contiguous in memory.
      k_contiguous: whether channels fill blocks of K, contiguous in image and filter.
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
    """How CTAs compute the tiles of a convolution."""
