"""Random elementwise functions, reductions, norms, losses and scans."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F

from benchmarks.breadth.drawing import Argument, Call, Draw, Drawn

Tensor = torch.Tensor

UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
    "hardswish": F.hardswish,
    "elu": F.elu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "sin": torch.sin,
    "cos": torch.cos,
    "erf": torch.erf,
    "abs": torch.abs,
    "exp": lambda x: torch.exp(-x.abs()),
    "log1p": lambda x: torch.log1p(x.abs()),
    "sqrt": lambda x: torch.sqrt(x.abs()),
    "rsqrt": lambda x: torch.rsqrt(x * x + 1),
    "square": lambda x: x * x,
    "clamp": lambda x: x.clamp(-1, 1),
    "scale": lambda x: x * 0.5 + 0.25,
    "round_mask": lambda x: torch.where(x > 0, x, x * 0.1),
}
"""Functions of one tensor."""

BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": lambda x, y: x / (y.abs() + 1),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    # Both are the same where rounding decides.
    "where": lambda x, y: torch.where(x > y, x, (x + y) * 0.5),
    "swiglu": lambda x, y: F.silu(x) * y,
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
}
"""Functions of two tensors."""


def chain(draw: Draw, shape: tuple[int, ...], most: int) -> tuple[str, Call, tuple[Argument, ...]]:
    """Up to `most` elementwise ops in a row, with further operands that are whole or broadcast.

    Returns:
      The text; a function of the tensor and of the further operands; these operands.
    """
    steps: list[tuple[str, Call, int]] = []
    operands: list[Argument] = []
    for _ in range(draw.random.randint(0, most)):
        if draw.chance(0.65):
            name = draw.one(*UNARY)
            steps.append((name, UNARY[name], 0))
            continue
        name = draw.one(*BINARY)
        steps.append((name, BINARY[name], 1))
        dims = [n for n in range(len(shape)) if draw.chance(draw.one(1.0, 1.0, 0.5))]
        kept = tuple(size if n in dims else 1 for n, size in enumerate(shape))
        operands.append(Argument(kept, order=draw.order(len(kept), 0.1)))

    def call(x: Tensor, *others: Tensor) -> Tensor:
        given = iter(others)
        for _, function, count in steps:
            x = function(x, *(next(given) for _ in range(count)))
        return x

    return "".join(f".{name}()" for name, _, _ in steps), call, tuple(operands)


def pointwise(draw: Draw) -> Drawn:
    """One to six elementwise ops on tensors of any rank, some of them permuted."""
    shape = draw.shape(draw.random.randint(1, 4), draw.elements())
    text, call, operands = chain(draw, shape, 6)
    if not text:
        text, call = ".gelu()", F.gelu
    return Drawn(f"x{text}", call, (Argument(shape, order=draw.order(len(shape))), *operands))


REDUCTIONS: dict[str, Callable[[Tensor, list[int], bool], Tensor]] = {
    "sum": lambda x, d, k: x.sum(d, keepdim=k),
    "mean": lambda x, d, k: x.mean(d, keepdim=k),
    "amax": lambda x, d, k: x.amax(d, keepdim=k),
    "amin": lambda x, d, k: x.amin(d, keepdim=k),
    "var": lambda x, d, k: x.var(d, keepdim=k, correction=0),
    "std": lambda x, d, k: x.std(d, keepdim=k, correction=0),
    "norm": lambda x, d, k: torch.linalg.vector_norm(x, 2, d, keepdim=k),
    "logsumexp": lambda x, d, k: x.logsumexp(d, keepdim=k),
    "mean_square": lambda x, d, k: (x * x).mean(d, keepdim=k),
    "any": lambda x, d, k: (x > 3).any(d[0], keepdim=k),
    "argmax": lambda x, d, k: x.argmax(d[0], keepdim=k),
    "argmin": lambda x, d, k: x.argmin(d[0], keepdim=k),
    "max_values": lambda x, d, k: x.max(d[0], keepdim=k).values,
    "prod": lambda x, d, k: (1 + x * 0.01).prod(d[0], keepdim=k),
}


def _dims(draw: Draw, rank: int) -> list[int]:
    count = draw.one(1, 1, 1, rank, draw.random.randint(1, rank))
    return sorted(draw.random.sample(range(rank), min(count, rank)))


def reduction(draw: Draw) -> Drawn:
    """A reduction over any dimensions, with elementwise ops around it."""
    shape = draw.shape(draw.random.randint(1, 4), draw.elements())
    dims = _dims(draw, len(shape))
    before, prologue, operands = chain(draw, shape, 2)
    name = draw.one(*REDUCTIONS)
    function, normalizes = REDUCTIONS[name], draw.chance(0.15) and "arg" not in name
    normalizes = normalizes and name != "any"

    def call(x: Tensor, *others: Tensor) -> Tensor:
        x = prologue(x, *others)
        found = function(x, dims, normalizes)
        return x - found if normalizes else found

    text = f"x{before}.{name}({dims})" + (" - x" if normalizes else "")
    return Drawn(text, call, (Argument(shape, order=draw.order(len(shape), 0.1)), *operands))


def norm(draw: Draw) -> Drawn:
    """Softmax or a norm over any dimension, with a residual, scales and an activation."""
    kind = draw.one("softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm", "batch_norm")
    kind = draw.one(kind, kind, "instance_norm", "batch_norm_eval", "channel_rms_norm")
    after, epilogue, operands = "", None, ()
    if kind in ("softmax", "log_softmax", "layer_norm", "rms_norm"):
        shape = draw.shape(draw.random.randint(2, 4), draw.elements())
    else:
        channels, rank = 8 * draw.size(1, 64), draw.one(1, 2, 2, 2)
        side = draw.size(64, 8192) if rank == 1 else draw.size(4, 112)
        batch = max(1, min(256, int(draw.elements() / (channels * side**rank))))
        shape = (batch, channels, *([side] * rank))
    dim = draw.random.randrange(len(shape)) if draw.chance(0.4) else len(shape) - 1
    after, epilogue, operands = chain(draw, shape, 1)
    width = (shape[-1],) if kind in ("layer_norm", "rms_norm") else (shape[1],)
    scales = tuple(Argument(width, "uniform") for _ in range(4))
    residual = draw.chance(0.3)

    def call(
        x: Tensor, r: Tensor, w: Tensor, b: Tensor, m: Tensor, v: Tensor, *o: Tensor
    ) -> Tensor:
        x = x + r if residual else x
        match kind:
            case "softmax":
                y = x.softmax(dim)
            case "log_softmax":
                y = x.log_softmax(dim)
            case "layer_norm":
                y = F.layer_norm(x, width, w, b)
            case "rms_norm":
                y = F.rms_norm(x, width, w, 1e-6)
            case "group_norm":
                y = F.group_norm(x, 8, w, b)
            case "batch_norm":
                y = F.batch_norm(x, None, None, w, b, training=True)
            case "batch_norm_eval":
                y = F.batch_norm(x, m, v, w, b)
            case "instance_norm":
                y = F.instance_norm(x, weight=w, bias=b)
            case _:
                y = x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-6)
        return epilogue(y, *o)

    text = f"{kind}(x{' + r' if residual else ''}, dim {dim}){after}"
    return Drawn(text, call, (Argument(shape), Argument(shape), *scales, *operands))


def loss(draw: Draw) -> Drawn:
    """A loss, which ends in one number or in one for each row."""
    rows, columns = draw.size(64, 16384), draw.size(64, 16384)
    while rows * columns > draw.limit(2**28):
        rows, columns = draw.size(64, 16384), draw.size(64, 16384)
    kind = draw.one("mse", "huber", "kl", "bce", "cosine", "cross_entropy", "l1")
    mean = draw.one("mean", "mean", "sum")
    whole = Argument((rows, columns))
    if kind == "cross_entropy":
        target = Argument((rows,), "index", columns)
        return Drawn(
            "cross_entropy(x, i)",
            lambda x, i: F.cross_entropy(x, i, reduction=mean),
            (whole, target),
        )
    functions: dict[str, Call] = {
        "mse": lambda x, y: F.mse_loss(x, y, reduction=mean),
        "l1": lambda x, y: F.l1_loss(x, y, reduction=mean),
        "huber": lambda x, y: F.smooth_l1_loss(x, y, reduction=mean),
        "kl": lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"),
        "bce": lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid(), reduction=mean),
        "cosine": lambda x, y: F.cosine_similarity(x, y, dim=-1),
    }
    scaled = functions[kind]
    if mean == "sum" and kind not in ("kl", "cosine"):
        # Sums of halves overflow; frameworks differ in when.
        scaled = functions[kind]
        total = float(rows * columns)
        return Drawn(
            f"{kind}(x, y, sum)",
            lambda x, y: scaled(x / math.sqrt(total), y / math.sqrt(total)),
            (whole, whole),
        )
    return Drawn(f"{kind}(x, y, {mean})", scaled, (whole, whole))


def scan(draw: Draw) -> Drawn:
    """A cumulative op along any dimension, in either direction."""
    shape = draw.shape(draw.random.randint(1, 3), draw.elements(18, 26))
    dim = draw.random.randrange(len(shape)) if draw.chance(0.5) else len(shape) - 1
    functions: dict[str, Call] = {
        "cumsum": lambda x: x.cumsum(dim),
        "reversed": lambda x: x.flip(dim).cumsum(dim).flip(dim),
        "exclusive": lambda x: x.cumsum(dim) - x,
        "cumprod": lambda x: (1 + x * 0.01).cumprod(dim),
        "cummax": lambda x: x.cummax(dim).values,
        "logcumsumexp": lambda x: x.logcumsumexp(dim),
        "mask": lambda x: (x > 0).to(torch.int32).cumsum(dim),
    }
    name = draw.one("cumsum", "cumsum", *functions)
    function = functions[name]
    before, prologue, operands = chain(draw, shape, 1)
    return Drawn(
        f"x{before}.{name}({dim})",
        lambda x, *others: function(prologue(x, *others)),
        (Argument(shape), *operands),
    )
