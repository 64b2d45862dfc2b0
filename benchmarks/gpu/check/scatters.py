"""Forms of `scatter_triton_kernel`: sums, extremes and copies at indices."""

from __future__ import annotations

import torch

from benchmarks.gpu.check.case import FLOATS, Chance, Input, Tensor, Work, named
from benchmarks.gpu.check.movements import shape_of, spelled


def summed_rows(chance: Chance) -> Work:
    """Slices along any dimension are added at indices, between elementwise ops."""
    shape = shape_of(chance, chance.pick(1, 2, 3))
    dim, count = chance.pick(*range(len(shape))), chance.size(3000)
    before, after = chance.likely(0.3), chance.likely(0.3)

    def program(x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
        y = torch.index_add(x * 0.5 if before else x, dim, index, torch.sin(updates))
        return torch.tanh(y) if after else y

    updates = tuple(count if n == dim else size for n, size in enumerate(shape))
    inputs = (Input(shape), Input((count,), "index", "i64", shape[dim]), Input(updates))
    words = f"{spelled(shape)} along {dim}, {count}"
    return Work(program, inputs, chance.dtype(*FLOATS), words, reordered=True)


def reduced_elements(chance: Chance) -> Work:
    """Each element is added, or compared, at an index of its own."""
    shape = shape_of(chance, chance.pick(1, 2, 3))
    dim, count = chance.pick(*range(len(shape))), chance.size(70)
    way, included = chance.pick("sum", "amax", "amin", "mean", "prod"), chance.likely(0.5)

    def program(x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
        u = 1.0 + updates / 64.0 if way == "prod" else updates
        return torch.scatter_reduce(x, dim, index, u, way, include_self=included)

    updates = tuple(count if n == dim else size for n, size in enumerate(shape))
    inputs = (Input(shape), Input(updates, "index", "i64", shape[dim]), Input(updates))
    words = f"{way} in {spelled(shape)} along {dim}, {count}{', included' if included else ''}"
    return Work(program, inputs, chance.dtype(*FLOATS), words, reordered=True)


def counted(chance: Chance) -> Work:
    """A histogram of few or many bins."""
    bins, count = chance.size(chance.pick(16, 5000)), chance.size(200000)

    def program(index: Tensor, weights: Tensor) -> Tensor:
        return weights.new_zeros(bins).scatter_add(0, index, torch.sigmoid(weights))

    inputs = (Input((count,), "index", "i64", bins), Input((count,)))
    words = f"{count} in {bins} bins"
    return Work(program, inputs, chance.dtype(*FLOATS), words, reordered=True)


def gradient_of_rows(chance: Chance) -> Work:
    """The gradient of an embedding."""
    rows, columns = chance.size(5000), chance.size(700)
    batch, tokens = chance.size(16), chance.size(200)

    def program(gradient: Tensor, index: Tensor) -> Tensor:
        found = torch.ops.aten.embedding_dense_backward(gradient, index, rows, -1, False)
        assert isinstance(found, Tensor)
        return found

    inputs = (
        Input((batch, tokens, columns)),
        Input((batch, tokens), "index", "i64", rows),
    )
    words = f"{rows}x{columns}, {batch}x{tokens}"
    return Work(program, inputs, chance.dtype(*FLOATS), words, reordered=True)


def placed(chance: Chance) -> Work:
    """Slices replace those at computed indices, which are all different."""
    shape = shape_of(chance, chance.pick(2, 3))
    dim = chance.pick(*range(len(shape)))
    count = chance.size(shape[dim])

    def program(x: Tensor, start: Tensor, updates: Tensor) -> Tensor:
        index = (start - torch.arange(count, device=x.device)) % shape[dim]
        return torch.index_copy(x, dim, index, updates * 2.0)

    updates = tuple(count if n == dim else size for n, size in enumerate(shape))
    inputs = (Input(shape), Input((1,), "index", "i64", shape[dim]), Input(updates))
    return Work(program, inputs, chance.dtype(*FLOATS), f"{spelled(shape)} along {dim}")


SCATTERS = named(summed_rows, reduced_elements, counted, gradient_of_rows, placed)
