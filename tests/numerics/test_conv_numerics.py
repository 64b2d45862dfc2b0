"""Convolutions with their epilogues agree with the unfused program."""

import numpy as np
import pytest

import mlirfuse
from helpers import gpus
from helpers.harness import FLOATS, Batch, Case
from helpers.linalg_text import Function, Tensor

PASSES = "conv_batch_norm_activation_fusion,conv_bias_activation_fusion,pad_fusion"
B, C, F, S, K = 2, 6, 8, 7, 3  # batch, channels, filters, space of the result, filter

ELU = "elu"


def inputs(dtype: str, *shapes: tuple[int, ...]) -> dict[str, tuple[np.ndarray, ...]]:
    rng = np.random.default_rng(5)
    kind = FLOATS[dtype]

    def draw(scale: float) -> tuple[np.ndarray, ...]:
        return tuple((scale * rng.standard_normal(s)).astype(kind) for s in shapes)

    hostile = [a.copy() for a in draw(1.0)]
    hostile[0].flat[0], hostile[0].flat[-1] = np.inf, np.nan
    return {
        "normal": draw(1.0),
        "zeros": tuple(-np.zeros(s, kind) for s in shapes),
        "whole": tuple(rng.integers(-2, 3, s).astype(kind) for s in shapes),
        "hostile": tuple(hostile),
    }


def windows(x: np.ndarray, stride: int) -> np.ndarray:
    """(n, c, h, w) -> (n, c, out h, out w, K, K)."""
    every = np.lib.stride_tricks.sliding_window_view(x, (K, K), axis=(2, 3))
    return every[:, :, ::stride, ::stride]


def elu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)


def activate(f: Function, y: Tensor, activation: str) -> Tensor:
    if activation == ELU:
        least = f.apply("arith.minimumf", y, 0.0)
        grown = f.apply("arith.subf", f.apply("math.exp", least), 1.0)
        return f.apply("arith.addf", f.apply("arith.maximumf", y, 0.0), grown)
    return f.apply("arith.maximumf", y, 0.0)


ACTIVATIONS = {ELU: elu, "relu": lambda x: np.maximum(x, 0)}


def case(name, f, y, arrays, reference, fires, dtype, **more) -> Case:
    return Case(
        name=name,
        text=f.finish(y),
        inputs=arrays,
        reference=lambda *a: (reference(*a),),
        fires=fires,
        ulps=C * K * K,
        computed=dtype,
        hostile=frozenset({"hostile"}),
        **more,
    )


def plain(name: str, dtype: str, activation: str, *, dynamic=False, residual=False) -> Case:
    """(n, c, h, w): bias by a broadcast written out, a residual, an activation."""
    n, fs, h, w, c, p, q, xh, xw = range(9)
    f = Function(name, (None if dynamic else B, F, S, S, C, K, K, S + 2, S + 2))
    x, k, b = (
        f.argument((n, c, xh, xw), dtype),
        f.argument((fs, c, p, q), dtype),
        f.argument((fs,), dtype),
    )
    rest = [f.argument((n, fs, h, w), dtype)] if residual else []
    y = f.convolve(x, k, (n, fs, h, w), {xh: (h, p, 1), xw: (w, q, 1)})
    y = f.apply("arith.addf", y, f.apply("copy", b, axes=(n, fs, h, w)))
    for r in rest:
        y = f.apply("arith.addf", y, r)
    y = activate(f, y, activation)

    def reference(x, k, b, r=0.0):
        y = np.einsum("nchwpq,fcpq->nfhw", windows(x, 1), k) + b[:, None, None] + r
        return ACTIVATIONS[activation](y)

    shapes = [(B, C, S + 2, S + 2), (F, C, K, K), (F,), *([(B, F, S, S)] if residual else [])]
    fires = {"conv_bias_activation_fusion": 1}
    return case(name, f, y, inputs(dtype, *shapes), reference, fires, dtype, dispatches=1)


def channels_last(name: str, dtype: str) -> Case:
    """(n, h, w, c) with stride 2, and padded before a next one."""
    n, h, w, fs, p, q, c, xh, xw, ph, pw = range(11)
    f = Function(name, (B, S, S, F, K, K, C, 2 * S + 1, 2 * S + 1, S + 2, S + 2))
    x, k, b = (
        f.argument((n, xh, xw, c), dtype),
        f.argument((p, q, c, fs), dtype),
        f.argument((fs,), dtype),
    )
    y = f.convolve(x, k, (n, h, w, fs), {xh: (h, p, 2), xw: (w, q, 2)})
    y = activate(f, f.apply("arith.addf", b, y), "relu")
    y = f.pad(y, (n, ph, pw, fs), (0, 1, 1, 0), 0.0)

    def reference(x, k, b):
        y = np.einsum("nchwpq,pqcf->nhwf", windows(x.transpose(0, 3, 1, 2), 2), k) + b
        return np.pad(np.maximum(y, 0), ((0, 0), (1, 1), (1, 1), (0, 0)))

    shapes = [(B, 2 * S + 1, 2 * S + 1, C), (K, K, C, F), (F,)]
    fires = {"conv_bias_activation_fusion": 1, "pad_fusion": 1}
    return case(name, f, y, inputs(dtype, *shapes), reference, fires, dtype, dispatches=1)


def depthwise(name: str, dtype: str) -> Case:
    n, c, h, w, p, q, xh, xw = range(8)
    f = Function(name, (B, C, S, S, K, K, S + 2, S + 2))
    x, k = f.argument((n, c, xh, xw), dtype), f.argument((c, p, q), dtype)
    y = activate(f, f.convolve(x, k, (n, c, h, w), {xh: (h, p, 1), xw: (w, q, 1)}), ELU)
    shapes = [(B, C, S + 2, S + 2), (C, K, K)]
    return case(
        name,
        f,
        y,
        inputs(dtype, *shapes),
        lambda x, k: elu(np.einsum("nchwpq,cpq->nchw", windows(x, 1), k)),
        {"conv_bias_activation_fusion": 1},
        dtype,
        dispatches=1,
    )


def grouped(name: str, dtype: str) -> Case:
    """Two groups, which a reshape merges; the bias is the init."""
    n, fs, g, o, h, w, c, p, q, xh, xw = range(11)
    f = Function(name, (B, F, 2, F // 2, S, S, C // 2, K, K, S + 2, S + 2))
    x = f.argument((n, g, c, xh, xw), dtype)
    k, b = f.argument((g, o, c, p, q), dtype), f.argument((fs,), dtype)
    start = f.reshape(
        f.apply("copy", b, axes=(n, fs, h, w)), (n, g, o, h, w), "[[0], [1, 2], [3], [4]]"
    )
    y = f.convolve(x, k, (n, g, o, h, w), {xh: (h, p, 1), xw: (w, q, 1)}, start)
    y = f.reshape(y, (n, fs, h, w), "[[0], [1, 2], [3], [4]]")
    y = activate(f, y, "relu")

    def reference(x, k, b):
        every = np.lib.stride_tricks.sliding_window_view(x, (K, K), axis=(3, 4))
        y = np.einsum("ngchwpq,gocpq->ngohw", every, k).reshape(B, F, S, S)
        return np.maximum(y + b[:, None, None], 0)

    shapes = [(B, 2, C // 2, S + 2, S + 2), (2, F // 2, C // 2, K, K), (F,)]
    fires = {"conv_bias_activation_fusion": 1}
    return case(name, f, y, inputs(dtype, *shapes), reference, fires, dtype, dispatches=1)


def batch_norm(name: str, *, divides: bool) -> Case:
    """Constant filter, bias, mean, scale and shift: all but a filter and a bias disappear."""
    rng = np.random.default_rng(11)
    data = {
        "w": rng.standard_normal((F, C, K, K)),
        **{name: rng.standard_normal(F) for name in ("bias", "mean", "shift")},
        "scale": rng.uniform(0.5, 2.0, F) * rng.choice([-1.0, 1.0], F),
    }
    data = {key: value.astype(np.float32) for key, value in data.items()}
    n, fs, h, w, c, p, q, xh, xw = range(9)
    f = Function(name, (B, F, S, S, C, K, K, S + 2, S + 2))
    x = f.argument((n, c, xh, xw), "f32")
    axes = {"w": (fs, c, p, q)}
    part = {key: f.constant(axes.get(key, (fs,)), "f32", v.tobytes()) for key, v in data.items()}
    y = f.convolve(x, part["w"], (n, fs, h, w), {xh: (h, p, 1), xw: (w, q, 1)})
    y = f.apply("arith.addf", y, part["bias"])
    y = f.apply("arith.subf", y, part["mean"])
    y = f.apply("arith.divf" if divides else "arith.mulf", y, part["scale"])
    y = activate(f, f.apply("arith.addf", y, part["shift"]), "relu")
    wide = {key: v.astype(np.float64) for key, v in data.items()}
    scale = 1 / wide["scale"] if divides else wide["scale"]

    def reference(x):
        y = np.einsum("nchwpq,fcpq->nfhw", windows(x, 1), wide["w"])
        column = (slice(None), None, None)
        y = (y + wide["bias"][column] - wide["mean"][column]) * scale[column]
        return np.maximum(y + wide["shift"][column], 0)

    arrays = inputs("f32", (B, C, S + 2, S + 2))
    fires = {"conv_batch_norm_activation_fusion": 1, "conv_bias_activation_fusion": 1}
    return case(name, f, y, arrays, reference, fires, "f32", dispatches=1)


CASES = {
    case.name: case
    for case in [
        plain("elu_f32", "f32", ELU),
        plain("residual_f32", "f32", "relu", residual=True),
        plain("residual_dynamic_f32", "f32", "relu", dynamic=True, residual=True),
        plain("relu_f16", "f16", "relu"),
        plain("elu_dynamic_bf16", "bf16", ELU, dynamic=True),
        channels_last("padded_f32", "f32"),
        channels_last("padded_f16", "f16"),
        depthwise("depthwise_f32", "f32"),
        depthwise("depthwise_bf16", "bf16"),
        grouped("grouped_f32", "f32"),
        grouped("grouped_f16", "f16"),
        batch_norm("scaled_f32", divides=False),
        batch_norm("divided_f32", divides=True),
    ]
}


@pytest.fixture(scope="module")
def outcomes():
    return Batch(cases=list(CASES.values()), pipeline=PASSES).run()


@pytest.mark.parametrize("name", CASES)
def test_convolution(name, outcomes):
    outcomes[name].check()


def test_vulkan(vulkan):
    cases = [
        plain("vulkan_plain", "f32", ELU, residual=True),
        channels_last("vulkan_padded", "f32"),
        grouped("vulkan_grouped", "f32"),
        batch_norm("vulkan_norm", divides=False),
    ]
    for outcome in Batch(cases=cases, pipeline=PASSES, target=vulkan).run().values():
        outcome.check()


@pytest.mark.parametrize("target", gpus.PARAMETERS)
def test_compiles(target):
    cases = [c for n, c in CASES.items() if n.endswith("_f32")]
    text = "\n".join(c.text for c in cases)
    fused = mlirfuse.compile(text, target=target, pipeline=PASSES, function="elu_f32", cache=False)
    taken = fused.report.counts()
    for name in PASSES.split(","):
        assert taken[name] == sum(c.fires.get(name, 0) for c in cases)
