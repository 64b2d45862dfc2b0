"""The rows: each a program with its sizes and one element type.

Weights are arguments too, so that programs hold none; they are generated on the device from a
seed.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from benchmarks.gpu import programs

Kind = Literal["normal", "weight", "scale", "shift", "positive", "wave"]
Layout = Literal["", "heads", "image", "filter", "stem"]

CHANNELS_LAST = {"image": (0, 2, 3, 1), "filter": (0, 2, 3, 1), "stem": (2, 3, 1, 0)}
"""Layout of an argument -> order of PyTorch's axes with channels last.

The filter of a stem has few input channels: its output channels are contiguous.
"""

DTYPES = {"f16": "float16", "bf16": "bfloat16"}
"""Our name of an element type -> PyTorch's."""

TOLERANCES = {"f16": 4e-3, "bf16": 3e-2}
"""Tolerance against float64, relative to the largest magnitude of the result."""

QUANTIZED_TOLERANCE = 1.5 / 127
"""Tolerance of results in i8: one step, where the narrow type rounds a half the other way."""

BLOCK_TOLERANCES = {"f16": 2e-2, "bf16": 1.2e-1}
"""Tolerance of whole models, whose layers accumulate rounding errors."""


@dataclasses.dataclass(frozen=True, slots=True)
class Argument:
    """A tensor that a program takes.

    Attributes:
      shape: its sizes.
      kind: distribution of its values: standard normal; weights that preserve the magnitude; near
        1; near 0; positive; between -1 and 1.
      layout: meaning of its axes, where systems store them in different orders.
    """

    shape: tuple[int, ...]
    kind: Kind = "normal"
    layout: Layout = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One program of the table.

    Attributes:
      work: the program with its sizes.
      dtype: `f16` or `bf16`.
      program: takes the module of operators, then the arguments.
      arguments: inputs, then weights.
      inputs: count of the arguments that are no weights.
      block: whether it is a block or a model, which is timed by wall time.
      rank: order of measurement, 0 for the most informative rows.
      causal: whether half of its attention scores need not be computed.
      result: layouts of its results; missing ones are empty.
    """

    work: str
    dtype: str
    program: Callable[..., Any]
    arguments: tuple[Argument, ...]
    inputs: int
    block: bool = False
    rank: int = 1
    causal: bool = False
    result: tuple[Layout, ...] = ()

    @property
    def name(self) -> str:
        """File name of its programs."""
        return "".join(c if c.isalnum() else "_" for c in f"{self.work} {self.dtype}")

    def layout(self, result: int) -> Layout:
        """Layout of a result, by its index."""
        return self.result[result] if result < len(self.result) else ""

    @property
    def tolerance(self) -> float:
        """Tolerance against float64, relative to the largest magnitude of the result."""
        if self.program is programs.rms_norm_quant:
            return max(QUANTIZED_TOLERANCE, TOLERANCES[self.dtype])
        return (BLOCK_TOLERANCES if self.block else TOLERANCES)[self.dtype]


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """Minimum work of a program.

    Attributes:
      flops: operations of its contractions.
      bytes: size of its arguments and results.
    """

    flops: float
    bytes: float

    def limit_ms(self, bandwidth: float, peak: float) -> float:
        """Minimum time in milliseconds at rates in bytes and operations per second."""
        return max(self.bytes / bandwidth, self.flops / peak) * 1e3

    def memory_bound(self, bandwidth: float, peak: float) -> bool:
        """Whether moving the bytes takes longer than the operations."""
        return self.bytes / bandwidth >= self.flops / peak


def cost(row: Row) -> Cost:
    """The cost of a row, counted on tensors without data; needs PyTorch."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from benchmarks.gpu import with_torch

    dtype = getattr(torch, DTYPES[row.dtype])
    tensors = [torch.empty(a.shape, dtype=dtype, device="meta") for a in row.arguments]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        results = row.program(with_torch, *tensors)
    results = results if isinstance(results, tuple) else (results,)
    flops = float(counter.get_total_flops()) * (0.5 if row.causal else 1.0)
    return Cost(flops, float(sum(t.nbytes for t in (*tensors, *results))))


def rows() -> list[Row]:
    """All rows by rank."""
    made = [row for dtype in DTYPES for row in (*_operators(dtype), *_blocks(dtype))]
    # bf16 performs like f16, so it follows the f16 rows of its rank.
    return sorted(made, key=lambda row: (row.rank, row.dtype != "f16"))


def select(words: Sequence[str], table: Sequence[Row] | None = None) -> list[Row]:
    """The rows with one of the words in their name or type; all rows without words."""
    table = rows() if table is None else table
    low = [word.lower() for word in words]
    return [r for r in table if not low or any(w in f"{r.work} {r.dtype}".lower() for w in low)]


# --- operators ---------------------------------------------------------------------------------

NORM_SHAPES = ((16384, 4096), (16384, 1024), (16384, 8192), (2048, 32768))
"""Rows and columns; the first shape has the lowest rank."""


def _operators(dtype: str) -> list[Row]:
    return [*_memory_bound(dtype), *_matmuls(dtype), *_attentions(dtype), *_convolutions(dtype)]


def _memory_bound(dtype: str) -> list[Row]:
    big = Argument((16384, 4096))
    found = [
        Row(
            "bias, GELU, residual 16384x4096",
            dtype,
            programs.bias_gelu_residual,
            (big, Argument((4096,), "shift"), big),
            3,
            rank=0,
        ),
        Row("SwiGLU 8192x14336", dtype, programs.swiglu, (Argument((8192, 28672)),), 1, rank=0),
        Row(
            "RoPE 4x32x4096x128",
            dtype,
            programs.rope,
            (Argument((4, 32, 4096, 128), layout="heads"), *_angles(4096)),
            3,
            rank=0,
            result=("heads",),
        ),
    ]
    for index, shape in enumerate(NORM_SHAPES):
        x, scale, shift = (
            Argument(shape),
            Argument(shape[1:], "scale"),
            Argument(shape[1:], "shift"),
        )
        size = "x".join(map(str, shape))
        for title, program, arguments in (
            ("layer norm", programs.layer_norm, (x, scale, shift)),
            ("add, layer norm", programs.add_layer_norm, (x, x, scale, shift)),
            ("RMS norm", programs.rms_norm, (x, scale)),
            ("add, RMS norm", programs.add_rms_norm, (x, x, scale)),
            ("RMS norm, i8", programs.rms_norm_quant, (x, scale)),
            ("softmax", programs.softmax, (x,)),
        ):
            rank = 0 if index == 0 else 2
            count = len(arguments)
            found.append(Row(f"{title} {size}", dtype, program, arguments, count, rank=rank))
    return found


def _angles(tokens: int) -> tuple[Argument, Argument]:
    return Argument((tokens, 128), "wave"), Argument((tokens, 128), "wave")


MATMULS = ((4096, 4096, 4096), (8192, 28672, 8192), (16, 4096, 4096), (1, 4096, 14336))
"""M, N, K."""


def _matmuls(dtype: str) -> list[Row]:
    return [
        Row(
            f"matmul, bias, GELU {m}x{n}x{k}",
            dtype,
            programs.matmul_bias_gelu,
            (Argument((m, k)), Argument((n, k), "weight"), Argument((n,), "shift")),
            3,
            rank=0,
        )
        for m, n, k in MATMULS
    ]


def _attentions(dtype: str) -> list[Row]:
    found = []
    for title, q, keys, causal in (
        ("attention 8x16x1024x64", (8, 16, 1024, 64), (8, 16, 1024, 64), False),
        ("causal attention 1x32x4096x128", (1, 32, 4096, 128), (1, 32, 4096, 128), True),
        ("attention 2x32x1024x128, 8 key heads", (2, 32, 1024, 128), (2, 8, 1024, 128), False),
        ("decode 8x32x1x128, 8 x 8192 keys", (8, 32, 1, 128), (8, 8, 8192, 128), False),
    ):
        program = programs.causal_attention if causal else programs.attention
        key = Argument(keys, layout="heads")
        arguments = (Argument(q, layout="heads"), key, key)
        found.append(
            Row(title, dtype, program, arguments, 3, rank=0, causal=causal, result=("heads",))
        )
    return found


CONVOLUTIONS = (
    (3, 64, 7, 2, 224),
    (64, 64, 3, 1, 56),
    (256, 64, 1, 1, 56),
    (128, 128, 3, 2, 56),
    (1024, 256, 1, 1, 14),
    (512, 512, 3, 1, 7),
)
"""Of ResNet-50: input and output channels, filter size, stride, image size."""


def _convolutions(dtype: str) -> list[Row]:
    found = []
    for index, (inputs, outputs, taps, stride, image) in enumerate(CONVOLUTIONS):
        program = functools.partial(programs.conv_bn_relu, stride=stride, padding=(taps - 1) // 2)
        arguments = (
            Argument((32, inputs, image, image), layout="image"),
            *_conv_weights(outputs, inputs, taps),
        )
        found.append(
            Row(
                f"conv {taps}x{taps}, batch norm, ReLU 32x{inputs}x{image}x{image} to {outputs}",
                dtype,
                program,
                arguments,
                len(arguments),
                rank=0 if index == 1 else 1,
                result=("image",),
            )
        )
    return found


def _conv_weights(outputs: int, inputs: int, taps: int) -> tuple[Argument, ...]:
    return (
        Argument((outputs, inputs, taps, taps), "weight", "stem" if inputs == 3 else "filter"),
        Argument((outputs,), "scale"),
        Argument((outputs,), "shift"),
        Argument((outputs,), "shift"),
        Argument((outputs,), "positive"),
    )


# --- blocks ------------------------------------------------------------------------------------

LLAMA_WIDTH, LLAMA_HEADS, LLAMA_KEY_HEADS, LLAMA_HIDDEN = 4096, 32, 8, 14336
"""Sizes of Llama 3 8B."""

PAST_TOKENS = 1023
"""Cached keys of a decoding step."""

LAYERS = 12
"""Layers of BERT-base, GPT-2 and ViT-B."""


def _blocks(dtype: str) -> list[Row]:
    width = 768
    layer = _transformer_weights(width)
    image = Argument((32, 3, 224, 224), layout="image")
    vit = (
        Argument((width, 3, 16, 16), "weight", "stem"),
        Argument((width,), "shift"),
        Argument((1, 1, width), "shift"),
        Argument((1, 197, width), "shift"),
        *layer * LAYERS,
        *_norm(width),
    )
    x = Argument((1, 1024, LLAMA_WIDTH))
    made: list[tuple[str, Callable[..., Any], tuple[Argument, ...], tuple[Argument, ...]]] = [
        (
            "BERT-base 32x128",
            functools.partial(programs.bert, layers=LAYERS),
            (Argument((32, 128, width)),),
            _bert_weights(width) * LAYERS,
        ),
        (
            "GPT-2 8x512",
            functools.partial(programs.gpt, layers=LAYERS),
            (Argument((8, 512, width)),),
            layer * LAYERS,
        ),
        ("Llama 8B layer 1x1024", programs.llama, (x, *_angles(1024)), _llama_weights()),
    ]
    for batch in (1, 16):
        cache = Argument((batch, LLAMA_KEY_HEADS, PAST_TOKENS, 128), layout="heads")
        token = Argument((batch, 1, LLAMA_WIDTH))
        made.append(
            (
                f"Llama 8B layer, decode {batch}x1 at {PAST_TOKENS + 1}",
                programs.llama_decode,
                (token, *_angles(1), cache, cache),
                _llama_weights(),
            )
        )
    made.append(
        ("ViT-B/16 batch 32", functools.partial(programs.vit, layers=LAYERS), (image,), vit)
    )
    made.append(("ResNet-50 batch 32", programs.resnet50, (image,), _resnet_weights()))
    return [
        Row(
            title,
            dtype,
            program,
            (*inputs, *weights),
            len(inputs),
            block=True,
            rank=0,
            result=("", "heads", "heads") if program is programs.llama_decode else (),
        )
        for title, program, inputs, weights in made
    ]


def _linear(outputs: int, inputs: int) -> tuple[Argument, Argument]:
    return Argument((outputs, inputs), "weight"), Argument((outputs,), "shift")


def _norm(width: int) -> tuple[Argument, Argument]:
    return Argument((width,), "scale"), Argument((width,), "shift")


def _bert_weights(width: int) -> tuple[Argument, ...]:
    return (
        *_linear(3 * width, width),
        *_linear(width, width),
        *_norm(width),
        *_linear(4 * width, width),
        *_linear(width, 4 * width),
        *_norm(width),
    )


def _transformer_weights(width: int) -> tuple[Argument, ...]:
    return (
        *_norm(width),
        *_linear(3 * width, width),
        *_linear(width, width),
        *_norm(width),
        *_linear(4 * width, width),
        *_linear(width, 4 * width),
    )


def _llama_weights() -> tuple[Argument, ...]:
    width, hidden = LLAMA_WIDTH, LLAMA_HIDDEN
    keys = width * LLAMA_KEY_HEADS // LLAMA_HEADS
    norm = Argument((width,), "scale")
    shapes = ((width, width), (keys, width), (keys, width), (width, width))
    last = ((hidden, width), (hidden, width), (width, hidden))
    return (
        norm,
        *(Argument(shape, "weight") for shape in shapes),
        norm,
        *(Argument(shape, "weight") for shape in last),
    )


def _resnet_weights() -> tuple[Argument, ...]:
    found = [*_conv_weights(64, 3, 7)]
    channels = 64
    for inner, blocks, _ in programs.RESNET_50:
        for block in range(blocks):
            found += _conv_weights(inner, channels, 1)
            found += _conv_weights(inner, inner, 3)
            found += _conv_weights(4 * inner, inner, 1)
            if block == 0:
                found += _conv_weights(4 * inner, channels, 1)
            channels = 4 * inner
    return (*found, *_linear(1000, channels))


def fan_in(argument: Argument) -> int:
    """K of the contraction with a weight."""
    return math.prod(argument.shape[1:])
