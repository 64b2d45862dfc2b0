"""Regions of convolutions with a bias and a ReLU, in f16."""

from __future__ import annotations

import math

from mlirfuse.kernels.convolution.problem import (
    PACKED_CHANNELS,
    PERSISTENT_BITS,
    ConvolutionProblem,
)
from mlirfuse.tuning.problem_modules.region_text import RegionText

IMAGES = 32
"""Images of a batch, where the pixels are those of so many square images."""


def module_text(problem: ConvolutionProblem) -> str:
    """A module whose region has the problem: square images, filters and zeros around an image.

    The first layer of a network, which has few input channels, has strides of two, others of one.

    Raises:
      ValueError: the filter is no odd square, or there are groups, or elements of f32.
    """
    if problem.groups > 1 or problem.operand_bits != PERSISTENT_BITS:
        raise ValueError(f"{problem.groups} groups of {problem.operand_bits} bits")
    side = math.isqrt(problem.taps)
    if side * side != problem.taps or side % 2 == 0:
        raise ValueError(f"a filter of {problem.taps} taps")
    region = RegionText()
    images, height = _images(problem.pixels)
    around, stride = side // 2, 2 if problem.in_channels < PACKED_CHANNELS else 1
    channels, outputs = problem.in_channels, problem.out_channels
    last = problem.channels_last
    rows, taps = height * stride, "" if side == 1 else "ij"

    def image(size: int) -> tuple[int, ...]:
        return (images, size, size, channels) if last else (images, channels, size, size)

    x = region.argument(image(rows), "f16")
    filter_axes = f"f{taps}c" if problem.k_contiguous else f"{taps}cf"
    filter_axes = filter_axes if last else f"fc{taps}"
    sizes = {"i": side, "j": side, "c": channels, "f": outputs}
    weights = region.argument([sizes[axis] for axis in filter_axes], "f16")
    bias = region.argument((outputs,), "f16")
    if around:
        zero = region.constant("0.0", "f16")
        amounts = f"0, {around}, {around}, 0" if last else f"0, 0, {around}, {around}"
        body = "^bb0(%i: index, %j: index, %k: index, %l: index):\n"
        x = region.define(
            f"tensor.pad {x.name} low[{amounts}] high[{amounts}] {{\n{body}"
            f"tensor.yield {zero} : f16\n}} : {x.type} to",
            image(rows + 2 * around),
            "f16",
        )
    at = [f"{d} * {stride} + {k}" if around else f"{d} * {stride}" for d, k in ("hi", "wj")]
    image_map = ", ".join(["b", *at, "c"] if last else ["b", "c", *at])
    out_axes = "bhwf" if last else "bfhw"
    shape = (images, height, height, outputs) if last else (images, outputs, height, height)
    (sums,) = region.generic(
        f"{out_axes}{taps}c",
        [(x, image_map), (weights, filter_axes)],
        [(region.filled(shape, "f32", "0.0"), out_axes)],
        [
            "%x = arith.extf %a0 : f16 to f32",
            "%y = arith.extf %a1 : f16 to f32",
            "%p = arith.mulf %x, %y : f32",
            "%z = arith.addf %o0, %p : f32",
        ],
        reduced=f"{taps}c",
    )
    zero = region.constant("0.0", "f32")
    (out,) = region.generic(
        out_axes,
        [(sums, out_axes), (bias, "f")],
        [(shape, "f16", out_axes)],
        [
            "%b = arith.extf %a1 : f16 to f32",
            "%s = arith.addf %a0, %b : f32",
            f"%m = arith.maximumf %s, {zero} : f32",
            "%z = arith.truncf %m : f32 to f16",
        ],
    )
    return region.module(out)


def _images(pixels: int) -> tuple[int, int]:
    """Images and their side: `IMAGES` of them, or the fewest that are square."""
    for images in (IMAGES, *range(1, pixels + 1)):
        side = math.isqrt(pixels // images)
        if images * side * side == pixels:
            return images, side
    raise AssertionError("images of one pixel are square")
