"""Random programs of ops of several kinds that one kernel may compute."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from benchmarks.breadth.drawing import Argument, Draw, Drawn
from benchmarks.breadth.elementwise import UNARY

Tensor = torch.Tensor


def joined(draw: Draw) -> Drawn:
    """A row op of gathered or sliced rows, an op behind an activation, or attention by hand."""
    forms = (_embeddings, _activated, _sliced, _rotary, _attention, _patches)
    found: Drawn = draw.one(*forms)(draw)
    return found


def _normed(name: str, x: Tensor, g: Tensor) -> Tensor:
    """Rows of a tensor as a layer of a model treats them."""
    if name == "layer_norm":
        return F.layer_norm(x, (x.shape[-1],), g)
    return F.rms_norm(x, (x.shape[-1],), g, 1e-6) if name == "rms_norm" else (x * g).softmax(-1)


def _embeddings(draw: Draw) -> Drawn:
    """A sum of embeddings and a norm of it, as a language model begins."""
    norm, count, kept = draw.one("layer_norm", "rms_norm"), draw.one(1, 2, 2, 3), draw.chance(0.3)
    batch, tokens, width = draw.size(1, 32), draw.size(1, 1024), draw.size(32, 2048)
    rows = draw.size(1000, 50000)

    def call(g: Tensor, *others: Tensor) -> tuple[Tensor, ...] | Tensor:
        tables, indices = others[:count], others[count:]
        x = F.embedding(indices[0], tables[0])
        for table, index in zip(tables[1:], indices[1:], strict=True):
            x = x + F.embedding(index, table)
        return (x, _normed(norm, x, g)) if kept else _normed(norm, x, g)

    sizes = [(rows, width), (512, width), (2, width)][:count]
    indices = [(batch, tokens), (tokens,), (batch, tokens)][:count]
    bounds = [rows, 512, 2]
    arguments = (
        Argument((width,), "uniform"),
        *(Argument(size) for size in sizes),
        *(Argument(size, "index", bounds[n]) for n, size in enumerate(indices)),
    )
    return Drawn(f"{norm} of {count} embeddings{', both' * kept}", call, arguments)


def _activated(draw: Draw) -> Drawn:
    """An activation in front of an op on images."""
    channels, side = draw.size(1, 128), 2 * draw.size(4, 64)
    batch = max(1, min(32, int(draw.elements(16, 25) / (channels * side * side))))
    kernel, act = draw.one(2, 3, 5), draw.one(*UNARY)
    forms = {
        "max_pool": lambda x: F.max_pool2d(x, kernel, 2, kernel // 2),
        "avg_pool": lambda x: F.avg_pool2d(x, kernel, 2, kernel // 2),
        "nearest": lambda x: F.interpolate(x, scale_factor=2),
        "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        "reflect": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
        "replicate": lambda x: F.pad(x, (2, 1, 0, 3), mode="replicate"),
        "unfold": lambda x: F.unfold(x, 3, padding=1),
        "flip": lambda x: x.flip(-1),
    }
    name = draw.one(*forms)
    function, activation = forms[name], UNARY[act]
    text = f"{name} {kernel} of {act}"
    return Drawn(
        text, lambda x: function(activation(x)), (Argument((batch, channels, side, side)),)
    )


def _sliced(draw: Draw) -> Drawn:
    """Rows or columns of a tensor, some left out, and a row op or a matmul of them."""
    rows, columns = draw.size(8, 8192), draw.size(16, 4096)
    step, start, along = draw.one(1, 2, 2, 3), draw.random.randint(0, 3), draw.one(-1, -2)
    name, width = draw.one("layer_norm", "softmax", "sum", "matmul"), draw.size(8, 512)
    batch, act = draw.one(1, 1, draw.size(2, 8)), draw.one("", "", *UNARY)
    size = (columns if along == -1 else rows) - start
    kept = -(-size // step)
    inner = kept if along == -1 else columns

    def call(x: Tensor, w: Tensor) -> Tensor:
        x = UNARY[act](x) if act else x
        x = x[..., start::step] if along == -1 else x[..., start::step, :]
        if name == "matmul":
            return x @ w
        return x.sum(-1) * w if name == "sum" else _normed(name, x, w)

    other = {
        "matmul": Argument((inner, width), "weight", inner),
        "sum": Argument((1,), "uniform"),
    }.get(name, Argument((inner,), "uniform"))
    text = f"{name} of {act}(x)[{start}::{step}, {along}]"
    flops = 2.0 * batch * rows * inner * width if name == "matmul" else 0.0
    return Drawn(text, call, (Argument((batch, rows, columns)), other), flops)


def _rotary(draw: Draw) -> Drawn:
    """A rotary embedding: by halves, by neighbors, or by complex numbers."""
    form, heads = draw.one("halves", "neighbors", "complex"), draw.size(1, 32)
    batch, tokens, width = draw.size(1, 8), draw.size(1, 2048), 2 * draw.size(8, 64)

    def call(x: Tensor, angles: Tensor) -> Tensor:
        wide = x if x.dtype == torch.float64 else x.float()
        angles = angles.to(wide.dtype)
        if form == "complex":
            numbers = torch.view_as_complex(wide.unflatten(-1, (-1, 2)))
            turns = torch.polar(torch.ones_like(angles), angles)
            return torch.view_as_real(numbers * turns[:, None]).flatten(-2).to(x.dtype)
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        if form == "halves":
            one, other = wide.chunk(2, -1)
            found = torch.cat((one * cos - other * sin, other * cos + one * sin), -1)
        else:
            one, other = wide[..., 0::2], wide[..., 1::2]
            found = torch.stack((one * cos - other * sin, other * cos + one * sin), -1).flatten(-2)
        return found.to(x.dtype)

    arguments = (Argument((batch, tokens, heads, width)), Argument((tokens, width // 2), "uniform"))
    return Drawn(f"rotary by {form}", call, arguments)


def _attention(draw: Draw) -> Drawn:
    """Attention of matmuls and a softmax, with a mask that the model builds itself."""
    mask = draw.one("none", "tril", "triu", "window", "prefix", "lengths")
    batch, heads, width = draw.size(1, 8), draw.size(1, 16), 8 * draw.size(2, 16)
    tokens, wide = draw.size(16, 2048), draw.size(1, 512)
    while 4.0 * batch * heads * tokens * tokens * width > draw.limit(2**36):
        batch, tokens = max(1, batch // 2), max(16, tokens // 2)

    def call(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
        scores = q @ k.transpose(-1, -2) / math.sqrt(width)
        place = torch.arange(tokens, device=q.device)
        if mask == "tril":
            seen = torch.tril(torch.ones(tokens, tokens, device=q.device))
            scores = scores.masked_fill(seen == 0, float("-inf"))
        elif mask == "triu":
            hidden = torch.full((tokens, tokens), float("-inf"), device=q.device).triu(1)
            scores = scores + hidden.to(q.dtype)
        elif mask == "window":
            seen = (place[:, None] - place).abs() < wide
            scores = scores.masked_fill(~seen, float("-inf"))
        elif mask == "prefix":
            seen = (place[:, None] >= place) | (place < wide)
            scores = scores.masked_fill(~seen, float("-inf"))
        elif mask == "lengths":
            seen = place < lengths[:, None, None, None] + 1
            scores = scores.masked_fill(~seen, float("-inf"))
        return scores.softmax(-1) @ v

    heads_of = Argument((batch, heads, tokens, width))
    arguments = (heads_of, heads_of, heads_of, Argument((batch,), "index", tokens))
    flops = 4.0 * batch * heads * tokens * tokens * width
    return Drawn(f"attention by hand, {mask} {wide}", call, arguments, flops)


def _patches(draw: Draw) -> Drawn:
    """Patches or windows of an image, and what a vision model does with them."""
    form, patch = draw.one("embed", "norm", "windows", "shifted", "merge"), draw.one(2, 4, 8)
    channels, count = draw.size(3, 96), draw.size(2, 32)
    batch, side, width = draw.size(1, 16), patch * count, draw.size(32, 768)
    while batch * channels * side * side > draw.limit(2**25):
        batch, count = max(1, batch // 2), max(2, count // 2)
        side = patch * count
    last = form in ("windows", "shifted", "merge")
    inner = channels if form in ("windows", "shifted") else channels * patch * patch
    inner = 4 * channels if form == "merge" else inner

    def call(x: Tensor, w: Tensor, g: Tensor) -> Tensor:
        if form in ("embed", "norm"):
            x = x.unfold(2, patch, patch).unfold(3, patch, patch)
            x = x.permute(0, 2, 3, 1, 4, 5).reshape(batch, count * count, inner)
            return x @ w if form == "embed" else F.layer_norm(x, (inner,), g)
        if form == "merge":
            parts = (x[:, i::2, j::2] for j in (0, 1) for i in (0, 1))
            return F.layer_norm(torch.cat(tuple(parts), -1), (inner,), g) @ w
        x = F.layer_norm(x, (channels,), g)
        x = x.roll((patch // 2, patch // 2), (1, 2)) if form == "shifted" else x
        x = x.unflatten(2, (count, patch)).unflatten(1, (count, patch))
        return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, patch * patch, channels) @ w

    image = (batch, side, side, channels) if last else (batch, channels, side, side)
    arguments = (
        Argument(image),
        Argument((inner, width), "weight", inner),
        Argument((inner,), "uniform"),
    )
    outputs = batch * side * side // (1 if form in ("windows", "shifted") else patch * patch)
    flops = 0.0 if form == "norm" else 2.0 * outputs * inner * width
    return Drawn(f"patches, {form} {patch}", call, arguments, flops)
