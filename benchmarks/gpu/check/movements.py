"""Forms of `scan_triton_kernel`, and of `elementwise_triton_kernel` where it moves data."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.gpu.check.case import FLOATS, TOLERANCES, Chance, Input, Tensor, Work, named

MAX_ELEMENTS = 1 << 21
"""Maximum size of a tensor in elements."""


def shape_of(chance: Chance, rank: int) -> tuple[int, ...]:
    """A random shape of that rank."""
    found: list[int] = []
    left = MAX_ELEMENTS
    for _ in range(rank):
        size = chance.size(max(2, min(left, 4000 if len(found) < 2 else 70)), 2)
        found.append(size)
        left = max(1, left // size)
    return tuple(found if chance.likely(0.5) else found[::-1])


def spelled(shape: tuple[int, ...]) -> str:
    """A shape as text."""
    return "x".join(map(str, shape))


def cumulative(chance: Chance) -> Work:
    """Sums, products and log-sum-exp along any dimension, between elementwise ops.

    From either end; some are few and long.
    """
    shape = shape_of(chance, chance.pick(1, 2, 3))
    if chance.likely(0.25):
        shape = (*([chance.size(4)] if chance.likely(0.5) else []), chance.size(MAX_ELEMENTS, 2))
    dim = chance.pick(*range(len(shape)))
    backwards, around = chance.likely(0.3), chance.likely(0.5)
    name = chance.pick("sum", "product", "log-sum-exp")
    product = name == "product"

    def program(x: Tensor) -> Tensor:
        y = x * 0.5 if around and not product else x
        y = y.flip(dim) if backwards else y
        # Factors near one: the product of a long row stays in range.
        if product:
            y = torch.cumprod(1.0 + y / (4.0 * shape[dim]), dim)
        else:
            y = torch.cumsum(y, dim) if name == "sum" else torch.logcumsumexp(y, dim)
        y = y.flip(dim) if backwards else y
        # Sums of a long row are large, and rounded as such where they cross zero.
        return torch.tanh(y * shape[dim] ** -0.5) if around else y

    description = f"{name} of {spelled(shape)} along {dim}{', backwards' if backwards else ''}"
    dtype = chance.dtype(*FLOATS)
    # Each factor that is just below one may round a product above one down by half its last place.
    rounded = TOLERANCES[dtype] + shape[dim] * 2.0**-25 if product else 0.0
    return Work(program, (Input(shape),), dtype, description, tolerance=rounded)


def padded(chance: Chance) -> Work:
    """Constant padding of an elementwise result."""
    shape = shape_of(chance, chance.pick(2, 3))
    amounts = [chance.pick(0, 1, 2, 7) for _ in range(4)]
    amounts[0] = amounts[0] or 1
    value = chance.pick(0.0, -1.5)

    def program(x: Tensor) -> Tensor:
        return F.pad(torch.sin(x), amounts, value=value)

    return Work(program, (Input(shape),), chance.dtype(*FLOATS), f"{spelled(shape)} {amounts}")


def joined(chance: Chance) -> Work:
    """A concatenation of computed parts and a strided slice, and an op on all of it."""
    shape = shape_of(chance, chance.pick(2, 3))
    dim, step = chance.pick(*range(len(shape))), chance.pick(1, 2, 3)
    other = tuple(size * step + 1 if n == dim else size for n, size in enumerate(shape))

    def program(x: Tensor, y: Tensor) -> Tensor:
        index = [slice(None)] * len(shape)
        index[dim] = slice(1, None, step)
        return F.relu(torch.cat([torch.sin(x), y[tuple(index)], x], dim))

    inputs = (Input(shape), Input(other))
    return Work(program, inputs, chance.dtype(*FLOATS), f"{spelled(shape)} along {dim}, {step}")


def rolled(chance: Chance) -> Work:
    """A roll along one or two dimensions, or a flip."""
    shape = shape_of(chance, chance.pick(2, 3))
    dims = (0, len(shape) - 1) if chance.likely(0.5) else (len(shape) - 1,)
    shifts = tuple(chance.pick(1, 3, -2) for _ in dims)
    flips = chance.likely(0.3)

    def program(x: Tensor) -> Tensor:
        return x.flip(dims) * 2.0 if flips else torch.roll(x, shifts, dims) * 2.0

    words = f"{spelled(shape)} {'flip' if flips else shifts} {dims}"
    return Work(program, (Input(shape),), chance.dtype(*FLOATS), words)


def permuted(chance: Chance) -> Work:
    """A copy in any order of the dimensions, small ones too."""
    shape = shape_of(chance, chance.pick(2, 3, 4))
    order = [*range(len(shape))]
    while order == [*range(len(shape))]:
        order = sorted(order, key=lambda _: chance.size(1000))

    def program(x: Tensor) -> Tensor:
        return x.permute(order) * 2.0

    return Work(program, (Input(shape),), chance.dtype(*FLOATS), f"{spelled(shape)} {order}")


def taken(chance: Chance) -> Work:
    """Rows at indices, or an element of each row at its own indices."""
    rows, columns, count = chance.size(3000, 1), chance.size(700, 1), chance.size(900, 1)
    each = chance.likely(0.5)

    def program(x: Tensor, index: Tensor) -> Any:
        return (torch.gather(x, 1, index) if each else F.embedding(index, x)) * 2.0

    shape, limit = ((rows, count), columns) if each else ((count,), rows)
    inputs = (Input((rows, columns)), Input(shape, "index", "i64", limit))
    words = f"{'gather' if each else 'embedding'} of {rows}x{columns}, {count}"
    return Work(program, inputs, chance.dtype(*FLOATS), words)


def resized(chance: Chance) -> Work:
    """An image of another size, or with its edges reflected or repeated."""
    pixels = [chance.size(200, 5) for _ in range(2)]
    shape = (chance.size(3), chance.size(20), *pixels)
    size = [chance.pick(2 * n, 3 * n, chance.size(400)) for n in pixels]
    mode = chance.pick("nearest", "bilinear", "bicubic", "reflect", "replicate")
    corners = chance.likely(0.3) if mode in ("bilinear", "bicubic") else None
    amounts = [chance.size(4) for _ in range(4)]

    def program(x: Tensor) -> Tensor:
        if mode in ("reflect", "replicate"):
            return F.pad(x, amounts, mode=mode) * 2.0
        return F.interpolate(x, size=size, mode=mode, align_corners=corners) * 2.0

    words = f"{mode} of {spelled(shape)} to {size}" if mode[0] in "nb" else f"{mode} {amounts}"
    return Work(program, (Input(shape),), chance.dtype(*FLOATS), words)


SCANS = named(cumulative)

MOVEMENTS = named(padded, joined, rolled, permuted, taken, resized)
