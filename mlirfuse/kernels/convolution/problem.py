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
"""Output channels of a group below which its convolution is never a GEMM: tiles would be empty."""

MAX_DIRECT_CHANNELS = 16
"""Output channels of a group that the direct kernel has at most: accumulators of a thread."""

PIXELS_OF_CHANNEL = 64
"""Output pixels for each input channel from which the direct kernel has a single output channel: on
an H200 7x7 of 2 channels of 8x56x56 f16 took 3.0 us in it and 6.6 as a GEMM, 5x5 of 24 channels of
2x240x320 f32 21 and 156, but 4x4 of 512 channels of 16x8x8 144 and 10."""

BLOCK_OF_TAPS = 32
"""Elements of K to which those of several taps are padded in a GEMM."""

SUM_INSTRUCTIONS = 1.5
"""Instructions of the direct kernel for a product: a multiply-add, a share of a weight's load."""

LOAD_INSTRUCTIONS = 4
"""Instructions of the direct kernel for an element of the image: load, cast, address, condition."""

GATHER_INSTRUCTIONS = {16: 20, 32: 30}
"""Bits of an element -> instructions of a GEMM for one of the image, in a block of several taps:
its tap and channel, address, condition, load, and store to shared memory; of f32 the parts, too.

These four were counted in the object code of 3x3 convolutions of 5 channels for sm_90."""

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
      narrow_image: the same of the pixels of an image with channels last.
      slides: whether there are groups, and taps move along the innermost dimension of the image.
      overlapping_taps: taps of a group of one output channel that read each element for different
        outputs of a run, along a dimension of the image; 1 where there is no such dimension.
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
    narrow_image: bool = False
    slides: bool = False
    overlapping_taps: int = 1

    SIZES: ClassVar[tuple[str, ...]] = ("pixels", "out_channels", "in_channels", "taps")

    @property
    def operations(self) -> int:
        """Twice the multiply-adds."""
        channels = self.groups * self.in_channels * self.out_channels
        return 2 * self.pixels * channels * self.taps

    @property
    def is_direct(self) -> bool:
        """Whether the kernel is the direct one: there are too few channels for a GEMM.

        A GEMM gathers K padded to whole blocks; both load an element once for all output channels.
        """
        if self.groups == 1 or self.out_channels < MIN_GEMM_CHANNELS:
            return self.groups > 1 or self._is_single
        if self.out_channels > MAX_DIRECT_CHANNELS or self.in_channels >= PACKED_CHANNELS:
            return False
        k = self.in_channels * self.taps
        padded = -(-k // BLOCK_OF_TAPS) * BLOCK_OF_TAPS
        direct = k * (SUM_INSTRUCTIONS * self.out_channels + LOAD_INSTRUCTIONS)
        return direct < padded * GATHER_INSTRUCTIONS[self.operand_bits]

    @property
    def _is_single(self) -> bool:
        """Whether there is one output channel, and few input channels for so many pixels.

        Threads add the channels one after the other; a GEMM shares them among CTAs.
        """
        wide = self.pixels >= PIXELS_OF_CHANNEL * self.in_channels
        return self.out_channels == 1 and not self.channels_last and wide

    @property
    def family(self) -> str:
        """`convolution`."""
        return "convolution"


@dataclasses.dataclass(frozen=True, slots=True)
class ConvolutionConfig(MatmulConfig):
    """How CTAs compute the tiles of the implicit GEMM.

    `block_m` counts output pixels, `block_n` output channels, `block_k` input channels of a tap, or
    of several taps where a tap has few. No kernel has `split_k` or `weight_streaming`.

    Attributes:
      run: adjacent outputs that a thread of the direct kernel computes from elements that it loads
        once; `block_m` times `block_n` counts all outputs of a tile.
    """

    run: int = 1
