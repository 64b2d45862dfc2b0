"""Forms of `matmul_triton_kernel`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.gpu.check.case import Chance, Input, Tensor, Work, named
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


def few_rows(chance: Chance) -> Work:
    rows = chance.pick(1, 1, 2, 3, 5, 7, 15, 16)
    return _linear(chance, rows, chance.size(4100, 2), chance.size(4100, 2))


REAL = (
    (4096, 768, 768),
    (6304, 768, 768),
    (1000, 3072, 768),
    (4999, 3072, 768),
    (4096, 768, 3072),
    (1024, 4096, 4096),
    (131, 4096, 4096),
    (2053, 4096, 1024),
)
"""Rows, columns, terms: most are of kernels whose workgroups stay."""


def real_linear(chance: Chance) -> Work:
    sizes = REAL[chance.number % len(REAL)]
    return _linear(chance, *(min(n, 64) if chance.small else n for n in sizes))


def _linear(chance: Chance, rows: int, columns: int, terms: int) -> Work:
    bias, residual = chance.likely(0.6), chance.likely(0.4)
    activation = chance.pick(*ACTIVATIONS)

    def program(x: Tensor, weight: Tensor, *more: Tensor) -> Tensor:
        rest = iter(more)
        y = F.linear(x, weight, next(rest) if bias else None)
        y = ACTIVATIONS[activation](y)
        return y + next(rest) if residual else y

    inputs = (
        Input((rows, terms)),
        Input((columns, terms), "weight"),
        *([Input((columns,), "shift")] if bias else []),
        *([Input((rows, columns))] if residual else []),
    )
    words = ["bias"] * bias + [activation] * bool(activation) + ["residual"] * residual
    said = ", ".join([f"{rows}x{columns}x{terms}", *words])
    return Work(program, inputs, chance.dtype(), said)


def layouts(chance: Chance) -> Work:
    """Either operand in either order."""
    rows, columns, terms = chance.size(500), chance.size(500, 2), chance.size(700, 2)
    left, right = chance.likely(0.5), chance.likely(0.5)

    def program(x: Tensor, y: Tensor) -> Tensor:
        return torch.tanh((x.t() if left else x) @ (y.t() if right else y))

    a = (terms, rows) if left else (rows, terms)
    b = (columns, terms) if right else (terms, columns)
    inputs = (Input(a), Input(b, "shift"))
    return Work(program, inputs, chance.dtype(), f"{rows}x{columns}x{terms} of {spelled(a, b)}")


def batched(chance: Chance) -> Work:
    batch, rows, columns = chance.size(33), chance.size(300), chance.size(300, 2)
    terms = chance.size(300, 2)
    swapped = chance.likely(0.5)

    def program(x: Tensor, y: Tensor) -> Tensor:
        return (x @ (y.transpose(1, 2) if swapped else y)) * 0.125

    b = (batch, columns, terms) if swapped else (batch, terms, columns)
    inputs = (Input((batch, rows, terms)), Input(b))
    return Work(program, inputs, chance.dtype(), f"{batch}x{rows}x{columns}x{terms}")


def vector(chance: Chance) -> Work:
    """A vector and a matrix. With the matrix first it is a reduction of its rows."""
    columns, terms = chance.size(3000, 2), chance.size(3000, 2)

    def program(x: Tensor, weight: Tensor) -> Tensor:
        return F.silu(x @ weight)

    inputs = (Input((terms,)), Input((terms, columns), "shift"))
    return Work(program, inputs, chance.dtype(), f"{columns}x{terms}")


def gated(chance: Chance) -> Work:
    rows = chance.pick(1, 7, 16, *[chance.size(600)] * 3)
    columns, terms = chance.size(1500, 2), chance.size(1100, 2)
    gelu = chance.likely(0.3)

    def program(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
        y = F.linear(x, gate)
        return (F.gelu(y) if gelu else F.silu(y)) * F.linear(x, up)

    weight = Input((columns, terms), "weight")
    inputs = (Input((rows, terms)), weight, weight)
    return Work(program, inputs, chance.dtype(), f"{rows}x{columns}x{terms}{' GELU' * gelu}")


def split(chance: Chance) -> Work:
    """A joined projection whose columns are three results."""
    rows, terms = chance.size(600), chance.size(900, 2)
    width = chance.size(400, 2)

    def program(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
        q, k, v = F.linear(x, weight, bias).chunk(3, dim=-1)
        return q * 0.125, k, v

    inputs = (
        Input((rows, terms)),
        Input((3 * width, terms), "weight"),
        Input((3 * width,), "shift"),
    )
    return Work(program, inputs, chance.dtype(), f"{rows}x3x{width}x{terms}")


def prologue(chance: Chance) -> Work:
    """Elementwise ops before the sums, on both operands."""
    rows, columns, terms = chance.size(400), chance.size(500, 2), chance.size(700, 2)

    def program(x: Tensor, scale: Tensor, y: Tensor) -> Tensor:
        return F.relu(x * scale) @ torch.tanh(y)

    inputs = (Input((rows, terms)), Input((terms,), "scale"), Input((terms, columns)))
    return Work(program, inputs, chance.dtype(), f"{rows}x{columns}x{terms}")


def of_i8(chance: Chance) -> Work:
    """i8 by i8, summed in i32: as they are, or scaled."""
    rows, columns = chance.pick(1, 7, chance.size(400, 2)), chance.size(500, 2)
    terms, scaled = chance.size(1100, 2), chance.likely(0.5)

    def program(x: Tensor, y: Tensor, scale: Tensor) -> Tensor:
        sums = x.to(scale.dtype) @ y.to(scale.dtype).t()
        return sums * scale if scaled else sums

    inputs = (
        Input((rows, terms), dtype="i8"),
        Input((columns, terms), dtype="i8"),
        Input((columns,), "scale"),
    )
    said = f"{rows}x{columns}x{terms}{', scaled' if scaled else ''}"
    text = _text_of_i8(rows, columns, terms, scaled=scaled)
    return Work(program, inputs, "f32", said, text=text)


def _text_of_i8(rows: int, columns: int, terms: int, *, scaled: bool) -> str:
    x, y = f"tensor<{rows}x{terms}xi8>", f"tensor<{columns}x{terms}xi8>"
    scale, sums = f"tensor<{columns}xf32>", f"tensor<{rows}x{columns}xi32>"
    out = f"tensor<{rows}x{columns}xf32>"
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
    """Weights with a scale, and perhaps a zero point, for each column or run of terms."""
    rows = chance.pick(1, 1, 2, 7, 16, chance.size(300))
    run = chance.pick(0, 0, 32, 64, 128)
    zero = chance.likely(0.4)
    columns = chance.size(2100, 2, 2)
    terms = chance.size(2100, 2, 2) if not run else run * chance.size(33)
    inside = chance.likely(0.7)
    if chance.small:
        run, terms = (16, 48) if run else (0, terms)

    def program(x: Tensor, weight: Tensor, scale: Tensor, *zeros: Tensor) -> Tensor:
        w = weight.to(x.dtype)
        axis = int(inside) if not run else 1 + inside
        if zeros:
            w = w - zeros[0].to(x.dtype).unsqueeze(axis)
        w = w * scale.unsqueeze(axis)
        if inside:
            return F.linear(x, w.reshape(columns, terms))
        return x @ w.reshape(terms, columns)

    runs = (terms // run,) if run else ()
    many = (*runs, run) if run else (terms,)
    shape = (columns, *many) if inside else (*many, columns)
    scales = (columns, *runs) if inside else (*runs, columns)
    inputs = (
        Input((rows, terms)),
        Input(shape, dtype=narrow),
        Input(scales, "scale"),
        *([Input(scales, dtype=narrow)] if zero else []),
    )
    said = f"{rows}x{columns}x{terms} of {spelled(shape)}{', zero points' if zero else ''}"
    return Work(program, inputs, chance.dtype(), said)


ROWS_CALLED = (1, 7, 64, 131, 1000)


def dynamic_linear(chance: Chance) -> Work:
    columns, terms = chance.size(1100, 2), chance.size(1100, 2)

    def program(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.gelu(F.linear(x, weight, bias))

    inputs = (
        Input(("rows", terms)),
        Input((columns, terms), "weight"),
        Input((columns,), "shift"),
    )
    sizes = tuple({"rows": n} for n in ROWS_CALLED)
    return Work(program, inputs, chance.dtype(), f"?x{columns}x{terms}", sizes)


def dynamic_weights(chance: Chance) -> Work:
    """Weights of i8 or i4, with runs, and any number of rows."""
    narrow, run = chance.pick("i4", "i8"), chance.pick(0, 32, 128)
    columns, terms = chance.size(1100, 2, 2), 128 * chance.pick(1, 3, 8)

    def program(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
        w = weight.to(x.dtype) * scale.unsqueeze(-1)
        return F.linear(x, w.reshape(columns, terms))

    shape = (columns, terms // run, run) if run else (columns, terms)
    inputs = (Input(("rows", terms)), Input(shape, dtype=narrow), Input(shape[:-1], "scale"))
    sizes = tuple({"rows": n} for n in ROWS_CALLED)
    said = f"?x{columns}x{terms} of {spelled(shape)} {narrow}"
    return Work(program, inputs, chance.dtype(), said, sizes)


PRODUCTS = named(
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
)
