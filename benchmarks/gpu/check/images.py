"""Forms of `conv_triton_kernel` and `pool_triton_kernel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F

from benchmarks.gpu.check.case import FLOATS, Chance, Input, Tensor, Work, named
from benchmarks.gpu.check.rows import spelled

LAST = (0, 2, 3, 1)
"""Axes of PyTorch's order in one with channels last."""

FIRST = (0, 3, 1, 2)


def convolution(chance: Chance) -> Work:
    """Any filter, stride, dilation and padding; batch norm, residual, activation."""
    height, width = chance.size(40, 5), chance.size(40, 5)
    taps = chance.pick((1, 1), (3, 3), (3, 3), (5, 5), (3, 2), (1, 7))
    dilation = chance.pick(1, 1, 1, 2) if max(taps) <= 3 else 1
    stride, padding = chance.pick(1, 1, 2, 3), chance.below(max(taps))
    in_channels = chance.pick(3, 8, 13, 64, chance.size(150))
    out_channels = chance.pick(8, 64, 65, chance.size(200))
    images = chance.pick(1, 2, 5)
    # Two output columns at least: IREE drops a loop of one.
    width = max(width, 1 + stride + dilation * (taps[1] - 1) - 2 * padding)
    image = (images, height, width, in_channels)
    return _convolution(chance, image, out_channels, taps, stride, padding, dilation)


RESNET = (
    (64, 64, 3, 1, 28),
    (128, 128, 3, 2, 28),
    (256, 64, 1, 1, 14),
    (256, 512, 1, 2, 15),
    (64, 64, 3, 1, 56),
    (3, 64, 7, 2, 112),
    (512, 512, 3, 1, 7),
    (3, 64, 7, 2, 224),
)
"""Input and output channels, filter size, stride and image size: sizes of ResNet-50, whose kernels
are persistent where channels are in blocks of 64."""


def real_convolution(chance: Chance) -> Work:
    in_channels, out_channels, size, stride, width = RESNET[chance.number // 2 % len(RESNET)]
    if chance.small:
        in_channels, out_channels, width = 8, 16, 7
    images = chance.pick(1, 7, 32)
    image = (images, width + chance.below(2), width, in_channels)
    return _convolution(chance, image, out_channels, (size, size), stride, size // 2, 1)


def _convolution(
    chance: Chance,
    image: tuple[int | str, ...],
    out_channels: int,
    taps: tuple[int, int],
    stride: int,
    padding: int,
    dilation: int,
    sizes: tuple[Mapping[str, int], ...] = ({},),
) -> Work:
    norm, active = chance.likely(0.6), chance.likely(0.7)
    residual = chance.likely(0.3) and not isinstance(image[0], str)
    in_channels = int(image[3])

    def program(x: Tensor, weight: Tensor, *more: Tensor) -> Tensor:
        rest = iter(more)
        weight = weight.permute(*FIRST)
        y = F.conv2d(x.permute(*FIRST), weight, None, stride, padding, dilation)
        if norm:
            scale, shift, mean, variance = (next(rest) for _ in range(4))
            y = F.batch_norm(y, mean, variance, scale, shift)
        if residual:
            y = y + next(rest).permute(*FIRST)
        return (F.relu(y) if active else y).permute(*LAST)

    weights = (
        (
            Input((out_channels,), "scale"),
            Input((out_channels,), "shift"),
            Input((out_channels,), "shift"),
            Input((out_channels,), "positive"),
        )
        if norm
        else ()
    )
    pixels = tuple(
        (int(image[axis]) + 2 * padding - dilation * (size - 1) - 1) // stride + 1
        for axis, size in ((1, taps[0]), (2, taps[1]))
    )
    inputs = (
        Input(image),
        Input((out_channels, *taps, in_channels), "weight"),
        *weights,
        *([Input((image[0], *pixels, out_channels))] if residual else []),
    )
    words = ["batch norm"] * norm + ["residual"] * residual + ["ReLU"] * active
    said = (
        f"{spelled(image)} to {out_channels}, {taps[0]}x{taps[1]} stride {stride},"
        f" padding {padding}, dilation {dilation}{''.join(f', {w}' for w in words)}"
    )
    return Work(program, inputs, chance.dtype(), said, sizes)


def channels_first(chance: Chance) -> Work:
    """Images and filters in PyTorch's order."""
    images, in_channels, out_channels = chance.pick(1, 3), chance.size(70), chance.size(90)
    size, stride = chance.pick(1, 3), chance.pick(1, 2)
    height, width = chance.size(33, 3), chance.size(33, 3)

    def program(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.silu(F.conv2d(x, weight, bias, stride, size // 2))

    shape = (images, in_channels, height, width)
    inputs = (
        Input(shape),
        Input((out_channels, in_channels, size, size), "weight"),
        Input((out_channels,), "shift"),
    )
    note = f"{spelled(shape)} to {out_channels}, {size}x{size} stride {stride}"
    return Work(program, inputs, chance.dtype(), note)


def dynamic_convolution(chance: Chance) -> Work:
    sizes = tuple({"images": n} for n in (1, 3, 17))
    shape = ("images", chance.size(20, 5), chance.size(20, 5), chance.pick(8, 13, 64))
    out_channels, size = chance.pick(16, 33, 64), chance.pick(1, 3)
    return _convolution(
        chance, shape, out_channels, (size, size), chance.pick(1, 2), size // 2, 1, sizes
    )


def pooling(chance: Chance) -> Work:
    return _pooling(chance, chance.pick(1, 2, 7), ({},))


def dynamic_pooling(chance: Chance) -> Work:
    return _pooling(chance, "images", tuple({"images": n} for n in (1, 3, 17)))


def _pooling(chance: Chance, images: int | str, sizes: tuple[Mapping[str, int], ...]) -> Work:
    side, stride = chance.pick(2, 3, 3, 5), chance.pick(1, 2, 3)
    padding = chance.below(side // 2 + 1)
    shape = (images, chance.size(40, 7), chance.size(40, 7), chance.size(100))
    highest, active = chance.likely(0.6), chance.likely(0.5)

    def program(x: Tensor) -> Any:
        x = x.permute(*FIRST)
        if highest:
            y = F.max_pool2d(x, side, stride, padding)
        else:
            y = F.avg_pool2d(x, side, stride, padding)
        return (F.relu(y) if active else y).permute(*LAST)

    said = (
        f"{'highest' if highest else 'mean'} of {side}x{side} step {stride}, padding {padding},"
        f" {spelled(shape)}{', ReLU' * active}"
    )
    dtype = chance.dtype(*FLOATS)
    return Work(program, (Input(shape),), dtype, said, sizes)


CONVOLUTIONS = named(convolution, real_convolution, channels_first, dynamic_convolution)

POOLINGS = named(pooling, dynamic_pooling)
