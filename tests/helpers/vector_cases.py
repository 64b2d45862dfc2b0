"""Cases for kernels in the vector dialect: convolutions, matmuls and poolings with epilogues."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from helpers.grouped_conv_text import Form, form_reference, form_text
from helpers.harness import FLOATS, Arrays, Case
from helpers.linalg_text import Function, Tensor

PASSES = (
    "image_layout_rewrite,result_order_rewrite,convolution_fusion,pooling_fusion,"
    "conv_vector_kernel,matmul_vector_kernel,pool_vector_kernel"
)
CONV = {"convolution_fusion": 1, "conv_vector_kernel": 1}
MATMUL = {"matmul_vector_kernel": 1}
POOL = {"pooling_fusion": 1, "pool_vector_kernel": 1}


def draw(dtype: str, *shapes: Sequence[int], special: int = 0) -> dict[str, Arrays]:
    """Sets of inputs; the one with infinities and NaNs has them in the first `special` tensors."""
    rng = np.random.default_rng(11)
    kind = FLOATS[dtype]
    hostile = [rng.standard_normal(s).astype(kind) for s in shapes]
    for array in hostile[:special]:
        array.flat[0], array.flat[array.size // 2], array.flat[-1] = np.inf, np.nan, -np.inf
    sets = {
        "normal": tuple(rng.standard_normal(s).astype(kind) for s in shapes),
        "whole": tuple(rng.integers(-2, 3, s).astype(kind) for s in shapes),
    }
    return sets | ({"hostile": tuple(hostile)} if special else {})


def case(
    name: str,
    text: str,
    inputs: dict[str, Arrays],
    reference: Callable[..., Arrays],
    fires: dict[str, int],
    ulps: float,
    dtype: str = "f32",
    *,
    dispatches: int | None = None,
) -> Case:
    """A case whose sums of whole numbers are exact."""
    return Case(
        name=name,
        text=text,
        inputs=inputs,
        reference=reference,
        fires=fires,
        ulps=ulps,
        computed=dtype,
        hostile=frozenset({"hostile"} & set(inputs)),
        exact=frozenset({"whole"}),
        dispatches=dispatches,
    )


def renamed(text: str, name: str) -> str:
    """A module's one function and its aliases with names of their own."""
    text = text.replace("@main", f"@{name}")
    aliases = "|".join(re.findall(r"^#(\w+) =", text, re.MULTILINE))
    return re.sub(rf"#({aliases})\b", rf"#{name}_\1", text) if aliases else text


def convolution(
    name: str, form: Form, dtype: str = "f32", *, constant: bool = False, fires: dict | None = None
) -> Case:
    """A padded convolution, a bias and a ReLU; `constant` makes the filter a constant."""
    shapes = [form.shape(form.image_axes, form.image), form.shape(form.filter_axes)]
    shapes.append(form.shape(form.bias_axes))
    text = renamed(form_text(form, dtype), name)
    if not constant:
        sets = draw(dtype, *shapes, special=1)
        return case(
            name,
            text,
            sets,
            lambda x, w, v: (form_reference(form, x, w, v),),
            CONV if fires is None else fires,
            _length(form),
            dtype,
        )
    w = np.random.default_rng(3).integers(-2, 3, shapes[1]).astype(FLOATS[dtype])
    kind = re.search(r"%w: (tensor<\w+>), ", text)
    assert kind is not None
    text = text.replace(kind[0], "", 1).replace(
        "%zero =", f'%w = arith.constant dense<"0x{w.tobytes().hex()}"> : {kind[1]}\n  %zero =', 1
    )
    return case(
        name,
        text,
        draw(dtype, shapes[0], shapes[2], special=1),
        lambda x, v: (form_reference(form, x, w, v),),
        CONV if fires is None else fires,
        _length(form),
        dtype,
    )


def _length(form: Form) -> int:
    return int(np.prod(form.taps)) * (form.inner or 1)


def gelu(f: Function, y: Tensor) -> Tensor:
    """The Gaussian error linear unit of a tensor."""
    erf = f.apply("math.erf", f.apply("arith.mulf", y, float(np.sqrt(0.5))))
    half = f.apply("arith.mulf", y, 0.5)
    return f.apply("arith.mulf", half, f.apply("arith.addf", erf, 1.0))


def silu(f: Function, y: Tensor) -> Tensor:
    """The product of a tensor and its logistic function."""
    exponential = f.apply("math.exp", f.apply("arith.negf", y))
    return f.apply("arith.divf", y, f.apply("arith.addf", exponential, 1.0))


def matmul(
    name: str,
    m: int,
    n: int,
    k: int,
    dtype: str = "f32",
    *,
    a: str = "mk",
    b: str = "kn",
    c: str = "mn",
    other: str = "",
    batch: int = 1,
    constant: bool = False,
    fires: dict[str, int] | None = None,
) -> Case:
    """A product of operands with that order of their dimensions; `constant` is the second one.

    Its element type is `other`, by default that of the first one; batches are the dimension `g`.
    """
    loops = {"m": 0, "n": 1, "k": 2, "g": 3}
    size = {"m": m, "n": n, "k": k, "g": batch}
    f = Function(name, tuple(size.values()))
    second = other or dtype
    x = f.argument([loops[d] for d in a], dtype)
    shapes = [[size[d] for d in a], [size[d] for d in b]]
    data = np.random.default_rng(3).integers(-2, 3, shapes[1]).astype(FLOATS[second])
    axes = [loops[d] for d in b]
    w = f.constant(axes, second, data.tobytes()) if constant else f.argument(axes, second)
    y = f.contract(x, w, [loops[d] for d in c], "f32")

    def reference(x: np.ndarray, w: np.ndarray) -> Arrays:
        return (np.einsum(f"{a},{b}->{c}", x, w),)

    inputs = draw(dtype, *(shapes[:1] if constant else shapes), special=1)
    inputs = {
        key: (x, *(w.astype(FLOATS[second]) for w in rest)) for key, (x, *rest) in inputs.items()
    }
    exact = (lambda x: reference(x, data.astype(np.float64))) if constant else reference
    return case(
        name, f.finish(y), inputs, exact, MATMUL if fires is None else fires, max(k, 4), dtype
    )


def scaled_image(name: str, channels: int, written: Sequence[int] = (1, 2, 0)) -> Case:
    """A depthwise convolution, its image scaled by sums over pixels, and a product over channels.

    The bias is added in the order of channels first, which all ops behind it read; `written` is the
    order of the convolution's result.
    """
    f = Function(name, (channels, 6, 7, 3, 3, 8, 9, 5))
    x, w, b = f.argument((5, 6, 0), "f32"), f.argument((0, 3, 4), "f32"), f.argument((0,), "f32")
    h = f.apply("arith.addf", f.convolve(x, w, written, {5: (1, 3, 1), 6: (2, 4, 1)}), b)
    y = f.apply("arith.mulf", h, f.reduce("arith.addf", h, (1, 2)))
    text = f.finish(f.contract(y, f.argument((0, 7), "f32"), (1, 2, 7)))
    shapes = [(8, 9, channels), (channels, 3, 3), (channels,), (channels, 5)]

    def reference(x: np.ndarray, w: np.ndarray, b: np.ndarray, v: np.ndarray) -> Arrays:
        taps = [(i, j) for i in range(3) for j in range(3)]
        h = b + sum(x[i : i + 6, j : j + 7] * w[:, i, j] for i, j in taps)
        return (np.einsum("hwc,c,ck->hwk", h, h.sum((0, 1)), v),)

    return case(
        name,
        text,
        draw("f32", *shapes),
        reference,
        {"image_layout_rewrite": 1, **CONV, **MATMUL},
        64,
    )


def reshaped_constant(name: str, n: int, k: int) -> Case:
    """A matrix, which is a reshape of a constant, times a vector, and a ReLU."""
    data = np.random.default_rng(3).integers(-2, 3, (n, k)).astype(np.float32)
    f = Function(name, (n, k, 1))
    x = f.argument((1,), "f32")
    wide = f.constant((0, 1, 2), "f32", data.tobytes())
    y = f.contract(x, f.reshape(wide, (0, 1), "[[0], [1, 2]]"), (0,), "f32")
    text = f.finish(f.apply("arith.maximumf", y, 0.0))

    def reference(x: np.ndarray) -> Arrays:
        return (np.maximum(data.astype(np.float64) @ x, 0.0),)

    return case(name, text, draw("f32", (k,), special=1), reference, MATMUL, k)


def pooling(
    name: str,
    combine: str,
    start: float,
    *,
    size: int = 9,
    channels: int = 21,
    side: int = 3,
    stride: int = 2,
    pad: tuple[int, int] = (1, 1),
    fires: dict[str, int] | None = None,
    dtype: str = "f32",
) -> Case:
    """A pooling of squares with channels last, padded with its first value."""
    low, high = pad
    whole = size + low + high
    out = (whole - side) // stride + 1
    infinity = {"f32": ("0xFF800000", "0x7F800000"), "f16": ("0xFC00", "0x7C00")}
    infinity["bf16"] = ("0xFF80", "0x7F80")
    e = f"{start:.1f}" if np.isfinite(start) else infinity[dtype][int(start > 0)]
    x, p = (f"tensor<2x{s}x{s}x{channels}x{dtype}>" for s in (size, whole))
    y = f"tensor<2x{out}x{out}x{channels}x{dtype}>"
    text = f"""
#x = affine_map<(b, h, w, c, i, j) -> (b, h * {stride} + i, w * {stride} + j, c)>
#k = affine_map<(b, h, w, c, i, j) -> (i, j)>
#y = affine_map<(b, h, w, c, i, j) -> (b, h, w, c)>
func.func @main(%x: {x}) -> {y} {{
  %edge = arith.constant {e} : {dtype}
  %p = tensor.pad %x low[0, {low}, {low}, 0] high[0, {high}, {high}, 0] {{
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %edge : {dtype}
  }} : {x} to {p}
  %k = tensor.empty() : tensor<{side}x{side}x{dtype}>
  %e = tensor.empty() : {y}
  %f = linalg.fill ins(%edge : {dtype}) outs(%e : {y}) -> {y}
  %c = linalg.generic {{indexing_maps = [#x, #k, #y], iterator_types =
      ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}}
      ins(%p, %k : {p}, tensor<{side}x{side}x{dtype}>) outs(%f : {y}) {{
  ^bb0(%a: {dtype}, %b: {dtype}, %o: {dtype}):
    %t = {combine} %o, %a : {dtype}
    linalg.yield %t : {dtype}
  }} -> {y}
  return %c : {y}
}}
"""
    reduce = {"arith.maximumf": np.max, "arith.minimumf": np.min, "arith.addf": np.sum}[combine]

    def reference(x: np.ndarray) -> Arrays:
        x = np.pad(x, ((0, 0), pad, pad, (0, 0)), constant_values=start)
        view = np.lib.stride_tricks.sliding_window_view(x, (side, side), axis=(1, 2))
        return (reduce(view[:, ::stride, ::stride], axis=(-2, -1)),)

    inputs = draw(dtype, (2, size, size, channels), special=1)
    fires = POOL if fires is None else fires
    return case(name, renamed(text, name), inputs, reference, fires, side * side, dtype)


TWO_RESULTS = """
#x = affine_map<(b, w, f, j, c) -> (b, w + j, c)>
#w = affine_map<(b, w, f, j, c) -> (j, c, f)>
#y = affine_map<(b, w, f, j, c) -> (b, w, f)>
#id = affine_map<(b, w, f) -> (b, w, f)>
#t = affine_map<(b, w, f) -> (b, f, w)>
func.func @main(%x: tensor<2x19x6xf32>, %w: tensor<3x6x21xf32>, %r: tensor<2x17x21xf32>)
    -> (tensor<2x17x21xf16>, tensor<2x21x17xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x17x21xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<2x17x21xf32>) -> tensor<2x17x21xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types =
      ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<2x19x6xf32>, tensor<3x6x21xf32>) outs(%s : tensor<2x17x21xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x17x21xf32>
  %h = tensor.empty() : tensor<2x17x21xf16>
  %k = tensor.empty() : tensor<2x21x17xf32>
  %y:2 = linalg.generic {indexing_maps = [#id, #id, #id, #t], iterator_types =
      ["parallel", "parallel", "parallel"]}
      ins(%c, %r : tensor<2x17x21xf32>, tensor<2x17x21xf32>)
      outs(%h, %k : tensor<2x17x21xf16>, tensor<2x21x17xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f16, %p: f32):
    %a = arith.addf %i, %j : f32
    %n = arith.truncf %a : f32 to f16
    %g = arith.maximumf %a, %zero : f32
    linalg.yield %n, %g : f16, f32
  } -> (tensor<2x17x21xf16>, tensor<2x21x17xf32>)
  return %y#0, %y#1 : tensor<2x17x21xf16>, tensor<2x21x17xf32>
}
"""
"""A convolution whose epilogue has a residual and two results: of f16, and with channels first."""


def two_results(name: str) -> Case:
    """`TWO_RESULTS` and its reference."""

    def reference(x: np.ndarray, w: np.ndarray, r: np.ndarray) -> Arrays:
        view = np.lib.stride_tricks.sliding_window_view(x, 3, axis=1)
        y = np.einsum("bwcj,jcf->bwf", view, w) + r
        return y, np.maximum(y, 0).transpose(0, 2, 1)

    inputs = draw("f32", (2, 19, 6), (3, 6, 21), (2, 17, 21), special=1)
    return case(name, renamed(TWO_RESULTS, name), inputs, reference, CONV, 18)


EPILOGUES: dict[str, tuple[Callable[[Function, Tensor], Tensor], Callable]] = {
    "gelu": (gelu, lambda y: y * 0.5 * (1 + np.vectorize(math.erf)(y * np.sqrt(0.5)))),
    "silu": (silu, lambda y: y / (1 + np.exp(-y))),
    "tanh": (lambda f, y: f.apply("math.tanh", y), np.tanh),
    "log": (
        lambda f, y: f.apply("math.log", f.apply("arith.addf", f.apply("math.absf", y), 1.0)),
        lambda y: np.log(np.abs(y) + 1),
    ),
    "rsqrt": (
        lambda f, y: f.apply("math.rsqrt", f.apply("arith.addf", f.apply("math.absf", y), 1.0)),
        lambda y: 1 / np.sqrt(np.abs(y) + 1),
    ),
    "power": (
        lambda f, y: f.apply(
            "math.powf", f.apply("arith.addf", f.apply("math.absf", y), 1.0), 0.75
        ),
        lambda y: (np.abs(y) + 1) ** 0.75,
    ),
    "sin": (lambda f, y: f.apply("math.sin", y), np.sin),
    "cos": (lambda f, y: f.apply("math.cos", y), np.cos),
    "erf": (lambda f, y: f.apply("math.erf", y), np.vectorize(math.erf)),
    "expm1": (lambda f, y: f.apply("math.expm1", y), np.expm1),
    "log1p": (
        lambda f, y: f.apply("math.log1p", f.apply("math.absf", y)),
        lambda y: np.log1p(np.abs(y)),
    ),
    "cube": (lambda f, y: f.power(y, 3), lambda y: y**3),
    "inverse_square": (
        lambda f, y: f.power(f.apply("arith.addf", f.apply("math.absf", y), 1.0), -2),
        lambda y: (np.abs(y) + 1) ** -2.0,
    ),
    "floor": (lambda f, y: f.apply("math.floor", y), np.floor),
}
"""Name -> an activation, and the same in numpy."""


def activated(name: str, activation: str) -> Case:
    """A convolution and a bias before an activation."""
    n, w, fs, q, c, xw = range(6)
    f = Function(name, (2, 17, 21, 3, 6, 19))
    x, k = f.argument((n, xw, c), "f32"), f.argument((q, c, fs), "f32")
    b = f.argument((fs,), "f32")
    y = f.apply("arith.addf", f.convolve(x, k, (n, w, fs), {xw: (w, q, 1)}), b)
    ours, theirs = EPILOGUES[activation]

    def reference(x: np.ndarray, k: np.ndarray, b: np.ndarray) -> Arrays:
        view = np.lib.stride_tricks.sliding_window_view(x, 3, axis=1)
        return (theirs(np.einsum("bwcj,jcf->bwf", view, k) + b),)

    inputs = draw("f32", (2, 19, 6), (3, 6, 21), (21,))
    if activation == "floor":
        inputs.pop("normal")
    return dataclasses.replace(
        case(name, f.finish(ours(f, y)), inputs, reference, CONV, 64), exact=frozenset()
    )


def gated_by_transposed(name: str, dtype: str = "f32") -> Case:
    """A matmul and its product with a tensor whose columns are not contiguous."""
    m, n, k = range(3)
    f = Function(name, (19, 37, 23))
    x, w, r = f.argument((m, k), dtype), f.argument((k, n), dtype), f.argument((n, m), dtype)
    wide = r if dtype == "f32" else f.cast(r, "f32", "arith.extf")
    text = f.finish(f.apply("arith.mulf", f.contract(x, w, (m, n), "f32"), wide))
    inputs = draw(dtype, (19, 23), (23, 37), (37, 19))

    def reference(x: np.ndarray, w: np.ndarray, r: np.ndarray) -> Arrays:
        return (x @ w * r.T,)

    return case(name, text, inputs, reference, MATMUL, 256, dtype)


def reordered(name: str, *, residual: bool) -> Case:
    """A convolution with channels last, and ops with channels first that read it.

    The residual has channels first: the epilogue is computed on vectors of pixels.
    """
    n, fs, w, q, c, xw = range(6)
    f = Function(name, (2, 21, 37, 3, 6, 39))
    x, k, b = f.argument((n, xw, c), "f32"), f.argument((q, c, fs), "f32"), f.argument((fs,), "f32")
    y = f.convolve(x, k, (n, w, fs), {xw: (w, q, 1)})
    y = f.apply("arith.addf", y, b)
    y = f.apply("arith.mulf", y, f.apply("math.absf", y))
    shapes = [(2, 39, 6), (3, 6, 21), (21,)]
    if residual:
        y = f.apply("arith.addf", y, f.argument((n, fs, w), "f32"))
        shapes.append((2, 21, 37))

    def reference(x: np.ndarray, k: np.ndarray, b: np.ndarray, *r: np.ndarray) -> Arrays:
        view = np.lib.stride_tricks.sliding_window_view(x, 3, axis=1)
        y = np.einsum("bwcj,jcf->bfw", view, k) + b[:, None]
        return (sum(r, y * np.abs(y)),)

    fires = {"result_order_rewrite": 1, **CONV}
    return case(name, f.finish(y), draw("f32", *shapes, special=1), reference, fires, 256)


CHANNELS_BETWEEN = """
#x = affine_map<(b, h, w, f, c) -> (b, h, w, c)>
#w = affine_map<(b, h, w, f, c) -> (c, f)>
#y = affine_map<(b, h, w, f, c) -> (b, f, h, w)>
func.func @main(%x: tensor<2x5x6x7xf32>, %w: tensor<7x24xf32>) -> tensor<2x24x5x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x24x5x6xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<2x24x5x6xf32>) -> tensor<2x24x5x6xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types =
      ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<2x5x6x7xf32>, tensor<7x24xf32>) outs(%s : tensor<2x24x5x6xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x24x5x6xf32>
  return %c : tensor<2x24x5x6xf32>
}
"""
"""A contraction over the channels of two images, whose result has channels first."""


def channels_between(name: str) -> Case:
    """`CHANNELS_BETWEEN` and its reference."""

    def reference(x: np.ndarray, w: np.ndarray) -> Arrays:
        return ((x @ w).transpose(0, 3, 1, 2),)

    inputs = draw("f32", (2, 5, 6, 7), (7, 24), special=1)
    return case(name, renamed(CHANNELS_BETWEEN, name), inputs, reference, MATMUL, 7)


STRIDED = """
#x = affine_map<(b, h, w, f, c) -> (b, h, w, c)>
#w = affine_map<(b, h, w, f, c) -> (c, f)>
#y = affine_map<(b, h, w, f, c) -> (b, h, w, f)>
func.func @main(%x: tensor<2x9x11x6xf32>, %w: tensor<6x24xf32>) -> tensor<2x5x6x24xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.extract_slice %x[0, 0, 0, 0] [2, 5, 6, 6] [1, 2, 2, 1]
      : tensor<2x9x11x6xf32> to tensor<2x5x6x6xf32>
  %e = tensor.empty() : tensor<2x5x6x24xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<2x5x6x24xf32>) -> tensor<2x5x6x24xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types =
      ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %w : tensor<2x5x6x6xf32>, tensor<6x24xf32>) outs(%s : tensor<2x5x6x24xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x5x6x24xf32>
  return %c : tensor<2x5x6x24xf32>
}
"""
"""A convolution of one tap with strides: IREE makes it a contraction of a slice."""


def strided(name: str) -> Case:
    """`STRIDED` and its reference; the slice is read in place, in one dispatch."""

    def reference(x: np.ndarray, w: np.ndarray) -> Arrays:
        return (x[:, ::2, ::2] @ w,)

    inputs = draw("f32", (2, 9, 11, 6), (6, 24), special=1)
    return case(name, renamed(STRIDED, name), inputs, reference, MATMUL, 6)
