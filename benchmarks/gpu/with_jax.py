"""The operators of the programs in JAX; `with_torch` has the same names.

Heads are `(batch, tokens, heads, size)`, images `(batch, height, width, channels)`, the layouts of
JAX's functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax import lax
from jax import numpy as jnp

from benchmarks.gpu.rows import CHANNELS_LAST

Array = jax.Array

implementation: Any = None
"""Implementation of attention: `cudnn`, or None for XLA's own."""


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    y = x @ weight.T
    return y if bias is None else y + bias


def gelu(x: Array, tanh: bool = False) -> Array:
    return jax.nn.gelu(x, approximate=tanh)


def silu(x: Array) -> Array:
    return jax.nn.silu(x)


def relu(x: Array) -> Array:
    return jax.nn.relu(x)


def layer_norm(x: Array, scale: Array, shift: Array) -> Array:
    y = x.astype(jnp.float32)
    centered = y - y.mean(-1, keepdims=True)
    spread = lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
    return (centered * spread * scale + shift).astype(x.dtype)


def rms_norm(x: Array, scale: Array) -> Array:
    y = x.astype(jnp.float32)
    return (y * lax.rsqrt((y**2).mean(-1, keepdims=True) + 1e-6) * scale).astype(x.dtype)


def softmax(x: Array) -> Array:
    return jax.nn.softmax(x.astype(jnp.float32), axis=-1).astype(x.dtype)


def quantized(x: Array, factor: float) -> Array:
    """Rounds half to even, to i8."""
    return jnp.clip(jnp.round(x * factor), -128, 127).astype(jnp.int8)


def halves(x: Array) -> Sequence[Array]:
    """Both halves of the last axis."""
    return jnp.split(x, 2, axis=-1)


def concatenated(parts: Sequence[Array], axis: int) -> Array:
    return jnp.concatenate(list(parts), axis=axis)


def rotated(x: Array, cosine: Array, sine: Array) -> Array:
    """Rotary positions of heads; the tables are `(tokens, size)`."""
    first, second = halves(x)
    turned = jnp.concatenate((-second, first), axis=-1)
    return x * cosine[:, None] + turned * sine[:, None]


def heads(x: Array, parts: int, size: int) -> Sequence[Array]:
    """`(batch, tokens, parts * width)` to `parts` tensors of heads of that size."""
    return [p.reshape(*p.shape[:2], -1, size) for p in jnp.split(x, parts, axis=-1)]


def merged(x: Array) -> Array:
    """Heads back to `(batch, tokens, width)`."""
    return x.reshape(*x.shape[:2], -1)


def appended(past: Array, new: Array) -> Array:
    """Heads of past tokens, followed by those of new tokens."""
    return jnp.concatenate((past, new), axis=1)


def attention(q: Array, k: Array, v: Array, causal: bool = False) -> Array:
    return jax.nn.dot_product_attention(q, k, v, is_causal=causal, implementation=implementation)


def convolution(x: Array, weight: Array, stride: int, padding: int) -> Array:
    return lax.conv_general_dilated(
        x,
        weight,
        (stride, stride),
        [(padding, padding)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


def batch_norm(x: Array, scale: Array, shift: Array, mean: Array, variance: Array) -> Array:
    factor = lax.rsqrt(variance.astype(jnp.float32) + 1e-5) * scale
    return ((x - mean.astype(jnp.float32)) * factor + shift).astype(x.dtype)


def max_pool(x: Array) -> Array:
    """3x3 with stride 2."""
    low = jnp.array(-jnp.inf, x.dtype)
    padding = ((0, 0), (1, 1), (1, 1), (0, 0))
    return lax.reduce_window(x, low, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), padding)


def mean_of_image(x: Array) -> Array:
    return x.astype(jnp.float32).mean((1, 2)).astype(x.dtype)


def patches(x: Array, weight: Array, bias: Array) -> Array:
    """`(batch, height, width, 3)` to `(batch, patches, width)`."""
    y = convolution(x, weight, weight.shape[0], 0) + bias
    return y.reshape(y.shape[0], -1, y.shape[-1])


def repeated(x: Array, batch: int) -> Array:
    """`(1, ...)` to `(batch, ...)`."""
    return jnp.broadcast_to(x, (batch, *x.shape[1:]))


LAYOUTS = {"heads": (0, 2, 1, 3), **CHANNELS_LAST, "filter": (2, 3, 1, 0)}
"""Layout of an argument -> order of PyTorch's axes in JAX."""
