"""Random programs with few or single channels, dot products, and samples of images."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks.breadth.drawing import Argument, Draw, Drawn

Tensor = torch.Tensor

_ACTIVATIONS = ("", "sigmoid", "relu", "tanh")


def narrow(draw: Draw) -> Drawn:
    """A layer with one to four output channels, or a batch of dot products."""
    name = draw.one("conv", "conv", "head", "transposed", "upsampling", "linear", "dots", "gate")
    batch, inner, side = draw.size(1, 16), draw.size(2, 512), draw.size(8, 160)
    while batch * inner * side * side > draw.limit(2**27):
        batch, side = max(1, batch // 2), max(8, side // 2)
    outer, kernel, stride = draw.one(1, 1, 1, 2, 3, 4), draw.one(1, 3, 3, 5, 7), draw.one(1, 1, 2)
    taps, act = kernel * kernel, draw.one(*_ACTIVATIONS)
    image, bias = Argument((batch, inner, side, side)), Argument((outer,))
    sizes = (outer, inner, kernel, kernel)
    arguments: tuple[Argument, ...] = (image, Argument(sizes, "weight", inner * taps), bias)
    flops = 2.0 * batch * side * side * inner * outer * taps

    def call(x: Tensor, w: Tensor, *others: Tensor) -> Tensor:
        b = others[0] if others else None
        if name in ("conv", "head"):
            y = F.conv2d(x, w, b, stride, kernel // 2)
        elif name in ("transposed", "upsampling"):
            groups = inner if name == "upsampling" else 1
            y = F.conv_transpose2d(x, w, b, 2, 1, 0, groups)
        elif name == "linear":
            y = F.linear(x, w, b)
        elif name == "dots":
            y = torch.einsum("bchw,bchw->bhw", x, w)
        else:
            return x * torch.sigmoid(F.conv2d(x, w, b, 1, kernel // 2))
        y = getattr(torch, act)(y) if act else y
        return F.interpolate(y, scale_factor=4, mode="bilinear") if name == "head" else y

    if name == "transposed":
        arguments = (image, Argument((inner, outer, 4, 4), "weight", inner * 4), bias)
    elif name == "upsampling":
        arguments = (image, Argument((inner, 1, 4, 4), "weight", 4))
    elif name == "linear":
        arguments = (
            Argument((batch * side * side, inner)),
            Argument((outer, inner), "weight", inner),
            bias,
        )
    elif name == "dots":
        arguments = (image, image)
    elif name == "gate":
        sizes = (1, inner, kernel, kernel)
        arguments = (image, Argument(sizes, "weight", inner * taps), Argument((1,)))
    text = f"{name} {kernel} stride {stride} to {outer} {act}".rstrip()
    return Drawn(text, call, arguments, flops)


def sampled(draw: Draw) -> Drawn:
    """Samples of an image at computed places."""
    mode, padding = draw.one("bilinear", "bilinear", "nearest"), draw.one("zeros", "border")
    batch, channels = draw.size(1, 16), draw.size(1, 256)
    side, out = draw.size(16, 160), draw.size(16, 160)
    while batch * channels * max(side, out) ** 2 > draw.limit(2**26):
        batch, channels = max(1, batch // 2), max(1, channels // 2)
    corners, points = draw.chance(0.3), draw.one(0, 0, 4)

    def call(x: Tensor, g: Tensor, *weights: Tensor) -> Tensor:
        y = F.grid_sample(x, g * 2 - 1, mode, padding, align_corners=corners)
        return (y * weights[0]).sum(-1) if points else y

    places = (batch, out * out, points, 2) if points else (batch, out, out, 2)
    arguments = [Argument((batch, channels, side, side)), Argument(places, "uniform")]
    if points:
        arguments.append(Argument((batch, 1, out * out, points), "uniform"))
    text = f"grid_sample {mode} {padding}{' corners' * corners}{' weighted' * bool(points)}"
    return Drawn(text, call, tuple(arguments))
