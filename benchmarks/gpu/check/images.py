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
    """Any window, stride, dilation and padding; batch norm, residual, activation."""
    height, width = chance.size(40, 5), chance.size(40, 5)
    window = chance.pick((1, 1), (3, 3), (3, 3), (5, 5), (3, 2), (1, 7))
    dilation = chance.pick(1, 1, 1, 2) if max(window) <= 3 else 1
    stride, padding = chance.pick(1, 1, 2, 3), chance.below(max(window))
    channels = chance.pick(3, 8, 13, 64, chance.size(150))
    filters = chance.pick(8, 64, 65, chance.size(200))
    images = chance.pick(1, 2, 5)
    # Two places at least: of one, IREE drops the loop.
    width = max(width, 1 + stride + dilation * (window[1] - 1) - 2 * padding)
    return _convolution(
        chance, (images, height, width, channels), filters, window, stride, padding, dilation
    )


STAYING = (
    (64, 64, 3, 1, 28),
    (128, 128, 3, 2, 28),
    (256, 64, 1, 1, 14),
    (256, 512, 1, 2, 15),
    (64, 64, 3, 1, 56),
    (3, 64, 7, 2, 112),
    (512, 512, 3, 1, 7),
    (3, 64, 7, 2, 224),
)
"""Input and output channels, side of the window, stride and side of the image: for kernels whose
workgroups stay."""


def real_convolution(chance: Chance) -> Work:
    channels, filters, side, stride, image = STAYING[chance.number // 2 % len(STAYING)]
    if chance.small:
        channels, filters, image = 8, 16, 7
    images = chance.pick(1, 7, 32)
    padding = side // 2
    shape = (images, image + chance.below(2), image, channels)
    return _convolution(chance, shape, filters, (side, side), stride, padding, 1)


def _convolution(
    chance: Chance,
    image: tuple[int | str, ...],
    filters: int,
    window: tuple[int, int],
    stride: int,
    padding: int,
    dilation: int,
    sizes: tuple[Mapping[str, int], ...] = ({},),
) -> Work:
    norm, active = chance.likely(0.6), chance.likely(0.7)
    residual = chance.likely(0.3) and not isinstance(image[0], str)
    channels = int(image[3])

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
            Input((filters,), "scale"),
            Input((filters,), "shift"),
            Input((filters,), "shift"),
            Input((filters,), "positive"),
        )
        if norm
        else ()
    )
    places = tuple(
        (int(image[a]) + 2 * padding - dilation * (w - 1) - 1) // stride + 1
        for a, w in ((1, window[0]), (2, window[1]))
    )
    inputs = (
        Input(image),
        Input((filters, *window, channels), "weight"),
        *weights,
        *([Input((image[0], *places, filters))] if residual else []),
    )
    words = ["batch norm"] * norm + ["residual"] * residual + ["ReLU"] * active
    said = (
        f"{spelled(image)} to {filters}, {window[0]}x{window[1]} step {stride},"
        f" padding {padding}, dilation {dilation}{''.join(f', {w}' for w in words)}"
    )
    return Work(program, inputs, chance.dtype(), said, sizes)


def channels_first(chance: Chance) -> Work:
    """Images and filters in PyTorch's order."""
    images, channels, filters = chance.pick(1, 3), chance.size(70), chance.size(90)
    side, stride = chance.pick(1, 3), chance.pick(1, 2)
    height, width = chance.size(33, 3), chance.size(33, 3)

    def program(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.silu(F.conv2d(x, weight, bias, stride, side // 2))

    shape = (images, channels, height, width)
    inputs = (
        Input(shape),
        Input((filters, channels, side, side), "weight"),
        Input((filters,), "shift"),
    )
    return Work(program, inputs, chance.dtype(), f"{spelled(shape)} to {filters}, {side}, {stride}")


def dynamic_convolution(chance: Chance) -> Work:
    sizes = tuple({"images": n} for n in (1, 3, 17))
    shape = ("images", chance.size(20, 5), chance.size(20, 5), chance.pick(8, 13, 64))
    filters, side = chance.pick(16, 33, 64), chance.pick(1, 3)
    return _convolution(
        chance, shape, filters, (side, side), chance.pick(1, 2), side // 2, 1, sizes
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
