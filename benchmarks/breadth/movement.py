"""Random data movement, poolings and blocks of layers."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks.breadth.drawing import Argument, Call, Draw, Drawn
from benchmarks.breadth.elementwise import UNARY

Tensor = torch.Tensor


def _images(draw: Draw) -> tuple[int, ...]:
    channels, side = 4 * draw.size(1, 128), 2 * draw.size(4, 96)
    batch = max(1, min(32, int(draw.elements() / (channels * side * side))))
    return batch, channels, side, side


def movement(draw: Draw) -> Drawn:
    """An op that moves elements, with an elementwise op before or after."""
    shape = draw.shape(draw.random.randint(2, 4), draw.elements(18, 26))
    dim, rank = draw.random.randrange(len(shape)), len(shape)
    order = tuple(draw.random.sample(range(rank), rank))
    wide = (*shape[:dim], max(1, shape[dim] // 2), *shape[dim + 1 :])
    count = draw.size(64, 65536)
    start, amount = draw.random.randint(0, 3), draw.random.randint(1, 5)
    step = draw.random.randint(1, 3)
    padding = [draw.random.randint(0, 4) for _ in range(4)]
    forms: dict[str, tuple[Call, tuple[Argument, ...]]] = {
        "permute": (lambda x: x.permute(order).contiguous(), (Argument(shape),)),
        "cat": (lambda x, y: torch.cat([x, y], dim), (Argument(shape), Argument(wide))),
        "stack": (lambda x, y: torch.stack([x, y], dim), (Argument(shape), Argument(shape))),
        "pad": (lambda x: F.pad(x, padding), (Argument(shape),)),
        "slice": (
            lambda x: x.narrow(dim, 0, max(1, shape[dim] - start))[..., ::step] * 2,
            (Argument(shape),),
        ),
        "roll": (lambda x: x.roll(amount, dim), (Argument(shape),)),
        "flip": (lambda x: x.flip(dim), (Argument(shape),)),
        "tril": (lambda x: x.tril(start), (Argument(shape),)),
        "repeat": (lambda x: x.repeat_interleave(2, dim), (Argument(shape),)),
        "index_select": (
            lambda x, i: x.index_select(dim, i),
            (Argument(shape), Argument((max(1, shape[dim] // 2),), "index", shape[dim])),
        ),
        "gather": (
            lambda x, i: x.gather(dim, i),
            (Argument(shape), Argument(wide, "index", shape[dim])),
        ),
        "embedding": (
            lambda w, i: F.embedding(i, w),
            (
                Argument((draw.size(1000, 100000), 8 * draw.size(8, 128))),
                Argument((count,), "index", 1000),
            ),
        ),
        "index_add": (
            lambda x, i, y: x.index_add(0, i, y),
            (
                Argument((draw.size(256, 8192), 256)),
                Argument((count,), "index", 256),
                Argument((count, 256)),
            ),
        ),
        "topk": (
            lambda x: x.topk(8).values,
            (Argument((draw.size(64, 4096), draw.size(64, 4096))),),
        ),
        "sort": (
            lambda x: x.sort(-1).values,
            (Argument((draw.size(64, 4096), draw.size(64, 4096))),),
        ),
    }
    name = draw.one("permute", *forms)
    function, arguments = forms[name]
    unary = draw.one("", *UNARY)
    if not unary:
        return Drawn(f"{name}({dim})", function, arguments)
    before, act = draw.chance(0.5), UNARY[unary]

    def call(x: Tensor, *others: Tensor) -> Tensor:
        return function(act(x), *others) if before else act(function(x, *others))

    return Drawn(f"{name}({dim}) {'after' if before else 'before'} {unary}", call, arguments)


def image(draw: Draw) -> Drawn:
    """A pooling, a resize or another op on images."""
    shape = _images(draw)
    kernel, stride = draw.one(2, 3, 3, 5), draw.one(1, 2, 2)
    forms: dict[str, Call] = {
        "max_pool": lambda x: F.max_pool2d(x, kernel, stride, kernel // 2),
        "avg_pool": lambda x: F.avg_pool2d(x, kernel, stride, kernel // 2),
        "global_pool": lambda x: F.adaptive_avg_pool2d(x, 1),
        "adaptive": lambda x: F.adaptive_avg_pool2d(x, shape[2] // 2),
        "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
        "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
        "nearest": lambda x: F.interpolate(x, scale_factor=2),
        "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        "reflect": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
        "squeeze_excite": lambda x: x * x.mean((2, 3), keepdim=True).sigmoid(),
    }
    name = draw.one(*forms)
    function = forms[name]
    act = draw.one("", "relu", "silu")
    call = (lambda x: getattr(F, act)(function(x))) if act else function
    return Drawn(f"{name} {kernel} stride {stride} {act}", call, (Argument(shape),))


def block(draw: Draw) -> Drawn:
    """A block of a network: an MLP, self-attention with a norm, or a residual of convolutions."""
    kind = draw.one("mlp", "gated_mlp", "attention", "residual", "mixer")
    if kind == "residual":
        channels, side, batch = 8 * draw.size(2, 32), draw.size(8, 56), draw.size(1, 32)
        while 36.0 * batch * (side * channels) ** 2 > draw.limit(2e12):
            batch, side = max(1, batch // 2), max(8, side // 2)
        w = Argument((channels, channels, 3, 3), "weight", channels * 9)
        c = Argument((channels,), "uniform")

        def residual(x: Tensor, a: Tensor, b: Tensor, s: Tensor, t: Tensor) -> Tensor:
            y = F.relu(F.batch_norm(F.conv2d(x, a, padding=1), t, s, s, t))
            return F.relu(x + F.batch_norm(F.conv2d(y, b, padding=1), t, s, s, t))

        flops = 36.0 * batch * side * side * channels * channels
        return Drawn(
            "residual block", residual, (Argument((batch, channels, side, side)), w, w, c, c), flops
        )
    heads = draw.one(4, 8, 12)
    width = heads * draw.one(32, 64, 64)
    tokens, batch, hidden = draw.size(64, 2048), draw.size(1, 16), 8 * draw.size(32, 512)
    batch = max(1, min(batch, int(draw.limit(2**24)) // (tokens * width)))
    while 4.0 * batch * tokens * width * max(hidden, width, tokens) > draw.limit(2e12):
        tokens, hidden = max(64, tokens // 2), max(256, hidden // 2)
    x = Argument((batch, tokens, width))
    square = Argument((width, width), "weight", width)
    up, down = (
        Argument((hidden, width), "weight", width),
        Argument((width, hidden), "weight", hidden),
    )
    g = Argument((width,), "uniform")
    flops = 4.0 * batch * tokens * width * hidden

    def mlp(x: Tensor, u: Tensor, d: Tensor, g: Tensor) -> Tensor:
        return x + F.linear(F.gelu(F.linear(F.layer_norm(x, (width,), g), u)), d)

    def gated(x: Tensor, u: Tensor, w: Tensor, d: Tensor, g: Tensor) -> Tensor:
        y = F.rms_norm(x, (width,), g, 1e-6)
        return x + F.linear(F.silu(F.linear(y, u)) * F.linear(y, w), d)

    def attend(x: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, g: Tensor) -> Tensor:
        y = F.layer_norm(x, (width,), g)
        parts = (F.linear(y, w).unflatten(-1, (heads, -1)).transpose(1, 2) for w in (q, k, v))
        found = F.scaled_dot_product_attention(*parts, is_causal=True)
        return x + F.linear(found.transpose(1, 2).flatten(2), o)

    def mixer(x: Tensor, t: Tensor, u: Tensor, d: Tensor, g: Tensor) -> Tensor:
        y = F.layer_norm(x, (width,), g).transpose(1, 2)
        x = x + F.gelu(F.linear(y, t)).transpose(1, 2)
        return x + F.linear(F.gelu(F.linear(x, u)), d)

    match kind:
        case "mlp":
            return Drawn("mlp", mlp, (x, up, down, g), flops)
        case "gated_mlp":
            return Drawn("gated mlp", gated, (x, up, up, down, g), 1.5 * flops)
        case "attention":
            arguments = (x, square, square, square, square, g)
            total = 8.0 * batch * tokens * width * width + 4.0 * batch * tokens * tokens * width
            return Drawn("self-attention", attend, arguments, total)
        case _:
            mixing = Argument((tokens, tokens), "weight", tokens)
            return Drawn("mixer", mixer, (x, mixing, up, down, g), flops)
