"""Forms of `row_triton_kernel` over any dimensions: columns, channels, everything, indices."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F

from benchmarks.gpu.check.case import FLOATS, Chance, Input, Tensor, Work, as_before, named, wide
from benchmarks.gpu.check.rows import EPSILON, MAX_ELEMENTS, spelled


def _shape(chance: Chance) -> tuple[int, ...]:
    """A random shape of two to four dimensions."""
    rank = chance.pick(2, 3, 3, 4)
    sizes: list[int] = []
    for n in range(rank):
        left = MAX_ELEMENTS // math.prod(sizes)
        sizes.append(chance.size(max(2, min(left, (3000, 700, 200, 90)[n])), 2))
    return tuple(sizes)


def _dims(chance: Chance, rank: int) -> tuple[int, ...]:
    """Some of the dimensions, mostly not just the last."""
    if chance.likely(0.2):
        return tuple(range(rank))
    found = tuple(n for n in range(rank) if chance.likely(0.5))
    return found or (chance.below(rank),)


def _long_rows(chance: Chance) -> tuple[int, int]:
    """A few rows beyond the registers of a workgroup."""
    rows = chance.size(24)
    return rows, 4096 + chance.size(min(100_000, MAX_ELEMENTS // rows - 4096))


def sums(chance: Chance) -> Work:
    """Means, largest and smallest elements, and norms over any dimensions."""
    shape = _shape(chance)
    dims = _dims(chance, len(shape))
    table: dict[str, Callable[[Tensor], Tensor]] = {
        "mean": lambda x: x.mean(dims),
        "root mean square": lambda x: x.pow(2).mean(dims).sqrt(),
        "amax": lambda x: x.amax(dims),
        "amin": lambda x: x.amin(dims),
        "variance": lambda x: x.var(dims, correction=0),
        "logsumexp": lambda x: torch.logsumexp(x, dims),
        "mean of a GELU": lambda x: F.gelu(x).mean(dims, keepdim=True),
    }
    name = chance.pick(*table)
    kind = chance.pick("normal", "special") if name.startswith("am") else "normal"
    description = f"{name} {spelled(shape)} over {dims} {kind}"
    return Work(table[name], (Input(shape, kind),), chance.dtype(*FLOATS), description)


def several_reductions(chance: Chance) -> Work:
    """The mean and the maximum at once, as attention over channels has them."""
    shape = _shape(chance)
    dims = _dims(chance, len(shape))

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.mean(dims), x.amax(dims)

    return Work(program, (Input(shape),), chance.dtype(*FLOATS), f"{spelled(shape)} over {dims}")


def softmax_over_any(chance: Chance) -> Work:
    shape = _shape(chance)
    dim = chance.below(len(shape))
    log = chance.likely(0.3)

    def program(x: Tensor) -> Tensor:
        return F.log_softmax(x, dim) if log else F.softmax(x, dim)

    kind = chance.pick("normal", "special")
    description = f"{'log ' if log else ''}{spelled(shape)} over {dim} {kind}"
    return Work(program, (Input(shape, kind),), chance.dtype(*FLOATS), description)


def norm_over_channels(chance: Chance) -> Work:
    """RMS or layer norm over dimension 1, with a scale by channel and a residual."""
    shape = _shape(chance)
    centered = chance.likely(0.5)
    scale = (shape[1], *(1 for _ in shape[2:]))

    def program(x: Tensor, residual: Tensor, weight: Tensor) -> Tensor:
        y = wide(x)
        y = y - y.mean(1, keepdim=True) if centered else y
        y = y * torch.rsqrt(y.pow(2).mean(1, keepdim=True) + EPSILON)
        return as_before(y, x) * weight + residual

    inputs = (Input(shape), Input(shape), Input(scale, "scale"))
    description = f"{spelled(shape)}{', centered' if centered else ''}"
    return Work(program, inputs, chance.dtype(*FLOATS), description)


def batch_norm(chance: Chance) -> Work:
    """Batch norm in training: all dimensions but the second are reduced."""
    shape = _shape(chance)
    rectified = chance.likely(0.5)

    def program(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        y = F.batch_norm(x, None, None, weight, bias, training=True)
        return F.relu(y) if rectified else y

    channels = (shape[1],)
    inputs = (Input(shape), Input(channels, "scale"), Input(channels, "shift"))
    description = f"{spelled(shape)}{', ReLU' if rectified else ''}"
    return Work(program, inputs, chance.dtype(*FLOATS), description)


def norm_of_few_rows(chance: Chance) -> Work:
    """Group norm, or softmax, of a few long rows: kernels of splits, with prologue and epilogue."""
    images, groups, channels = chance.pick(1, 1, 2), chance.pick(1, 4, 8), chance.pick(1, 3, 10)
    pixels = chance.size(min(40_000, MAX_ELEMENTS // (images * groups * channels)), 700)
    shape = (images, groups * channels, pixels)
    activated, added, soft = (chance.likely(p) for p in (0.5, 0.5, 0.3))

    def program(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        y = x + residual if added else x
        if soft:
            y = F.softmax(y.flatten(1), 1).unflatten(1, y.shape[1:]) * residual
        else:
            y = F.group_norm(y, groups, weight, bias)
        return F.silu(y) if activated else y

    weights = Input(shape[1:2], "scale"), Input(shape[1:2], "shift")
    words = [f"{groups} groups" if not soft else "softmax", *["sum"] * added, *["SiLU"] * activated]
    description = f"{spelled(shape)}, {', '.join(words)}"
    inputs = (Input(shape), Input(shape), *weights)
    return Work(program, inputs, chance.dtype(*FLOATS), description)


def losses(chance: Chance) -> Work:
    """One number: the losses of two tensors."""
    shape = _shape(chance)[:2]
    table: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "squared error": F.mse_loss,
        "absolute error": F.l1_loss,
        "Huber": F.smooth_l1_loss,
        "KL divergence": lambda x, y: F.kl_div(
            F.log_softmax(x, -1), F.softmax(y, -1), reduction="batchmean"
        ),
        "cosine": lambda x, y: F.cosine_similarity(x, y, dim=-1).mean(),
    }
    name = chance.pick(*table)
    inputs = (Input(shape), Input(shape))
    return Work(table[name], inputs, chance.dtype(*FLOATS), f"{name} {spelled(shape)}")


def variances(chance: Chance) -> Work:
    """Variances and standard deviations of rows of any length, about means of any size."""
    shape = _long_rows(chance) if chance.likely(0.5) else _shape(chance)
    dims = _dims(chance, len(shape))
    if math.prod(shape[dim] for dim in dims) == 1:
        dims = (len(shape) - 1,)
    offset, correction = chance.pick(0.0, 3.0, 30.0), chance.below(2)
    table: dict[str, Callable[[Tensor], object]] = {
        "var": lambda x: torch.var(x, dims, correction=correction),
        "std": lambda x: torch.std(x, dims, correction=correction, keepdim=True),
        "var_mean": lambda x: torch.var_mean(x, dims, correction=correction),
        "of a GELU": lambda x: torch.var(F.gelu(x), dims, correction=correction),
    }
    name = chance.pick(*table)

    def program(x: Tensor) -> object:
        return table[name](x + offset)

    description = f"{name} {spelled(shape)} over {dims} about {offset:g}"
    return Work(program, (Input(shape),), chance.dtype(*FLOATS), description)


def distributions(chance: Chance) -> Work:
    """Reductions of softmax along any dimension, and losses of logits and classes."""
    shape = _long_rows(chance) if chance.likely(0.4) else _shape(chance)
    dim = len(shape) - 1 if chance.likely(0.7) else chance.below(len(shape))

    def entropy(x: Tensor, y: Tensor) -> Tensor:
        return -(F.softmax(x, dim) * F.log_softmax(x, dim)).sum(dim)

    def divergence(x: Tensor, y: Tensor) -> Tensor:
        targets = F.log_softmax(y, dim)
        return F.kl_div(F.log_softmax(x, dim), targets, reduction="none", log_target=True).sum(dim)

    def cross_entropy(x: Tensor, y: Tensor) -> Tensor:
        classes = torch.arange(x.shape[0], device=x.device) * 7 % x.shape[1]
        return F.cross_entropy(x.flatten(2).mean(2) if x.dim() > 2 else x, classes)

    table: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "entropy": entropy,
        "divergence": divergence,
        "expected value": lambda x, y: (F.softmax(x, dim) * y).sum(dim),
        "squares": lambda x, y: F.softmax(x, dim).pow(2).sum(dim) + y.sum(dim),
        "cross-entropy": cross_entropy,
    }
    name = chance.pick(*table)
    inputs = (
        (Input(shape), Input(shape))
        if name not in ("entropy", "cross-entropy")
        else (Input(shape),)
    )
    work = table[name]

    def program(x: Tensor, y: Tensor | None = None) -> Tensor:
        return work(x, x if y is None else y)

    return Work(program, inputs, chance.dtype(*FLOATS), f"{name} {spelled(shape)} over {dim}")


def indices(chance: Chance) -> Work:
    """The first index of the largest or smallest element, with ties and NaN."""
    shape = _shape(chance)
    dim, ties = chance.below(len(shape)), chance.likely(0.5)
    if chance.likely(0.3):  # few elements, which a thread reduces alone
        shape = (*shape[:dim], min(shape[dim], chance.size(16, 2)), *shape[dim + 1 :])
    both = chance.likely(0.4)
    largest = chance.likely(0.5)

    def program(x: Tensor) -> object:
        y = torch.floor(x * 2.0) if ties else x
        if both:
            found = y.max(dim) if largest else y.min(dim)
            return found.values, found.indices
        return y.argmax(dim) if largest else y.argmin(dim)

    kind = chance.pick("normal", "special")
    described = f"{'max' if largest else 'min'}{', value too' if both else ''}"
    description = f"{described} {spelled(shape)} over {dim} {kind}{', ties' if ties else ''}"
    return Work(program, (Input(shape, kind),), chance.dtype(*FLOATS), description)


def truths(chance: Chance) -> Work:
    """Counts, and whether all or any elements are above a limit."""
    shape = _shape(chance)
    dim = chance.below(len(shape))
    name, limit = chance.pick("all", "any", "count"), chance.pick(-3.0, 0.0, 3.0)

    def program(x: Tensor) -> Tensor:
        above = x > limit
        if name == "count":
            return above.sum(dim)
        return above.all(dim) if name == "all" else above.any(dim)

    description = f"{name} above {limit} {spelled(shape)} over {dim}"
    return Work(program, (Input(shape),), chance.dtype(*FLOATS), description)


def dynamic_batch_of_channels(chance: Chance) -> Work:
    """Softmax or mean over the channels of any number of images."""
    shape: tuple[int | str, ...] = ("batch", chance.size(300, 2), chance.size(900))
    mean = chance.likely(0.4)

    def program(x: Tensor) -> Tensor:
        return x.mean(1) if mean else F.softmax(x, 1)

    sizes = tuple({"batch": n} for n in (1, 2, 7, 33))
    description = f"{'mean' if mean else 'softmax'} {spelled(shape)}"
    return Work(program, (Input(shape),), chance.dtype(*FLOATS), description, sizes)


REDUCTIONS = named(
    sums,
    several_reductions,
    softmax_over_any,
    norm_over_channels,
    batch_norm,
    norm_of_few_rows,
    losses,
    variances,
    distributions,
    indices,
    truths,
    dynamic_batch_of_channels,
)
