"""Random matmuls, convolutions and attention."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F

from benchmarks.breadth.drawing import Argument, Draw, Drawn
from benchmarks.breadth.elementwise import chain

Tensor = torch.Tensor

MAX_FLOPS = 2e11


def _limited(draw: Draw, low: int, high: int, count: int, fixed: float = 1.0) -> list[int]:
    """Sizes whose product, doubled, is within the operations of a program."""
    while True:
        sizes = [draw.size(low, high) for _ in range(count)]
        if 2e6 <= 2 * fixed * math.prod(sizes) <= draw.limit(MAX_FLOPS):
            return sizes


_SIZES: dict[str, Callable[[Draw], tuple[int, int, int]]] = {
    "long_k": lambda draw: (draw.size(16, 512), draw.size(16, 512), draw.size(8192, 131072)),
    "few_rows": lambda draw: (
        draw.random.randint(1, 32),
        draw.size(512, 16384),
        draw.size(512, 16384),
    ),
    "tall": lambda draw: (draw.size(16384, 262144), draw.size(8, 128), draw.size(8, 256)),
}
"""M, N and K of the forms that are not like a cube."""


def matmul(draw: Draw) -> Drawn:
    """A matmul in any form, with a prologue, an epilogue, and at times a reduction behind it."""
    form = draw.one("linear", "linear", "matmul", "bmm", "einsum", "long_k", "few_rows", "tall")
    batch = draw.size(2, 256) if form in ("bmm", "einsum") else 1
    m, n, k = _limited(draw, 16, 8192, 3, batch)
    while form in _SIZES:
        m, n, k = _SIZES[form](draw)
        if m * n * k <= draw.limit(MAX_FLOPS) and max(m * k, k * n) <= draw.limit(2**28):
            break
    sizes = (batch, m, n) if batch > 1 else (m, n)
    after, epilogue, operands = chain(draw, sizes, 3)
    behind = draw.one("", "", "", "softmax", "layer_norm", "sum")
    bias = draw.chance(0.5)
    weight = Argument((n, k), "weight", k) if form == "linear" else Argument((k, n), "weight", k)
    left = Argument((m, k), order=draw.order(2, 0.15))
    if batch > 1:
        left = Argument((batch, m, k), order=draw.order(3, 0.2))
        weight = Argument((batch, k, n), "weight", k, order=draw.order(3, 0.2))

    def call(x: Tensor, w: Tensor, b: Tensor, *others: Tensor) -> Tensor:
        if form == "linear":
            y = F.linear(x, w, b if bias else None)
        elif form == "einsum":
            y = torch.einsum("bmk,bkn->bmn", x, w)
        else:
            y = x @ w + b if bias else x @ w
        y = epilogue(y, *others)
        if behind == "softmax":
            return y.softmax(-1)
        if behind == "layer_norm":
            return F.layer_norm(y, (n,))
        return y.sum(-1) if behind == "sum" else y

    text = f"{form}(x, w{', b' if bias else ''}){after}" + (f".{behind}()" if behind else "")
    return Drawn(text, call, (left, weight, Argument((n,)), *operands), 2.0 * batch * m * n * k)


def convolution(draw: Draw) -> Drawn:
    """A convolution of one to three dimensions, dense, grouped, depthwise or transposed."""
    dims = draw.one(1, 2, 2, 2, 2, 3)
    kind = draw.one("dense", "dense", "dense", "grouped", "depthwise", "transposed", "separable")
    side = {1: (256, 8192), 2: (8, 160), 3: (6, 40)}[dims]
    size, batch = draw.size(*side), draw.size(1, 32)
    kernel, stride, dilation = (
        draw.one(1, 3, 3, 3, 5, 7),
        draw.one(1, 1, 1, 2),
        draw.one(1, 1, 1, 2),
    )
    kernel = min(kernel, 3) if dims == 3 else kernel
    dilation = 1 if size <= 2 * dilation * kernel else dilation
    groups = draw.one(2, 4, 8) if kind == "grouped" else 1
    images = size**dims / stride**dims
    while True:
        inner = (
            draw.one(3, 4, 1) if draw.chance(0.08) and groups == 1 else groups * draw.size(4, 512)
        )
        outer = groups * draw.size(8, 512)
        if kind in ("depthwise", "separable"):
            inner = draw.size(16, 1024)
        depthwise = kind in ("depthwise", "separable")
        flops = 2 * batch * images * inner * kernel**dims * (1 if depthwise else outer / groups)
        if kind == "separable":
            flops += 2 * batch * images * inner * outer
        if kind == "transposed":
            flops *= stride**dims
        elements = batch * max(inner, outer) * size**dims
        if flops <= draw.limit(MAX_FLOPS) / 4 and elements < draw.limit(2**27):
            break
        batch = max(1, batch // 2)
        size = max(side[0], int(size * 0.8))
        images = size**dims / stride**dims
    padding = dilation * (kernel - 1) // 2
    function = getattr(F, f"conv{dims}d")
    transposed = getattr(F, f"conv_transpose{dims}d")
    taps = (kernel,) * dims
    bias, norm = draw.chance(0.5), draw.chance(0.3)
    act = draw.one("", "relu", "silu", "gelu", "relu")
    last = draw.chance(0.25) and dims == 2
    if kind == "transposed":
        weight = Argument((inner, outer, *taps), "weight", inner * kernel**dims)
    elif kind in ("depthwise", "separable"):
        weight = Argument((inner, 1, *taps), "weight", kernel**dims)
        outer = inner if kind == "depthwise" else outer
    else:
        weight = Argument((outer, inner // groups, *taps), "weight", inner * kernel**dims // groups)
    point = Argument((outer, inner, *((1,) * dims)), "weight", inner)
    image = Argument((batch, inner, *([size] * dims)), order=(0, 2, 3, 1) if last else ())
    channels = Argument((outer,), "uniform")

    def call(x: Tensor, w: Tensor, p: Tensor, b: Tensor, m: Tensor, v: Tensor) -> Tensor:
        given = b if bias else None
        if kind == "transposed":
            y = transposed(x, w, given, stride, padding)
        elif kind == "separable":
            y = F.relu(function(x, w, None, stride, padding, dilation, inner))
            y = function(y, p, given)
        elif kind == "depthwise":
            y = function(x, w, given, stride, padding, dilation, inner)
        else:
            y = function(x, w, given, stride, padding, dilation, groups)
        y = F.batch_norm(y, m, v, b, m) if norm else y
        return getattr(F, act)(y) if act else y

    text = f"{kind} conv{dims}d {kernel}, stride {stride}, dilation {dilation}, groups {groups}"
    text += f"{', bias' if bias else ''}{', batch norm' if norm else ''}{', ' + act if act else ''}"
    arguments = (image, weight, point, channels, channels, channels)
    return Drawn(text, call, arguments, flops)


def attention(draw: Draw) -> Drawn:
    """Attention of any head size, with masks, biases and shared keys; or one query."""
    heads, width = draw.one(1, 4, 8, 12, 16), draw.one(32, 64, 64, 64, 80, 96, 128, 128, 256)
    batch, queries = draw.size(1, 16), draw.size(16, 4096)
    keys = queries if draw.chance(0.7) else draw.size(16, 4096)
    if draw.chance(0.15):
        queries, keys = 1, draw.size(256, 16384)
    while batch * heads * queries * keys > draw.limit(2**28):
        queries, keys = max(1, queries // 2), keys // 2
    shared = draw.one(1, 1, 2, 4) if heads >= 4 else 1
    form = draw.one("plain", "plain", "causal", "causal", "bias", "written", "soft_cap", "window")
    if form == "causal" and queries != keys:
        form = "plain"
    q = Argument((batch, heads, queries, width))
    k = Argument((batch, heads // shared, keys, width))
    bias = Argument((1, heads, queries, keys))

    def call(q: Tensor, k: Tensor, v: Tensor, b: Tensor) -> Tensor:
        if form in ("plain", "causal", "bias"):
            mask = b if form == "bias" else None
            return F.scaled_dot_product_attention(
                q, k, v, mask, is_causal=form == "causal", enable_gqa=shared > 1
            )
        k, v = (t.repeat_interleave(shared, 1) if shared > 1 else t for t in (k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(width)
        if form == "soft_cap":
            scores = 20 * torch.tanh(scores / 20)
        if form == "window":
            distance = torch.arange(queries, device=q.device)[:, None] - torch.arange(
                keys, device=q.device
            )
            scores = scores.masked_fill(distance.abs() > 256, -1e4)
        return scores.softmax(-1) @ v

    text = f"attention {form}, {heads // shared} heads of keys"
    arguments = (q, k, k, bias) if form == "bias" else (q, k, k, Argument((1,)))
    return Drawn(text, call, arguments, 4.0 * batch * heads * queries * keys * width)
