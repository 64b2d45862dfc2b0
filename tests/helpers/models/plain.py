"""Blocks written in plain PyTorch and JAX."""

import jax
import numpy as np
import torch
from jax import numpy as jnp
from torch import nn
from torch.nn import functional


def _convolution(before, after, size=1, activation=nn.ReLU, **settings):
    padding = size // 2
    parts = [
        nn.Conv2d(before, after, size, padding=padding, bias=False, **settings),
        nn.BatchNorm2d(after),
    ]
    return nn.Sequential(*parts, *([activation()] if activation else []))


class Bottleneck(nn.Module):
    """ResNet-50's block; the shortcut is a convolution where the size or width changes."""

    def __init__(self, before, middle, stride=1):
        super().__init__()
        after = 4 * middle
        self.body = nn.Sequential(
            _convolution(before, middle),
            _convolution(middle, middle, 3, stride=stride),
            _convolution(middle, after, activation=None),
        )
        same = stride == 1 and before == after
        self.shortcut = (
            nn.Identity() if same else _convolution(before, after, activation=None, stride=stride)
        )

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x))


def resnet50():
    """Stem, the three kinds of bottlenecks (widening, plain, strided), head; an eighth as wide."""
    model = nn.Sequential(
        _convolution(3, 8, 7, stride=2),
        nn.MaxPool2d(3, stride=2, padding=1),
        Bottleneck(8, 8),
        Bottleneck(32, 8),
        Bottleneck(32, 16, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    return model, (torch.randn(1, 3, 32, 32),)


class SqueezeExcite(nn.Module):
    """Scales each channel by a gate that is computed from the means of all channels."""

    def __init__(self, width):
        super().__init__()
        self.down = nn.Conv2d(width, width // 4, 1)
        self.up = nn.Conv2d(width // 4, width, 1)

    def forward(self, x):
        means = functional.adaptive_avg_pool2d(x, 1)
        return x * functional.hardsigmoid(self.up(functional.relu(self.down(means))))


class InvertedResidual(nn.Module):
    """MobileNetV3's block: widen, depthwise convolution, squeeze and excite, narrow."""

    def __init__(self, before, middle, after, size, activation, *, squeeze, stride=1):
        super().__init__()
        self.body = nn.Sequential(
            _convolution(before, middle, activation=activation),
            _convolution(middle, middle, size, activation, stride=stride, groups=middle),
            SqueezeExcite(middle) if squeeze else nn.Identity(),
            _convolution(middle, after, activation=None),
        )
        self.residual = stride == 1 and before == after

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


def mobilenet_v3():
    """A strided block with ReLU, one with squeeze, excite and hard swish."""
    model = nn.Sequential(
        _convolution(3, 16, 3, nn.Hardswish, stride=2),
        InvertedResidual(16, 32, 24, 3, nn.ReLU, squeeze=False, stride=2),
        InvertedResidual(24, 64, 24, 5, nn.Hardswish, squeeze=True),
    )
    return model, (torch.randn(1, 3, 32, 32),)


class ChannelNorm(nn.LayerNorm):
    """A layer norm over the channels of an image."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    """Depthwise convolution, layer norm, two matmuls with GELU, scaled residual."""

    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(functional.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


def convnext():
    """Stem, a block, downsampling and a block."""
    model = nn.Sequential(
        nn.Conv2d(3, 16, 4, stride=4),
        ChannelNorm(16),
        ConvNextBlock(16),
        ChannelNorm(16),
        nn.Conv2d(16, 32, 2, stride=2),
        ConvNextBlock(32),
    )
    return model, (torch.randn(1, 3, 32, 32),)


class UnetBlock(nn.Module):
    """A diffusion UNet's residual block with a time embedding, then attention over pixels."""

    def __init__(self, before, width, times):
        super().__init__()
        self.norm1 = nn.GroupNorm(4, before)
        self.conv1 = nn.Conv2d(before, width, 3, padding=1)
        self.time = nn.Linear(times, width)
        self.norm2 = nn.GroupNorm(4, width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.shortcut = nn.Conv2d(before, width, 1)
        self.norm3 = nn.GroupNorm(4, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, times):
        y = self.conv1(functional.silu(self.norm1(x)))
        y = y + self.time(functional.silu(times))[:, :, None, None]
        y = self.conv2(functional.silu(self.norm2(y))) + self.shortcut(x)
        batch, width, rows, columns = y.shape
        pixels = self.norm3(y).reshape(batch, width, rows * columns).transpose(1, 2)
        q, k, v = (
            part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(pixels).chunk(3, -1)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return y + self.out(mixed).transpose(1, 2).reshape(y.shape)


def unet():
    """One block that doubles the channels."""
    return UnetBlock(16, 32, 24), (torch.randn(1, 16, 8, 8), torch.randn(1, 24))


class MixtureOfExperts(nn.Module):
    """Each token goes to the two experts that the router likes best; all experts are computed."""

    def __init__(self, width, hidden, experts):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.router = nn.Linear(width, experts, bias=False)
        scale = width**-0.5
        self.gate = nn.Parameter(scale * torch.randn(experts, width, hidden))
        self.up = nn.Parameter(scale * torch.randn(experts, width, hidden))
        self.down = nn.Parameter(scale * torch.randn(experts, hidden, width))

    def forward(self, x):
        y = self.norm(x)
        weights, chosen = self.router(y).softmax(-1).topk(2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        share = functional.one_hot(chosen, self.router.out_features) * weights[..., None]
        wide = functional.silu(y @ self.gate) * (y @ self.up)
        return x + torch.einsum("etw,te->tw", wide @ self.down, share.sum(1))


def moe():
    """A layer of four experts."""
    return MixtureOfExperts(32, 64, 4), (torch.randn(16, 32),)


def int8_mlp():
    """Two matmuls of i8 with i32 accumulators, in JAX; activations quantized with a fixed scale."""
    random = np.random.default_rng(0)
    shapes = ((64, 128), (128, 64))
    weights = [jnp.asarray(random.integers(-127, 128, s, dtype=np.int8)) for s in shapes]
    scales = [jnp.asarray(random.uniform(0.5, 1.5, s[1]).astype(np.float32)) for s in shapes]
    biases = [jnp.asarray(random.standard_normal(s[1]).astype(np.float32)) for s in shapes]

    def layer(x, number):
        quantized = jnp.clip(jnp.round(x * 32), -128, 127).astype(jnp.int8)
        sums = jax.lax.dot(quantized, weights[number], preferred_element_type=jnp.int32)
        return sums.astype(jnp.float32) * (scales[number] / (127 * 32 * 4)) + biases[number]

    def mlp(x):
        return layer(jax.nn.relu(layer(x, 0)), 1)

    return mlp, (jnp.asarray(random.standard_normal((32, 64)).astype(np.float32)),)
