"""The measured programs, written once for PyTorch and JAX.

Their first argument is the module of operators, `with_torch` or `with_jax`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

QUANTIZATION = 30.0
"""Quantization steps of i8 in a standard deviation of a normalized row."""

RESNET_50 = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Stages: inner channels, blocks, stride of the first."""


def bias_gelu_residual(o: Any, x: Any, bias: Any, residual: Any) -> Any:
    return o.gelu(x + bias) + residual


def layer_norm(o: Any, x: Any, scale: Any, shift: Any) -> Any:
    return o.layer_norm(x, scale, shift)


def add_layer_norm(o: Any, x: Any, residual: Any, scale: Any, shift: Any) -> Any:
    total = x + residual
    return o.layer_norm(total, scale, shift), total


def rms_norm(o: Any, x: Any, scale: Any) -> Any:
    return o.rms_norm(x, scale)


def add_rms_norm(o: Any, x: Any, residual: Any, scale: Any) -> Any:
    total = x + residual
    return o.rms_norm(total, scale), total


def rms_norm_quant(o: Any, x: Any, scale: Any) -> Any:
    return o.quantized(o.rms_norm(x, scale), QUANTIZATION)


def softmax(o: Any, x: Any) -> Any:
    return o.softmax(x)


def swiglu(o: Any, x: Any) -> Any:
    gate, up = o.halves(x)
    return o.silu(gate) * up


def rope(o: Any, x: Any, cosine: Any, sine: Any) -> Any:
    return o.rotated(x, cosine, sine)


def matmul_bias_gelu(o: Any, x: Any, weight: Any, bias: Any) -> Any:
    return o.gelu(o.linear(x, weight, bias), tanh=True)


def attention(o: Any, q: Any, k: Any, v: Any) -> Any:
    return o.attention(q, k, v)


def causal_attention(o: Any, q: Any, k: Any, v: Any) -> Any:
    return o.attention(q, k, v, causal=True)


def conv_bn_relu(o: Any, x: Any, *weights: Any, stride: int, padding: int) -> Any:
    return o.relu(_conv_bn(o, x, iter(weights), stride, padding))


def bert(o: Any, x: Any, *weights: Any, layers: int, size: int = 64) -> Any:
    """Layers of BERT: norms after the residuals, exact GELU, no padding."""
    take = iter(weights)
    for _ in range(layers):
        mixed = o.attention(*o.heads(_linear(o, x, take), 3, size))
        x = o.layer_norm(x + _linear(o, o.merged(mixed), take), next(take), next(take))
        hidden = o.gelu(_linear(o, x, take))
        x = o.layer_norm(x + _linear(o, hidden, take), next(take), next(take))
    return x


def gpt(o: Any, x: Any, *weights: Any, layers: int, size: int = 64) -> Any:
    """Layers of GPT-2: norms first, causal, GELU by tanh."""
    return _pre_norm(o, x, iter(weights), layers, size, causal=True, tanh=True)


def vit(o: Any, image: Any, *weights: Any, layers: int, size: int = 64) -> Any:
    """ViT without its head: patches, class token, positions, layers, norm."""
    take = iter(weights)
    x = o.patches(image, next(take), next(take))
    x = o.concatenated((o.repeated(next(take), x.shape[0]), x), axis=1) + next(take)
    x = _pre_norm(o, x, take, layers, size, causal=False, tanh=False)
    return o.layer_norm(x, next(take), next(take))


def llama(o: Any, x: Any, cosine: Any, sine: Any, *weights: Any, size: int = 128) -> Any:
    """A layer of Llama 3 over all tokens of a prompt."""
    take = iter(weights)
    q, k, v = _llama_heads(o, x, cosine, sine, take, size)
    return _llama_rest(o, x, o.attention(q, k, v, causal=True), take)


def llama_decode(
    o: Any, x: Any, cosine: Any, sine: Any, keys: Any, values: Any, *weights: Any, size: int = 128
) -> Any:
    """A layer of Llama 3 for one new token; returns the longer caches too."""
    take = iter(weights)
    q, k, v = _llama_heads(o, x, cosine, sine, take, size)
    keys, values = o.appended(keys, k), o.appended(values, v)
    return _llama_rest(o, x, o.attention(q, keys, values), take), keys, values


def resnet50(o: Any, image: Any, *weights: Any) -> Any:
    """ResNet-50 with its stride in the 3x3 convolutions."""
    take = iter(weights)
    x = o.max_pool(o.relu(_conv_bn(o, image, take, 2, 3)))
    for _, blocks, first in RESNET_50:
        for block in range(blocks):
            stride = first if block == 0 else 1
            y = o.relu(_conv_bn(o, x, take, 1, 0))
            y = o.relu(_conv_bn(o, y, take, stride, 1))
            y = _conv_bn(o, y, take, 1, 0)
            x = o.relu(y + (_conv_bn(o, x, take, stride, 0) if block == 0 else x))
    return _linear(o, o.mean_of_image(x), take)


def _conv_bn(o: Any, x: Any, take: Iterator[Any], stride: int, padding: int) -> Any:
    y = o.convolution(x, next(take), stride, padding)
    return o.batch_norm(y, *itertools.islice(take, 4))


def _linear(o: Any, x: Any, take: Iterator[Any]) -> Any:
    return o.linear(x, next(take), next(take))


def _pre_norm(
    o: Any, x: Any, take: Iterator[Any], layers: int, size: int, *, causal: bool, tanh: bool
) -> Any:
    for _ in range(layers):
        normed = o.layer_norm(x, next(take), next(take))
        mixed = o.attention(*o.heads(_linear(o, normed, take), 3, size), causal=causal)
        x = x + _linear(o, o.merged(mixed), take)
        normed = o.layer_norm(x, next(take), next(take))
        x = x + _linear(o, o.gelu(_linear(o, normed, take), tanh=tanh), take)
    return x


def _llama_heads(
    o: Any, x: Any, cosine: Any, sine: Any, take: Iterator[Any], size: int
) -> tuple[Any, Any, Any]:
    normed = o.rms_norm(x, next(take))
    q, k, v = (o.heads(o.linear(normed, next(take)), 1, size)[0] for _ in range(3))
    return o.rotated(q, cosine, sine), o.rotated(k, cosine, sine), v


def _llama_rest(o: Any, x: Any, mixed: Any, take: Iterator[Any]) -> Any:
    x = x + o.linear(o.merged(mixed), next(take))
    normed = o.rms_norm(x, next(take))
    gate, up, down = itertools.islice(take, 3)
    return x + o.linear(o.silu(o.linear(normed, gate)) * o.linear(normed, up), down)
