"""Networks for images of 3x224x224, with random weights."""

# Type checks run without PyTorch, whose classes are `Any` to them.
# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from benchmarks.cpu.wrapped import calibrated, varied, wrapped
from benchmarks.models import Inputs, seeded

SIZE = 224
"""Height and width of an image."""

CALIBRATION_IMAGES = 4

Made = tuple[nn.Module, Inputs]


def _network(
    kind: str, size: int = SIZE, head: str = "ForImageClassification", **sizes: Any
) -> Made:
    """A network of transformers, from `KINDConfig`."""
    import transformers

    config = getattr(transformers, f"{kind}Config")(**sizes)
    with seeded():
        model = getattr(transformers, f"{kind}{head}")(config)
        return _with_image(wrapped(model, "pixel_values"), size)


def _with_image(module: nn.Module, size: int) -> Made:
    images = torch.randn(CALIBRATION_IMAGES, 3, size, size)
    return calibrated(module.eval(), images), (torch.randn(1, 3, size, size),)


def resnet_18(size: int = SIZE) -> Made:
    """ResNet-18."""
    return _network(
        "ResNet",
        size,
        depths=[2, 2, 2, 2],
        hidden_sizes=[64, 128, 256, 512],
        layer_type="basic",
        num_labels=1000,
    )


def resnet_50(size: int = SIZE) -> Made:
    """ResNet-50."""
    return _network("ResNet", size, num_labels=1000)


def mobilenet_v2(size: int = SIZE) -> Made:
    """MobileNetV2."""
    return _network("MobileNetV2", size, num_labels=1000, image_size=size)


def efficientnet(size: int = SIZE) -> Made:
    """EfficientNet-B0."""
    module, inputs = _network(
        "EfficientNet",
        size,
        image_size=size,
        width_coefficient=1.0,
        depth_coefficient=1.0,
        hidden_dim=1280,
        num_labels=1000,
    )
    # transformers pools with a window of `hidden_dim` pixels, clipped, which OpenVINO refuses.
    module.model.efficientnet.pooler = nn.AdaptiveAvgPool2d(1)
    return module, inputs


def regnet(size: int = SIZE) -> Made:
    """RegNetY of 400 MFLOP: grouped convolutions, and gates from pooled channels."""
    return _network(
        "RegNet",
        size,
        hidden_sizes=[48, 104, 208, 440],
        depths=[1, 3, 6, 6],
        groups_width=8,
        layer_type="y",
        num_labels=1000,
    )


def convnext(size: int = SIZE) -> Made:
    """ConvNeXt-T."""
    return _network("ConvNext", size, image_size=size, num_labels=1000)


def vit(size: int = SIZE) -> Made:
    """ViT-S/16."""
    return _network(
        "ViT",
        size,
        image_size=size,
        hidden_size=384,
        num_attention_heads=6,
        intermediate_size=1536,
        num_labels=1000,
    )


def swin(size: int = SIZE) -> Made:
    """Swin-T: attention in windows, shifted in every second block."""
    return _network("Swin", size, image_size=size, num_labels=1000)


def segformer(size: int = SIZE) -> Made:
    """SegFormer-B0, up to its classes of each pixel of a quarter of the size."""
    return _network("Segformer", size, head="ForSemanticSegmentation", num_labels=150)


def mobilevit(size: int = SIZE) -> Made:
    """MobileViT-S: inverted residuals, and attention over the pixels of patches."""
    return _network("MobileViT", size, image_size=size, num_labels=1000)


class Gate(nn.Module):
    """Channels scaled by a function of their means: squeeze and excitation."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.down = nn.Conv2d(channels, squeezed, 1)
        self.up = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scales the channels."""
        mean = nn.functional.adaptive_avg_pool2d(x, 1)
        return x * nn.functional.hardsigmoid(self.up(self.down(mean).relu()))


class InvertedResidual(nn.Module):
    """MobileNetV3's block: a wide depthwise convolution between two of 1x1."""

    def __init__(
        self,
        inputs: int,
        kernel: int,
        wide: int,
        outputs: int,
        gated: bool,
        hard: bool,
        stride: int,
    ) -> None:
        super().__init__()
        activation = nn.Hardswish if hard else nn.ReLU
        layers: list[nn.Module] = []
        if wide != inputs:
            layers += [_conv(inputs, wide, 1), activation()]
        layers += [_conv(wide, wide, kernel, stride, groups=wide), activation()]
        if gated:
            layers.append(Gate(wide, max(8, wide // 4 // 8 * 8)))
        layers.append(_conv(wide, outputs, 1))
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`(batch, inputs, height, width)` to `(batch, outputs, ...)` at the stride."""
        return x + self.layers(x) if self.residual else self.layers(x)


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Module:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


MOBILENET_V3_LARGE = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)
"""Kernel, width, channels, gate, Hardswish, stride; table 1 of the paper (arXiv:1905.02244)."""


def mobilenet_v3(size: int = SIZE) -> Made:
    """MobileNetV3, large."""
    with seeded():
        layers: list[nn.Module] = [_conv(3, 16, 3, 2), nn.Hardswish()]
        channels = 16
        for kernel, wide, outputs, gated, hard, stride in MOBILENET_V3_LARGE:
            layers.append(InvertedResidual(channels, kernel, wide, outputs, gated, hard, stride))
            channels = outputs
        layers += [_conv(channels, 960, 1), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        layers += [nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, 1000)]
        return _with_image(varied(nn.Sequential(*layers)), size)


class UNet(nn.Module):
    """Two convolutions on each level, on the way down and up; the ways are joined on each level."""

    def __init__(self, widths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(map(_twice, (3, *widths[:-1]), widths))
        pairs = list(zip(widths[1:], widths[:-1], strict=True))[::-1]
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in pairs)
        self.joined = nn.ModuleList(_twice(2 * b, b) for _, b in pairs)
        self.last = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """An image to the scores of the classes of each pixel."""
        levels = []
        for layers in self.down:
            x = layers(nn.functional.max_pool2d(x, 2) if levels else x)
            levels.append(x)
        for level, up, joined in zip(levels[-2::-1], self.up, self.joined, strict=True):
            x = joined(torch.cat((level, up(x)), dim=1))
        return self.last(x)


def _twice(inputs: int, outputs: int) -> nn.Module:
    parts = [_conv(inputs, outputs, 3), nn.ReLU(), _conv(outputs, outputs, 3), nn.ReLU()]
    return nn.Sequential(*parts)


def unet(size: int = SIZE, width: int = 32) -> Made:
    """A U-Net of five levels, half as wide as the original."""
    with seeded():
        module = UNet(tuple(width << level for level in range(5)), classes=21)
        return _with_image(varied(module), size)
