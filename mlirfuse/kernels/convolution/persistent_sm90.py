"""Implicit GEMM on Hopper: the persistent matmul kernel, whose A is the image.

A block of K is 64 input channels of one tap, contiguous in image and filter. The kernel takes two
functions: `row_start` gives the offset of the first tap of an output pixel, and a bit mask of the
taps that are inside the image; `block_start` gives the offset of a block of K, and its tap. Blocks
of taps in the padding are filled with zeros by the loads.
"""

from __future__ import annotations

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, known_product
from mlirfuse.kernels.codegen.writer import Writer
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.convolution.analysis import Analysis, problem_of
from mlirfuse.kernels.convolution.problem import PERSISTENT_BITS, ConvolutionConfig
from mlirfuse.kernels.convolution.taps import Taps, write_tap_indices
from mlirfuse.kernels.convolution.tile import ENTRY, M, N, Tile, tile_of
from mlirfuse.kernels.matmul.persistent_sm90 import (
    BLOCK_K,
    LAYOUT,
    KernelOutline,
    PersistentMatmul,
    has_persistent,
    plan_persistent,
    tiles_divide,
)
from mlirfuse.kernels.plan import Plan
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target

MAX_TAPS = 31
"""Taps in a bit mask of 32 bits, with a sign, of those inside the image."""


def can_run(analysis: Analysis, config: ConvolutionConfig, target: Target) -> NoMatch | None:
    """The reason why the kernel cannot compute a convolution; None where it can."""
    if not has_persistent(target):
        return _refusal("the target or the installed Triton has none")
    if analysis.is_dynamic:
        return _refusal("the number of images is dynamic")
    if ops.element_bits(analysis.image) != PERSISTENT_BITS:
        return _refusal(f"the elements do not have {PERSISTENT_BITS} bits")
    if ops.constant(analysis.init) != 0:
        return _refusal("the accumulators start from a tensor")
    if analysis.max_elements >= MAX_INDEX:
        return _refusal("offsets need 64 bits")
    if analysis.groups:
        return _refusal("the channels are in groups")
    if known_product(analysis.taps) > MAX_TAPS:
        return _refusal(f"the filter has more than {MAX_TAPS} taps")
    if not problem_of(analysis).k_contiguous:
        return _refusal(f"input channels are not in contiguous blocks of {BLOCK_K}")
    if not tiles_divide(config.block_n, analysis.out_channels, analysis.in_channels, 1):
        return _refusal("its blocks do not divide the output channels")
    return None


def plan(analysis: Analysis, config: ConvolutionConfig, target: Target) -> Plan:
    """Plans the kernel of a convolution for which `can_run` has no refusal.

    Raises:
      Unsupported, Conflict: the region has an op that the kernel cannot compute.
    """
    tile = tile_of(analysis, config, LAYOUT)
    tile.write_epilogue()
    row_start, masked = _row_start(tile)
    k = known_product(analysis.taps) * analysis.in_channels
    outline = KernelOutline(ENTRY, analysis.results, problem_of(analysis), config, M, N)
    matmul = PersistentMatmul(
        a=tile.image,
        bs=[tile.filter],
        m=known_product(analysis.pixels),
        n=analysis.out_channels,
        k=k,
        b_stride=str(k),
        row_start=row_start,
        block_start=_block_start(analysis),
        num_ctas=gpu_of(target).num_sms,
        masked=masked,
    )
    return plan_persistent(tile.tiles, outline, matmul)


def _row_start(tile: Tile) -> tuple[list[str], bool]:
    """The body of `row_start(offs_m)`, and whether some tap is outside the image."""
    writer, sizes = Writer(), tile.analysis.taps
    masks = Taps.of(tile.analysis).write_origins(writer, tile.space, tile.axes)
    if not masks:
        writer.line("return image_offset, 0")
        return writer.lines, False
    writer.line("valid_taps = offs_m * 0")
    _write_valid_taps(writer, sizes, " & ".join(masks))
    writer.line("return image_offset, valid_taps")
    return writer.lines, True


def _write_valid_taps(writer: Writer, sizes: tuple[int, ...], mask: str, index: int = 0) -> None:
    """Writes a loop over taps for each of their loops from one on, and the mask inside of all."""
    if index < len(sizes):
        with writer.indented(f"for tap{index} in gl.static_range({sizes[index]}):"):
            _write_valid_taps(writer, sizes, mask, index + 1)
        return
    inner = [known_product(sizes[n + 1 :]) for n in range(len(sizes))]
    tap = " + ".join(f"tap{n} * {size}" for n, size in enumerate(inner))
    writer.line(f"valid_taps |= ({mask}).to(gl.int32) << ({tap})")


def _block_start(analysis: Analysis) -> list[str]:
    """The body of `block_start(step)`."""
    writer = Writer()
    blocks = analysis.in_channels // BLOCK_K
    tap = f"step // {blocks}"
    writer.line(f"offs_k = step % {blocks} * {BLOCK_K}")
    write_tap_indices(writer, tap, analysis.taps)
    writer.line(f"return {Taps.of(analysis).image_offset('')}, {tap}")
    return writer.lines


def _refusal(obstacle: str) -> NoMatch:
    return NoMatch(Reason.STRUCTURE, f"the persistent kernel cannot run: {obstacle}")
