"""Forms of `matmul_triton_kernel`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.gpu.check.case import FLOATS, Chance, Input, Tensor, Work, named
from benchmarks.gpu.check.rows import gelu_by_tanh, spelled

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "": lambda x: x,
    "GELU": F.gelu,
    "GELU by tanh": gelu_by_tanh,
    "ReLU": F.relu,
    "SiLU": F.silu,
}


def linear(chance: Chance) -> Work:
    """Random sizes, bias, activation and residual."""
    return _linear(chance, chance.size(700), chance.size(900, 2), chance.size(1100, 2))


FUNCTIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "mish": F.mish,
    "ELU": F.elu,
    "softplus": F.softplus,
    "hard swish": F.hardswish,
    "atan": torch.atan,
    "asinh": torch.asinh,
    "cos": torch.cos,
    "expm1": lambda x: torch.expm1(x * 0.5),
    "log1p": lambda x: torch.log1p(x * x),
    "power": lambda x: torch.pow(x.abs() + 0.1, 1.7),
    "cube": lambda x: x**3,
}
"""Functions of `arith` and `math` beside those of `ACTIVATIONS`."""


def functions(chance: Chance) -> Work:
    """One of `FUNCTIONS` in the epilogue."""
    name = chance.pick(*FUNCTIONS)
    m, n, k = chance.size(500), chance.size(700, 2), chance.size(900, 2)

    def program(x: Tensor, weight: Tensor) -> Tensor:
        return FUNCTIONS[name](F.linear(x, weight))

    inputs = (Input((m, k)), Input((n, k), "weight"))
    return Work(program, inputs, chance.dtype("f16", "bf16", "f32"), f"{m}x{n}x{k}, {name}")


def masked(chance: Chance) -> Work:
    """An epilogue with a triangle, a computed gate, or both."""
    triangle, shift = chance.pick("lower", "upper", ""), chance.below(9) - 4
    m, n, k = chance.size(500, 2), chance.size(700, 2), chance.size(900, 2)
    gated = not triangle or chance.likely(0.5)

    def program(x: Tensor, weight: Tensor, gate: Tensor, offset: Tensor) -> Tensor:
        y = F.relu(F.linear(x, weight))
        if gated:
            y = y * torch.sigmoid(gate) + torch.tanh(offset * gate)
        keeps = {"lower": torch.tril, "upper": torch.triu}
        return keeps[triangle](y, shift) if triangle else y

    inputs = (Input((m, k)), Input((n, k), "weight"), Input((m, n)), Input((m, n)))
    words = [f"{triangle} from {shift}"] * bool(triangle) + ["gate"] * gated
    return Work(program, inputs, chance.dtype(*FLOATS), f"{m}x{n}x{k}, {', '.join(words)}")


def of_f32(chance: Chance) -> Work:
    """Random sizes in f32, few rows and long K among them; the highest precision."""
    m = chance.pick(1, 5, 16, *[chance.size(700)] * 4)
    k = chance.pick(chance.size(1100, 2), chance.size(1100, 2), chance.size(20000, 2))
    return _linear(chance, m, chance.size(900, 2), k, "f32")


def layouts_of_f32(chance: Chance) -> Work:
    return _layouts(chance, "f32")


def batched_f32(chance: Chance) -> Work:
    return _batched(chance, "f32")


def gated_f32(chance: Chance) -> Work:
    return _gated(chance, "f32")


def few_rows(chance: Chance) -> Work:
    m = chance.pick(1, 1, 2, 3, 5, 7, 15, 16)
    return _linear(chance, m, chance.size(4100, 2), chance.size(4100, 2))


REAL = (
    (4096, 768, 768),
    (6304, 768, 768),
    (1000, 3072, 768),
    (4999, 3072, 768),
    (4096, 768, 3072),
    (1024, 4096, 4096),
    (131, 4096, 4096),
    (2053, 4096, 1024),
    (1616, 1536, 4707),
    (16, 242, 29864),
    (45, 40, 47037),
)
"""M, N, K; most run as persistent kernels, the last ones copy operands or split K."""


def real_linear(chance: Chance) -> Work:
    sizes = REAL[chance.ordinal % len(REAL)]
    return _linear(chance, *(min(size, 64) if chance.small else size for size in sizes))


def _linear(chance: Chance, m: int, n: int, k: int, dtype: str = "") -> Work:
    bias, residual = chance.likely(0.6), chance.likely(0.4)
    activation = chance.pick(*ACTIVATIONS)

    def program(x: Tensor, weight: Tensor, *more: Tensor) -> Tensor:
        rest = iter(more)
        y = F.linear(x, weight, next(rest) if bias else None)
        y = ACTIVATIONS[activation](y)
        return y + next(rest) if residual else y

    inputs = (
        Input((m, k)),
        Input((n, k), "weight"),
        *([Input((n,), "shift")] if bias else []),
        *([Input((m, n))] if residual else []),
    )
    words = ["bias"] * bias + [activation] * bool(activation) + ["residual"] * residual
    description = ", ".join([f"{m}x{n}x{k}", *words])
    return Work(program, inputs, dtype or chance.dtype(), description)


def layouts(chance: Chance) -> Work:
    return _layouts(chance, chance.dtype())


def _layouts(chance: Chance, dtype: str) -> Work:
    """Each operand K-contiguous or not."""
    m, n, k = chance.size(500), chance.size(500, 2), chance.size(700, 2)
    left, right = chance.likely(0.5), chance.likely(0.5)

    def program(x: Tensor, y: Tensor) -> Tensor:
        return torch.tanh((x.t() if left else x) @ (y.t() if right else y))

    a = (k, m) if left else (m, k)
    b = (n, k) if right else (k, n)
    inputs = (Input(a), Input(b, "shift"))
    return Work(program, inputs, dtype, f"{m}x{n}x{k} of {spelled(a, b)}")


def batched(chance: Chance) -> Work:
    return _batched(chance, chance.dtype())


def _batched(chance: Chance, dtype: str) -> Work:
    batch, m, n = chance.size(33), chance.size(300), chance.size(300, 2)
    k = chance.size(300, 2)
    swapped = chance.likely(0.5)

    def program(x: Tensor, y: Tensor) -> Tensor:
        return (x @ (y.transpose(1, 2) if swapped else y)) * 0.125

    b = (batch, n, k) if swapped else (batch, k, n)
    inputs = (Input((batch, m, k)), Input(b))
    return Work(program, inputs, dtype, f"{batch}x{m}x{n}x{k}")


def vector(chance: Chance) -> Work:
    """Vector times matrix. A matrix times a vector is a row reduction."""
    n, k = chance.size(3000, 2), chance.size(3000, 2)

    def program(x: Tensor, weight: Tensor) -> Tensor:
        return F.silu(x @ weight)

    inputs = (Input((k,)), Input((k, n), "shift"))
    return Work(program, inputs, chance.dtype(), f"{n}x{k}")


def gated(chance: Chance) -> Work:
    return _gated(chance, chance.dtype())


def _gated(chance: Chance, dtype: str) -> Work:
    m = chance.pick(1, 7, 16, *[chance.size(600)] * 3)
    n, k = chance.size(1500, 2), chance.size(1100, 2)
    gelu = chance.likely(0.3)

    def program(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
        y = F.linear(x, gate)
        return (F.gelu(y) if gelu else F.silu(y)) * F.linear(x, up)

    weight = Input((n, k), "weight")
    inputs = (Input((m, k)), weight, weight)
    return Work(program, inputs, dtype, f"{m}x{n}x{k}{' GELU' * gelu}")


def split(chance: Chance) -> Work:
    """A merged projection whose N is split into three results."""
    m, k = chance.size(600), chance.size(900, 2)
    width = chance.size(400, 2)

    def program(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
        q, k, v = F.linear(x, weight, bias).chunk(3, dim=-1)
        return q * 0.125, k, v

    inputs = (
        Input((m, k)),
        Input((3 * width, k), "weight"),
        Input((3 * width,), "shift"),
    )
    return Work(program, inputs, chance.dtype(), f"{m}x3x{width}x{k}")


def prologue(chance: Chance) -> Work:
    """Elementwise prologues on both operands."""
    m, n, k = chance.size(400), chance.size(500, 2), chance.size(700, 2)

    def program(x: Tensor, scale: Tensor, y: Tensor) -> Tensor:
        return F.relu(x * scale) @ torch.tanh(y)

    inputs = (Input((m, k)), Input((k,), "scale"), Input((k, n)))
    return Work(program, inputs, chance.dtype(), f"{m}x{n}x{k}")


def of_i8(chance: Chance) -> Work:
    """i8 by i8 with an i32 accumulator, plain or scaled."""
    m, n = chance.pick(1, 7, chance.size(400, 2)), chance.size(500, 2)
    k, scaled = chance.size(1100, 2), chance.likely(0.5)

    def program(x: Tensor, y: Tensor, scale: Tensor) -> Tensor:
        sums = x.to(scale.dtype) @ y.to(scale.dtype).t()
        return sums * scale if scaled else sums

    inputs = (
        Input((m, k), dtype="i8"),
        Input((n, k), dtype="i8"),
        Input((n,), "scale"),
    )
    description = f"{m}x{n}x{k}{', scaled' if scaled else ''}"
    text = _text_of_i8(m, n, k, scaled=scaled)
    return Work(program, inputs, "f32", description, text=text)


def _text_of_i8(m: int, n: int, k: int, *, scaled: bool) -> str:
    x, y = f"tensor<{m}x{k}xi8>", f"tensor<{n}x{k}xi8>"
    scale, sums = f"tensor<{n}xf32>", f"tensor<{m}x{n}xi32>"
    out = f"tensor<{m}x{n}xf32>"
    last = "%r = arith.mulf %g, %b : f32" if scaled else "%r = arith.addf %g, %z : f32"
    return f"""
util.func public @main(%x: {x}, %y: {y}, %s: {scale}) -> {out} {{
  %zero = arith.constant 0 : i32
  %z = arith.constant -0.0 : f32
  %e = tensor.empty() : {sums}
  %f = linalg.fill ins(%zero : i32) outs(%e : {sums}) -> {sums}
  %t = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %y : {x}, {y}) outs(%f : {sums}) -> {sums}
  %o = tensor.empty() : {out}
  %q = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>,
      affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}}
      ins(%t, %s : {sums}, {scale}) outs(%o : {out}) {{
  ^bb0(%a: i32, %b: f32, %c: f32):
    %g = arith.sitofp %a : i32 to f32
    {last}
    linalg.yield %r : f32
  }} -> {out}
  util.return %q : {out}
}}
"""


def weights_i8(chance: Chance) -> Work:
    return _weights(chance, "i8")


def weights_i4(chance: Chance) -> Work:
    return _weights(chance, "i4")


def _weights(chance: Chance, narrow: str) -> Work:
    """Weights with a scale and an optional zero point, for each column or group along K."""
    m = chance.pick(1, 1, 2, 7, 16, chance.size(300))
    group_size = chance.pick(0, 0, 32, 64, 128)
    zero = chance.likely(0.4)
    n = chance.size(2100, 2, 2)
    k = chance.size(2100, 2, 2) if not group_size else group_size * chance.size(33)
    k_contiguous = chance.likely(0.7)
    if chance.small:
        group_size, k = (16, 48) if group_size else (0, k)

    def program(x: Tensor, weight: Tensor, scale: Tensor, *zeros: Tensor) -> Tensor:
        w = weight.to(x.dtype)
        axis = int(k_contiguous) if not group_size else 1 + k_contiguous
        if zeros:
            w = w - zeros[0].to(x.dtype).unsqueeze(axis)
        w = w * scale.unsqueeze(axis)
        if k_contiguous:
            return F.linear(x, w.reshape(n, k))
        return x @ w.reshape(k, n)

    groups = (k // group_size,) if group_size else ()
    grouped_k = (*groups, group_size) if group_size else (k,)
    shape = (n, *grouped_k) if k_contiguous else (*grouped_k, n)
    scales = (n, *groups) if k_contiguous else (*groups, n)
    inputs = (
        Input((m, k)),
        Input(shape, dtype=narrow),
        Input(scales, "scale"),
        *([Input(scales, dtype=narrow)] if zero else []),
    )
    description = f"{m}x{n}x{k} of {spelled(shape)}{', zero points' if zero else ''}"
    return Work(program, inputs, chance.dtype(), description)


CALLED_M = (1, 7, 64, 131, 1000)


def dynamic_linear(chance: Chance) -> Work:
    n, k = chance.size(1100, 2), chance.size(1100, 2)

    def program(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.gelu(F.linear(x, weight, bias))

    inputs = (
        Input(("rows", k)),
        Input((n, k), "weight"),
        Input((n,), "shift"),
    )
    sizes = tuple({"rows": m} for m in CALLED_M)
    return Work(program, inputs, chance.dtype(), f"?x{n}x{k}", sizes)


def dynamic_weights(chance: Chance) -> Work:
    """Weight-only quantization to i8 or i4, in groups along K, with dynamic M."""
    narrow, group_size = chance.pick("i4", "i8"), chance.pick(0, 32, 128)
    n, k = chance.size(1100, 2, 2), 128 * chance.pick(1, 3, 8)

    def program(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
        w = weight.to(x.dtype) * scale.unsqueeze(-1)
        return F.linear(x, w.reshape(n, k))

    shape = (n, k // group_size, group_size) if group_size else (n, k)
    inputs = (Input(("rows", k)), Input(shape, dtype=narrow), Input(shape[:-1], "scale"))
    sizes = tuple({"rows": m} for m in CALLED_M)
    description = f"?x{n}x{k} of {spelled(shape)} {narrow}"
    return Work(program, inputs, chance.dtype(), description, sizes)


MATMULS = named(
    linear,
    few_rows,
    real_linear,
    layouts,
    batched,
    vector,
    gated,
    split,
    prologue,
    of_i8,
    weights_i8,
    weights_i4,
    dynamic_linear,
    dynamic_weights,
    functions,
    masked,
    of_f32,
    layouts_of_f32,
    batched_f32,
    gated_f32,
)
