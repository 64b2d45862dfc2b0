"""The operators of the programs in PyTorch; `with_jax` has the same names.

Heads are `(batch, heads, tokens, size)`, images `(batch, channels, height, width)`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

Array = torch.Tensor


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    return F.linear(x, weight, bias)


def gelu(x: Array, tanh: bool = False) -> Array:
    return F.gelu(x, approximate="tanh" if tanh else "none")


def silu(x: Array) -> Array:
    return F.silu(x)


def relu(x: Array) -> Array:
    return F.relu(x)


def layer_norm(x: Array, scale: Array, shift: Array) -> Array:
    return F.layer_norm(x, scale.shape, scale, shift)


def rms_norm(x: Array, scale: Array) -> Array:
    return F.rms_norm(x, scale.shape, scale, 1e-6)


def softmax(x: Array) -> Array:
    return F.softmax(x, -1)


def quantized(x: Array, factor: float) -> Array:
    """Rounds half to even, to i8."""
    return torch.clamp(torch.round(x * factor), -128, 127).to(torch.int8)


def halves(x: Array) -> Sequence[Array]:
    """Both halves of the last axis."""
    return x.chunk(2, dim=-1)


def concatenated(parts: Sequence[Array], axis: int) -> Array:
    return torch.cat(list(parts), dim=axis)


def rotated(x: Array, cosine: Array, sine: Array) -> Array:
    """Rotary positions of heads; the tables are `(tokens, size)`."""
    first, second = halves(x)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


def heads(x: Array, parts: int, size: int) -> Sequence[Array]:
    """`(batch, tokens, parts * width)` to `parts` tensors of heads of that size."""
    return [p.unflatten(-1, (-1, size)).transpose(1, 2) for p in x.chunk(parts, dim=-1)]


def merged(x: Array) -> Array:
    """Heads back to `(batch, tokens, width)`."""
    return x.transpose(1, 2).flatten(2)


def appended(past: Array, new: Array) -> Array:
    """Heads of past tokens, followed by those of new tokens."""
    return torch.cat((past, new), dim=2)


def attention(q: Array, k: Array, v: Array, causal: bool = False) -> Array:
    shared = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=shared)


def convolution(x: Array, weight: Array, stride: int, padding: int) -> Array:
    return F.conv2d(x, weight, None, stride, padding)


def batch_norm(x: Array, scale: Array, shift: Array, mean: Array, variance: Array) -> Array:
    return F.batch_norm(x, mean, variance, scale, shift)


def max_pool(x: Array) -> Array:
    """3x3 with stride 2."""
    return F.max_pool2d(x, 3, 2, 1)


def mean_of_image(x: Array) -> Array:
    return x.mean((2, 3))


def patches(x: Array, weight: Array, bias: Array) -> Array:
    """`(batch, 3, height, width)` to `(batch, patches, width)`."""
    return F.conv2d(x, weight, bias, weight.shape[-1]).flatten(2).transpose(1, 2)


def repeated(x: Array, batch: int) -> Array:
    """`(1, ...)` to `(batch, ...)`."""
    return x.expand(batch, *x.shape[1:])


def moved(x: Array, axes: Sequence[int] | None) -> Array:
    """The argument with its axes in another order."""
    return x if axes is None else x.permute(*axes)


def restored(x: Array, axes: Sequence[int] | None) -> Array:
    """The inverse of `moved`."""
    return x if axes is None else x.permute(*(axes.index(n) for n in range(len(axes))))


def placed(x: Array, layout: str) -> Array:
    """The argument in the fastest layout for PyTorch: images with channels last."""
    if layout in ("image", "filter", "stem"):
        return x.contiguous(memory_format=torch.channels_last)
    return x
