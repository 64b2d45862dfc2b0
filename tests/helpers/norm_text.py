"""Writes norms on tensors op by op, in the ways that frameworks write them."""

from __future__ import annotations

from helpers.linalg_text import Function, Tensor

EPSILON = 1e-5


def broadcast(f: Function, tensor: Tensor, axes: tuple[int, ...]) -> Tensor:
    return f.apply("copy", tensor, axes=axes)


def mean(f: Function, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    count = 1
    for axis in axes:
        count *= f.sizes[axis]
    return f.apply("arith.divf", f.reduce("arith.addf", x, axes), float(count))


def layer_norm(
    f: Function,
    x: Tensor,
    axes: tuple[int, ...],
    gamma: Tensor | None,
    beta: Tensor | None,
    stats: str,
) -> Tensor:
    """As `aten.native_layer_norm` decomposes: statistics in `stats`, one cast at the end."""
    wide = f.cast(x, stats)
    centered = f.apply("arith.subf", wide, broadcast(f, mean(f, wide, axes), x.axes))
    variance = mean(f, f.apply("arith.mulf", centered, centered), axes)
    rstd = f.apply("math.rsqrt", f.apply("arith.addf", variance, EPSILON))
    scaled = f.apply("arith.mulf", centered, broadcast(f, rstd, x.axes))
    if gamma is not None:
        scaled = f.apply("arith.mulf", scaled, f.cast(gamma, stats))
    if beta is not None:
        scaled = f.apply("arith.addf", scaled, f.cast(beta, stats))
    return f.cast(scaled, x.dtype)


def fast_layer_norm(
    f: Function, x: Tensor, axes: tuple[int, ...], gamma: Tensor, beta: Tensor, stats: str
) -> Tensor:
    """As flax computes it: the variance as a difference of moments, gamma into rstd."""
    wide = f.cast(x, stats)
    average = mean(f, wide, axes)
    square = mean(f, f.apply("arith.mulf", wide, wide), axes)
    variance = f.apply("arith.subf", square, f.apply("arith.mulf", average, average))
    variance = f.apply("arith.maximumf", variance, 0.0)
    rstd = f.apply("math.rsqrt", f.apply("arith.addf", variance, EPSILON))
    scale = f.apply("arith.mulf", rstd, f.cast(gamma, stats))
    centered = f.apply("arith.subf", wide, average)
    scaled = f.apply("arith.mulf", centered, scale)
    return f.cast(f.apply("arith.addf", scaled, f.cast(beta, stats)), x.dtype)


def rms_norm(f: Function, x: Tensor, axes: tuple[int, ...], gamma: Tensor, stats: str) -> Tensor:
    """As Llama writes it: cast back before gamma."""
    wide = f.cast(x, stats)
    square = mean(f, f.apply("arith.mulf", wide, wide), axes)
    rstd = f.apply("math.rsqrt", f.apply("arith.addf", square, EPSILON))
    scaled = f.cast(f.apply("arith.mulf", wide, rstd), x.dtype)
    return f.apply("arith.mulf", gamma, scaled)


def divided_rms_norm(
    f: Function, x: Tensor, axes: tuple[int, ...], gamma: Tensor, stats: str
) -> Tensor:
    """As an ONNX graph of Pow, ReduceMean, Sqrt and Div computes it."""
    wide = f.cast(x, stats)
    square = mean(f, f.apply("math.powf", wide, 2.0), axes)
    root = f.apply("math.sqrt", f.apply("arith.addf", square, EPSILON))
    scaled = f.cast(f.apply("arith.divf", wide, broadcast(f, root, x.axes)), x.dtype)
    return f.apply("arith.mulf", scaled, gamma)


WRITINGS = {
    "layer_norm": layer_norm,
    "fast_layer_norm": fast_layer_norm,
    "rms_norm": rms_norm,
    "divided_rms_norm": divided_rms_norm,
}


def silu(f: Function, x: Tensor) -> Tensor:
    """As frameworks write it: two ops read the value, and a narrow one is widened between."""
    wide = f.cast(x, "f32")
    divisor = f.apply("arith.addf", f.apply("math.exp", f.apply("arith.negf", wide)), 1.0)
    return f.cast(f.apply("arith.divf", wide, divisor), x.dtype)


def group_norm_text(
    name: str,
    dtype: str,
    rows: int | None,
    groups: int,
    per_group: int,
    space: int,
    channels_last: bool = False,
) -> str:
    """A group norm with a scale and a shift by channel, computed in f32.

    Takes (batch, channel, space), or (batch, space, channel) with `channels_last`.
    """
    f = Function(name, (rows, space, groups, per_group, groups * per_group, space))
    layout = (0, 1, 4) if channels_last else (0, 4, 5)
    split = (0, 1, 2, 3) if channels_last else (0, 2, 3, 5)
    summed = (1, 3) if channels_last else (3, 5)
    dims = "[[0], [1], [2, 3]]" if channels_last else "[[0], [1, 2], [3]]"
    x, gamma, beta = f.argument(layout, dtype), f.argument((4,), dtype), f.argument((4,), dtype)
    wide = f.reshape(f.cast(x, "f32"), split, dims)
    centered = f.apply("arith.subf", wide, mean(f, wide, summed))
    variance = mean(f, f.apply("arith.mulf", centered, centered), summed)
    rstd = f.apply("math.rsqrt", f.apply("arith.addf", variance, EPSILON))
    normed = f.reshape(f.apply("arith.mulf", centered, rstd), layout, dims)
    scaled = f.apply("arith.mulf", normed, f.cast(gamma, "f32"))
    return f.finish(f.cast(f.apply("arith.addf", scaled, f.cast(beta, "f32")), dtype))


def quantized(
    f: Function, y: Tensor, scale: Tensor, offset: Tensor | None, *, signed: bool = True
) -> Tensor:
    """`y` scaled and shifted in f32, rounded half to even and clamped to 8 bits."""
    q = f.apply("arith.mulf", f.cast(y, "f32"), scale)
    if offset is not None:
        q = f.apply("arith.addf", q, offset)
    low, high = (-128.0, 127.0) if signed else (0.0, 255.0)
    q = f.apply("math.roundeven", q)
    q = f.apply("arith.minimumf", f.apply("arith.maximumf", q, low), high)
    return f.cast(q, "i8", "arith.fptosi" if signed else "arith.fptoui")
