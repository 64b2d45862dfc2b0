"""Forms of `conv_triton_kernel` and `pool_triton_kernel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.gpu.check.case import FLOATS, Chance, Input, Tensor, Work, named
from benchmarks.gpu.check.rows import spelled

CHANNELS_LAST = (0, 2, 3, 1)
"""Order of PyTorch's axes with channels last."""

CHANNELS_FIRST = (0, 3, 1, 2)


def convolution(chance: Chance) -> Work:
    """Any filter size, stride, dilation and padding; batch norm, residual, activation."""
    height, width = chance.size(40, 5), chance.size(40, 5)
    taps = chance.pick((1, 1), (3, 3), (3, 3), (5, 5), (3, 2), (1, 7))
    dilation = chance.pick(1, 1, 1, 2) if max(taps) <= 3 else 1
    stride, padding = chance.pick(1, 1, 2, 3), chance.below(max(taps))
    channels = chance.pick(3, 8, 13, 64, chance.size(150))
    filters = chance.pick(8, 64, 65, chance.size(200))
    images = chance.pick(1, 2, 5)
    # At least two output columns: IREE drops a loop of one iteration.
    width = max(width, 1 + stride + dilation * (taps[1] - 1) - 2 * padding)
    return _convolution(
        chance, (images, height, width, channels), filters, taps, stride, padding, dilation
    )


PERSISTENT = (
    (64, 64, 3, 1, 28),
    (128, 128, 3, 2, 28),
    (256, 64, 1, 1, 14),
    (256, 512, 1, 2, 15),
    (64, 64, 3, 1, 56),
    (3, 64, 7, 2, 112),
    (512, 512, 3, 1, 7),
    (3, 64, 7, 2, 224),
)
"""Input and output channels, filter size, stride and image size; most run as persistent kernels."""


def real_convolution(chance: Chance) -> Work:
    channels, filters, size, stride, image = PERSISTENT[chance.ordinal // 2 % len(PERSISTENT)]
    if chance.small:
        channels, filters, image = 8, 16, 7
    images = chance.pick(1, 7, 32)
    padding = size // 2
    shape = (images, image + chance.below(2), image, channels)
    return _convolution(chance, shape, filters, (size, size), stride, padding, 1)


def _convolution(
    chance: Chance,
    image: tuple[int | str, ...],
    filters: int,
    taps: tuple[int, int],
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
        weight = weight.permute(*CHANNELS_FIRST)
        y = F.conv2d(x.permute(*CHANNELS_FIRST), weight, None, stride, padding, dilation)
        if norm:
            scale, shift, mean, variance = (next(rest) for _ in range(4))
            y = F.batch_norm(y, mean, variance, scale, shift)
        if residual:
            y = y + next(rest).permute(*CHANNELS_FIRST)
        return (F.relu(y) if active else y).permute(*CHANNELS_LAST)

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
    output_size = tuple(
        (int(image[a]) + 2 * padding - dilation * (w - 1) - 1) // stride + 1
        for a, w in ((1, taps[0]), (2, taps[1]))
    )
    inputs = (
        Input(image),
        Input((filters, *taps, channels), "weight"),
        *weights,
        *([Input((image[0], *output_size, filters))] if residual else []),
    )
    words = ["batch norm"] * norm + ["residual"] * residual + ["ReLU"] * active
    description = (
        f"{spelled(image)} to {filters}, {taps[0]}x{taps[1]}, stride {stride},"
        f" padding {padding}, dilation {dilation}{''.join(f', {w}' for w in words)}"
    )
    return Work(program, inputs, chance.dtype(*FLOATS), description, sizes)


def channels_first(chance: Chance) -> Work:
    """Images and filters with channels first."""
    images, channels, filters = chance.pick(1, 3), chance.size(70, 2), chance.size(90, 2)
    size, stride = chance.pick(1, 3), chance.pick(1, 2)
    height, width = chance.size(33, 3), chance.size(33, 3)

    def program(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.silu(F.conv2d(x, weight, bias, stride, size // 2))

    shape = (images, channels, height, width)
    inputs = (
        Input(shape),
        Input((filters, channels, size, size), "weight"),
        Input((filters,), "shift"),
    )
    text = f"{spelled(shape)} to {filters}, {size}, {stride}"
    return Work(program, inputs, chance.dtype(*FLOATS), text)


def grouped_convolution(chance: Chance) -> Work:
    """Groups of any size, one channel each among them, in 1-D to 3-D and both layouts."""
    rank = chance.pick(1, 2, 2, 3)
    groups = chance.pick(2, 3, 8, chance.size(70))
    inner = chance.pick(1, 1, 3, 5, 6, 8, 10, 16, 17) if rank < 3 else chance.pick(2, 3, 4, 5, 8)
    outer = chance.pick(1, 1, 2, 5, 8, 10, 16, 20) if rank < 3 else chance.pick(3, 4, 6, 8)
    size, stride, dilation = chance.pick(1, 3, 3, 5), chance.pick(1, 1, 2), chance.pick(1, 1, 2)
    if inner == 1:
        size = max(size, 2)  # With one tap of one channel it is no sum.
    # A window fits into the smallest image, and there are at least two output columns.
    limit = {1: 400, 2: 40, 3: 14}[rank]
    shape = [chance.size(limit, 11) for _ in range(rank)]
    padding = chance.below(size)
    images, last = chance.pick(1, 2, 5), chance.likely(0.4)
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[rank]

    def program(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        y = function(
            x.movedim(-1, 1) if last else x, weight, bias, stride, padding, dilation, groups
        )
        y = F.relu(y)
        return y.movedim(1, -1) if last else y

    channels = groups * inner
    image = (images, *shape, channels) if last else (images, channels, *shape)
    inputs = (
        Input(image),
        Input((groups * outer, inner, *[size] * rank), "weight"),
        Input((groups * outer,), "shift"),
    )
    text = (
        f"{spelled(image)}, {groups} groups of {inner} to {outer}, {size}, stride {stride},"
        f" padding {padding}, dilation {dilation}{', channels last' * last}"
    )
    return Work(program, inputs, chance.dtype(*FLOATS), text)


def transposed_convolution(chance: Chance) -> Work:
    """Any stride, dilation, padding and output padding, in 1-D to 3-D."""
    rank = chance.pick(1, 2, 2, 3)
    channels, filters = chance.pick(3, 16, 33, chance.size(70)), chance.pick(8, 21, 64)
    groups = chance.pick(1, 1, 1, 2)
    size, stride, dilation = (
        chance.pick(2, 3, 4, 5),
        chance.pick(1, 2, 2, 3, 4),
        chance.pick(1, 1, 2),
    )
    padding, more = chance.below(size), chance.below(stride) if stride > 1 else 0
    limit = {1: 200, 2: 24, 3: 8}[rank]
    shape = [chance.size(limit, 6) for _ in range(rank)]
    function = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[rank]

    def program(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        y = function(x, weight, bias, stride, padding, more, groups, dilation)
        return F.relu(y)

    image = (chance.pick(1, 3), groups * channels, *shape)
    inputs = (
        Input(image),
        Input((groups * channels, filters, *[size] * rank), "weight"),
        Input((groups * filters,), "shift"),
    )
    text = (
        f"{spelled(image)} to {filters}, transposed, {size}, {groups} groups, stride {stride},"
        f" padding {padding} and {more}, dilation {dilation}"
    )
    return Work(program, inputs, chance.dtype(*FLOATS), text)


def dynamic_convolution(chance: Chance) -> Work:
    sizes = tuple({"images": n} for n in (1, 3, 17))
    shape = ("images", chance.size(20, 5), chance.size(20, 5), chance.pick(8, 13, 64))
    filters, size = chance.pick(16, 33, 64), chance.pick(1, 3)
    return _convolution(
        chance, shape, filters, (size, size), chance.pick(1, 2), size // 2, 1, sizes
    )


def pooling(chance: Chance) -> Work:
    return _pooling(chance, chance.pick(1, 2, 7), ({},))


def dynamic_pooling(chance: Chance) -> Work:
    return _pooling(chance, "images", tuple({"images": n} for n in (1, 3, 17)))


def _pooling(chance: Chance, images: int | str, sizes: tuple[Mapping[str, int], ...]) -> Work:
    size, stride = chance.pick(2, 3, 3, 5), chance.pick(1, 2, 3)
    padding = chance.below(size // 2 + 1)
    shape = (images, chance.size(40, 7), chance.size(40, 7), chance.size(100))
    maximum, active = chance.likely(0.6), chance.likely(0.5)

    def program(x: Tensor) -> Any:
        x = x.permute(*CHANNELS_FIRST)
        if maximum:
            y = F.max_pool2d(x, size, stride, padding)
        else:
            y = F.avg_pool2d(x, size, stride, padding)
        return (F.relu(y) if active else y).permute(*CHANNELS_LAST)

    description = (
        f"{'max' if maximum else 'mean'} of {size}x{size}, stride {stride}, padding {padding},"
        f" {spelled(shape)}{', ReLU' * active}"
    )
    dtype = chance.dtype(*FLOATS)
    return Work(program, (Input(shape),), dtype, description, sizes)


def window(chance: Chance) -> Work:
    """Poolings of one to three dimensions, with windows of any size and images of any rest."""
    rank = chance.pick(1, 1, 2, 3)
    size = chance.pick(2, 3, 7, *([9, 13] if rank < 3 else []), *([70, 130] if rank == 1 else []))
    stride, padding = chance.pick(1, 2, 3, size), chance.below(size // 2 + 1)
    sides = tuple(size + stride + chance.below(60 // rank) for _ in range(rank))
    shape = (chance.pick(1, 3), chance.size(40), *sides)
    maximum, gated = chance.likely(0.6), chance.likely(0.4)
    ceils = maximum and chance.likely(0.3)
    counts = [(side + 2 * padding - size) // stride + 1 for side in sides]

    def program(x: Tensor, gate: Tensor) -> Tensor:
        if maximum:
            y = getattr(F, f"max_pool{rank}d")(x, size, stride, padding, ceil_mode=ceils)
        else:
            y = getattr(F, f"avg_pool{rank}d")(x, size, stride, padding)
        cut = y[(..., *(slice(count) for count in counts))]
        assert isinstance(cut, Tensor)
        return cut * torch.sigmoid(gate) if gated else cut

    words = ["up"] * ceils + ["gate"] * gated
    description = (
        f"{'max' if maximum else 'mean'} of {size}, stride {stride}, padding {padding},"
        f" {spelled(shape)}{''.join(f', {w}' for w in words)}"
    )
    inputs = (Input(shape), Input((*shape[:2], *counts)))
    return Work(program, inputs, chance.dtype(*FLOATS), description)


CONVOLUTIONS = named(
    convolution,
    real_convolution,
    channels_first,
    grouped_convolution,
    transposed_convolution,
    dynamic_convolution,
)

POOLINGS = named(pooling, dynamic_pooling, window)
