"""Forms of `row_triton_kernel`, `elementwise_triton_kernel` and `concat_triton_kernel`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.gpu.check.case import (
    FLOATS,
    Chance,
    Input,
    Tensor,
    Work,
    as_before,
    named,
    rounded_to_i8,
    wide,
)

MAX_ELEMENTS = 1 << 22
"""Maximum size of a tensor in elements, except for those of models."""

MEASURED_WIDTHS = (1024, 4096, 8192, 32768)
"""Row lengths with measured configurations."""

QUANTIZATION = 30.0

EPSILON = 1e-5


def shape_of(chance: Chance, *, columns: int = 2, rows: int = 1) -> tuple[int, ...]:
    """A random shape: rows in one to three dimensions, and columns.

    Args:
      chance: source of the choices.
      columns: minimum number of columns.
      rows: minimum number of rows.
    """
    columns = chance.size(9000, columns)
    rows = chance.size(max(rows, min(3000, MAX_ELEMENTS // columns)), rows)
    if chance.likely(0.7):
        return rows, columns
    outer = chance.size(9)
    if chance.likely(0.6):
        return outer, max(1, rows // outer), columns
    return outer, chance.size(5), max(1, rows // outer // 3), columns


def spelled(*shapes: tuple[int | str, ...]) -> str:
    """Shapes as text."""
    return ", ".join("x".join(map(str, shape)) for shape in shapes)


def _kind(chance: Chance) -> Any:
    return chance.pick("normal", "special")


def softmax(chance: Chance) -> Work:
    shape, kind = shape_of(chance, rows=4), _kind(chance)

    def program(x: Tensor) -> Tensor:
        return F.softmax(x, -1)

    return Work(program, (Input(shape, kind),), chance.dtype(*FLOATS), f"{spelled(shape)} {kind}")


def masked_softmax(chance: Chance) -> Work:
    """Softmax of scaled scores with a mask that is broadcast along some dimensions."""
    batch, heads, rows = chance.size(5), chance.size(9), chance.size(300)
    columns = chance.size(2100, 2)
    shape = (batch, heads, rows, columns)
    mask = chance.pick((batch, 1, 1, columns), (1, 1, rows, columns), (batch, 1, rows, columns))
    boolean = chance.likely(0.5)

    def program(x: Tensor, seen: Tensor) -> Tensor:
        scores = x * 0.125
        scores = torch.where(seen, scores, -10000.0) if boolean else scores + seen
        return F.softmax(scores, -1)

    given = Input(mask, "mask", "i1") if boolean else Input(mask, "bias")
    description = f"{spelled(shape, mask)} {'boolean' if boolean else 'added'}"
    return Work(program, (Input(shape), given), chance.dtype(), description)


def layer_norm(chance: Chance) -> Work:
    shape, kind = shape_of(chance), _kind(chance)
    affine = chance.likely(0.8)
    columns = shape[-1]

    def program(x: Tensor, *weights: Tensor) -> Tensor:
        return F.layer_norm(x, (columns,), *weights)

    weights = (Input((columns,), "scale"), Input((columns,), "shift")) if affine else ()
    description = f"{spelled(shape)} {kind}{'' if affine else ', no weights'}"
    return Work(program, (Input(shape, kind), *weights), chance.dtype(*FLOATS), description)


def add_layer_norm(chance: Chance) -> Work:
    shape = shape_of(chance)
    columns, both = shape[-1], chance.likely(0.6)

    def program(x: Tensor, residual: Tensor, scale: Tensor, shift: Tensor) -> Any:
        total = x + residual
        normed = F.layer_norm(total, (columns,), scale, shift)
        return (normed, total) if both else normed

    inputs = (Input(shape), Input(shape), Input((columns,), "scale"), Input((columns,), "shift"))
    return Work(program, inputs, chance.dtype(), f"{spelled(shape)}{', sum too' if both else ''}")


def _rms(x: Tensor, scale: Tensor) -> Tensor:
    y = wide(x)
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + EPSILON)
    return as_before(y, x) * scale


def rms_norm(chance: Chance) -> Work:
    shape, kind = shape_of(chance), _kind(chance)
    inputs = (Input(shape, kind), Input(shape[-1:], "scale"))
    return Work(_rms, inputs, chance.dtype(*FLOATS), f"{spelled(shape)} {kind}")


def add_rms_norm(chance: Chance) -> Work:
    shape = shape_of(chance)

    def program(x: Tensor, residual: Tensor, scale: Tensor) -> Any:
        total = x + residual
        return _rms(total, scale), total

    inputs = (Input(shape), Input(shape), Input(shape[-1:], "scale"))
    return Work(program, inputs, chance.dtype(), spelled(shape))


def rms_norm_i8(chance: Chance) -> Work:
    shape = shape_of(chance)
    inputs = (Input(shape), Input(shape[-1:], "scale"))
    dtype = chance.dtype()

    def program(x: Tensor, scale: Tensor) -> Tensor:
        return rounded_to_i8(wide(_rms(x, scale)) * QUANTIZATION)

    return Work(program, inputs, dtype, spelled(shape), step=1.0)


def norm_with_casts(chance: Chance) -> Work:
    """A norm in f32 with a result of the narrow type."""
    shape = shape_of(chance)
    narrow = chance.dtype()

    def program(x: Tensor, residual: Tensor, scale: Tensor) -> Tensor:
        total = x + as_before(residual, x)
        total = total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + EPSILON)
        return as_before(total, residual) * scale

    inputs = (Input(shape, dtype="f32"), Input(shape), Input(shape[-1:], "scale"))
    return Work(program, inputs, narrow, spelled(shape))


def measured_width(chance: Chance) -> Work:
    """Few or odd numbers of rows with measured row lengths, whose configurations differ."""
    columns = MEASURED_WIDTHS[chance.ordinal // 2 % len(MEASURED_WIDTHS)]
    columns = chance.real(columns)
    shape = (chance.pick(3, 3, 7, 61, 129, 333), columns)
    name = chance.pick("softmax", "layer norm", "RMS norm", "RMS norm, i8", "add, RMS norm")
    program, inputs = _known(name, shape)
    step = 1.0 if name == "RMS norm, i8" else 0.0
    return Work(program, inputs, chance.dtype(), f"{name} {spelled(shape)}", step=step)


def _known(name: str, shape: tuple[int | str, ...]) -> tuple[Callable[..., Any], tuple[Input, ...]]:
    """A row program by its name, with its inputs."""
    columns = int(shape[-1])
    x, scale, shift = Input(shape), Input((columns,), "scale"), Input((columns,), "shift")
    table: dict[str, tuple[Callable[..., Any], tuple[Input, ...]]] = {
        "softmax": (lambda x: F.softmax(x, -1), (x,)),
        "layer norm": (lambda x, w, b: F.layer_norm(x, (columns,), w, b), (x, scale, shift)),
        "RMS norm": (_rms, (x, scale)),
        "RMS norm, i8": (
            lambda x, w: rounded_to_i8(wide(_rms(x, w)) * QUANTIZATION),
            (x, scale),
        ),
        "add, RMS norm": (lambda x, r, w: (_rms(x + r, w), x + r), (x, x, scale)),
    }
    return table[name]


def long_rows(chance: Chance) -> Work:
    """Rows that do not fit one CTA: the CTAs of a cluster share a row."""
    columns = chance.real(32769, 40000, 65536, 65537, 99991, 131072, 262144)
    shape = (chance.pick(2, 3, 7), columns)
    if chance.likely(0.5):
        return Work(lambda x: F.softmax(x, -1), (Input(shape),), chance.dtype(), spelled(shape))
    inputs = (Input(shape), Input((columns,), "scale"))
    return Work(_rms, inputs, chance.dtype(), spelled(shape))


ROWS_CALLED = (1, 2, 131, 1000)


def dynamic_rows(chance: Chance) -> Work:
    columns = chance.size(5000, 2)
    shape: tuple[int | str, ...] = ("rows", columns)
    sizes: tuple[Mapping[str, int], ...] = tuple({"rows": n} for n in ROWS_CALLED)
    return _dynamic(chance, shape, sizes)


def dynamic_batch_and_rows(chance: Chance) -> Work:
    shape: tuple[int | str, ...] = ("batch", "rows", chance.size(3000, 2))
    pairs = ((1, 1), (2, 131), (7, 1), (3, 64), (17, 37))
    return _dynamic(chance, shape, tuple({"batch": b, "rows": r} for b, r in pairs))


def _dynamic(
    chance: Chance, shape: tuple[int | str, ...], sizes: tuple[Mapping[str, int], ...]
) -> Work:
    name = chance.pick("softmax", "layer norm", "add, RMS norm")
    program, inputs = _known(name, shape)
    return Work(program, inputs, chance.dtype(), f"{name} {spelled(shape)}", sizes)


# --- elementwise ---------------------------------------------------------------------------------


def gelu_by_tanh(x: Tensor) -> Tensor:
    """GELU by tanh, expanded in f32, where the error of IREE's importer (0.797724) would show."""
    if x.dtype in (torch.float16, torch.bfloat16):
        return F.gelu(x, approximate="tanh")
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def bias_gelu_residual(chance: Chance) -> Work:
    shape = shape_of(chance, rows=4)
    tanh, both = chance.likely(0.5), chance.likely(0.3)

    def program(x: Tensor, bias: Tensor, residual: Tensor) -> Any:
        total = x + bias
        y = (gelu_by_tanh(total) if tanh else F.gelu(total)) + residual
        return (y, total) if both else y

    inputs = (Input(shape), Input(shape[-1:], "shift"), Input(shape))
    description = f"{spelled(shape)} {'tanh' if tanh else 'erf'}{', two results' if both else ''}"
    return Work(program, inputs, chance.dtype(*FLOATS), description)


def swiglu(chance: Chance) -> Work:
    rows, half = chance.size(1500), chance.size(2500)

    def program(x: Tensor) -> Tensor:
        gate, up = x.chunk(2, dim=-1)
        return F.silu(gate) * up

    shape = (rows, 2 * half)
    return Work(program, (Input(shape),), chance.dtype(), spelled(shape))


def rope(chance: Chance) -> Work:
    batch, heads, tokens = chance.size(4), chance.size(33), chance.size(300)
    size = chance.pick(32, 64, 80, 96, 128)
    batch, heads = (min(3, batch), min(3, heads)) if chance.small else (batch, heads)

    def program(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * cosine + torch.cat((-second, first), dim=-1) * sine

    shape, table = (batch, heads, tokens, size), (tokens, size)
    inputs = (Input(shape), Input(table, "wave"), Input(table, "wave"))
    return Work(program, inputs, chance.dtype(), spelled(shape))


def transposed_sum(chance: Chance) -> Work:
    rows, columns = chance.size(2100, 32), chance.size(1500, 32)
    outer = chance.pick((), (chance.size(5),))

    def program(x: Tensor, y: Tensor) -> Tensor:
        return x.transpose(-1, -2) + y

    shape, other = (*outer, columns, rows), (*outer, rows, columns)
    return Work(program, (Input(shape), Input(other)), chance.dtype(*FLOATS), spelled(other))


def heads_first(chance: Chance) -> Work:
    """A transpose from (tokens, heads) to (heads, tokens), followed by an add."""
    shape = (chance.size(5), chance.size(500), chance.size(33), chance.pick(33, 64, 128))

    def program(x: Tensor, y: Tensor) -> Tensor:
        return x.transpose(1, 2) + y

    other = (shape[0], shape[2], shape[1], shape[3])
    return Work(program, (Input(shape), Input(other)), chance.dtype(), spelled(shape))


def embedding(chance: Chance) -> Work:
    rows, columns, words = chance.size(3000), chance.size(1100), chance.size(5000, 2)

    def program(table: Tensor, indices: Tensor, positions: Tensor) -> Tensor:
        return table[indices] + positions

    inputs = (
        Input((words, columns)),
        Input((rows,), "index", "i64", words),
        Input((rows, columns)),
    )
    return Work(program, inputs, chance.dtype(), f"{rows} of {words}x{columns}")


def dynamic_elementwise(chance: Chance) -> Work:
    columns = chance.size(4000)
    two = chance.likely(0.6)
    shape: tuple[int | str, ...] = ("batch", "rows", columns) if two else ("rows", columns)
    calls = ((1, 1), (2, 131), (7, 1), (3, 64), (1, 997))

    def program(x: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
        return F.gelu(x + bias) + residual

    sizes = tuple({"batch": b, "rows": r} if two else {"rows": b * r} for b, r in calls)
    inputs = (Input(shape), Input((columns,), "shift"), Input(shape))
    return Work(program, inputs, chance.dtype(), spelled(shape), sizes)


def dynamic_swiglu(chance: Chance) -> Work:
    shape: tuple[int | str, ...] = ("batch", "rows", chance.size(2500, 2))

    def program(gate: Tensor, up: Tensor) -> Tensor:
        return F.silu(gate) * up

    sizes = tuple({"batch": b, "rows": r} for b, r in ((1, 1), (3, 67), (11, 1), (2, 256)))
    inputs = (Input(shape), Input(shape))
    return Work(program, inputs, chance.dtype(*FLOATS), spelled(shape), sizes)


# --- concatenations ------------------------------------------------------------------------------


def cache(chance: Chance) -> Work:
    """Keys of past tokens, followed by new ones."""
    batch, heads, size = chance.size(9), chance.size(9), chance.pick(64, 80, 128)
    past, new = chance.size(2100, 40), chance.pick(1, 1, 3, 16)
    if chance.small:
        batch, heads = min(batch, 3), min(heads, 3)

    def program(past: Tensor, new: Tensor) -> Tensor:
        return torch.cat((past, new), dim=2)

    shapes = (batch, heads, past, size), (batch, heads, new, size)
    inputs = (Input(shapes[0]), Input(shapes[1]))
    return Work(program, inputs, chance.dtype(*FLOATS), spelled(*shapes))


def side_by_side(chance: Chance) -> Work:
    """Concatenates three parts along an axis; along the first one IREE copies them."""
    axis = max(1, chance.below(3))
    shape = [chance.size(40), chance.size(60), chance.size(600)]
    parts = []
    for _ in range(3):
        shape[axis] = chance.size((40, 60, 600)[axis])
        parts.append(tuple(shape))

    def program(*given: Tensor) -> Tensor:
        return torch.cat(given, dim=axis)

    inputs = tuple(Input(part) for part in parts)
    return Work(program, inputs, chance.dtype(*FLOATS), f"{spelled(*parts)} along {axis}")


ROW = named(
    softmax,
    masked_softmax,
    layer_norm,
    add_layer_norm,
    rms_norm,
    add_rms_norm,
    rms_norm_i8,
    norm_with_casts,
    measured_width,
    long_rows,
    dynamic_rows,
    dynamic_batch_and_rows,
)

ELEMENTWISE = named(
    bias_gelu_residual,
    swiglu,
    rope,
    transposed_sum,
    heads_first,
    embedding,
    dynamic_elementwise,
    dynamic_swiglu,
)

CONCAT = named(cache, side_by_side)
