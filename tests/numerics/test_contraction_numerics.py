"""Contractions with their epilogues and transposes agree with the unfused program."""

import dataclasses
import math

import numpy as np
import pytest

from helpers.harness import FLOATS, Batch, Case
from helpers.linalg_text import Function, Tensor
from mlirfuse.kernels import triton_compiler

M, N, K = 24, 48, 32
PASSES = (
    "expand_dims_hoist_rewrite,transpose_matmul_fusion,batch_matmul_transpose_fusion,"
    "matmul_elem_gelu_fusion,matmul_elem_relu_fusion,matmul_elem_add_fusion,"
    "matmul_elem_biasadd_fusion"
)

erf = np.vectorize(math.erf)


def gelu(f: Function, x: Tensor) -> Tensor:
    inner = f.apply("math.erf", f.apply("arith.divf", x, math.sqrt(2.0)))
    return f.apply("arith.mulf", x, f.apply("arith.mulf", f.apply("arith.addf", inner, 1.0), 0.5))


def gelu_tanh(f: Function, x: Tensor) -> Tensor:
    cube = f.apply("arith.mulf", f.apply("arith.mulf", x, x), x)
    inner = f.apply("arith.addf", x, f.apply("arith.mulf", cube, 0.044715))
    inner = f.apply("math.tanh", f.apply("arith.mulf", inner, math.sqrt(2.0 / math.pi)))
    return f.apply("arith.mulf", f.apply("arith.mulf", x, 0.5), f.apply("arith.addf", inner, 1.0))


def silu(f: Function, x: Tensor) -> Tensor:
    shifted = f.apply("arith.addf", f.apply("math.exp", f.apply("arith.negf", x)), 1.0)
    return f.apply("arith.divf", x, shifted)


def tanh(f: Function, x: Tensor) -> Tensor:
    return f.apply("math.tanh", x)


def relu(f: Function, x: Tensor) -> Tensor:
    return f.apply("arith.maximumf", x, 0.0)


def relu6(f: Function, x: Tensor) -> Tensor:
    return f.apply("arith.minimumf", relu(f, x), 6.0)


def leaky(f: Function, x: Tensor) -> Tensor:
    return f.apply("arith.maximumf", x, f.apply("arith.mulf", x, 0.125))


ACTIVATIONS = {
    "gelu": (gelu, lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2)))),
    "gelu_tanh": (
        gelu_tanh,
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "silu": (silu, lambda x: x / (1 + np.exp(-x))),
    "tanh": (tanh, np.tanh),
    "relu": (relu, lambda x: np.maximum(x, 0)),
    "relu6": (relu6, lambda x: np.clip(x, 0, 6)),
    "leaky": (leaky, lambda x: np.where(x > 0, x, 0.125 * x)),
}


def inputs(rows: int, dtype: str, *shapes: tuple[int, ...]) -> dict[str, tuple[np.ndarray, ...]]:
    rng = np.random.default_rng(3)
    kind = FLOATS[dtype]

    def draw(scale: float) -> tuple[np.ndarray, ...]:
        return tuple((scale * rng.standard_normal(s)).astype(kind) for s in shapes)

    zeros = tuple(np.zeros(s, kind) for s in shapes)
    whole = tuple(rng.integers(-2, 3, s).astype(kind) for s in shapes)
    big = draw(30.0 if dtype == "f16" else 1e4)
    hostile = [a.copy() for a in draw(1.0)]
    hostile[0].flat[0] = np.inf
    hostile[0].flat[hostile[0].shape[-1]] = np.nan
    return {
        "normal": draw(1.0),
        "zeros": zeros,
        "whole": whole,
        "big": big,
        "hostile": tuple(hostile),
    }


def epilogue(name: str, activation: str | None, dtype: str, dynamic: bool, residual: bool) -> Case:
    """Matmul, bias, activation, and a multiplication with a full tensor after it."""
    f = Function(name, (None if dynamic else M, N, K))
    a, b, bias = f.argument((0, 2), dtype), f.argument((2, 1), dtype), f.argument((1,), dtype)
    gate = f.argument((0, 1), dtype) if residual else None
    y = f.apply("arith.addf", f.contract(a, b, (0, 1)), bias)
    if activation:
        y = ACTIVATIONS[activation][0](f, y)
    if gate is not None:
        y = f.apply("arith.mulf", y, gate)

    def reference(a, b, bias, gate=1.0):
        x = a @ b + bias
        return ((ACTIVATIONS[activation][1](x) if activation else x) * gate,)

    shapes = [(M, K), (K, N), (N,)] + ([(M, N)] if residual else [])
    kind = "relu" if activation in ("relu", "relu6", "leaky") else "gelu"
    fires = f"matmul_elem_{kind if activation else 'biasadd'}_fusion"
    return Case(
        name=name,
        text=f.finish(y),
        inputs=inputs(M, dtype, *shapes),
        reference=reference,
        fires={fires: 1},
        ulps=K / 2,
        computed=dtype,
        hostile=frozenset({"hostile", "big"}),
        dispatches=1,
    )


def residual(name: str, dtype: str, dynamic: bool, biased: bool) -> Case:
    """Matmul, perhaps a bias, and an add of a tensor of the result's shape."""
    f = Function(name, (None if dynamic else M, N, K))
    a, b, r = f.argument((0, 2), dtype), f.argument((2, 1), dtype), f.argument((0, 1), dtype)
    y = f.contract(a, b, (0, 1))
    if biased:
        y = f.apply("arith.addf", f.argument((1,), dtype), y)
    y = f.apply("arith.addf", r, y)
    return Case(
        name=name,
        text=f.finish(y),
        inputs=inputs(M, dtype, (M, K), (K, N), (M, N), *([(N,)] if biased else [])),
        reference=lambda a, b, r, bias=0.0: (a @ b + bias + r,),
        fires={"matmul_elem_add_fusion": 1},
        ulps=K / 2,
        computed=dtype,
        hostile=frozenset({"hostile", "big"}),
        exact=frozenset({"whole", "zeros"}),
        dispatches=1,
    )


def attention_scores(name: str, dtype: str) -> Case:
    """Heads move out, batch and heads merge, keys are transposed: q k^T as PyTorch lowers it."""
    b, s, h, d = 2, 16, 3, 8
    f = Function(name, (b, s, h, d, s, b * h))
    q, k = f.argument((0, 1, 2, 3), dtype), f.argument((0, 4, 2, 3), dtype)
    qt = f.reshape(f.apply("copy", q, axes=(0, 2, 1, 3)), (5, 1, 3), "[[0, 1], [2], [3]]")
    kt = f.reshape(f.apply("copy", k, axes=(0, 2, 3, 4)), (5, 3, 4), "[[0, 1], [2], [3]]")
    y = f.reshape(f.contract(qt, kt, (5, 1, 4)), (0, 2, 1, 4), "[[0, 1], [2], [3]]")
    return Case(
        name=name,
        text=f.finish(y),
        inputs=inputs(b, dtype, (b, s, h, d), (b, s, h, d)),
        reference=lambda q, k: (np.einsum("bshd,bthd->bhst", q, k),),
        fires={"transpose_matmul_fusion": 1},
        ulps=d,
        computed=dtype,
        hostile=frozenset({"hostile", "big"}),
        exact=frozenset({"whole", "zeros"}),
    )


def attention_output(name: str, dtype: str) -> Case:
    """Probabilities times values, heads moved in before and back after."""
    b, h, m, d, s = 2, 3, 16, 8, 12
    f = Function(name, (b, h, m, d, s, b * h))
    p, v = f.argument((5, 2, 4), dtype), f.argument((0, 4, 1, 3), dtype)
    vt = f.reshape(f.apply("copy", v, axes=(0, 1, 4, 3)), (5, 4, 3), "[[0, 1], [2], [3]]")
    y = f.reshape(f.batch_matmul(p, vt), (0, 1, 2, 3), "[[0, 1], [2], [3]]")
    y = f.apply("copy", y, axes=(0, 2, 1, 3))
    return Case(
        name=name,
        text=f.finish(y),
        inputs=inputs(b, dtype, (b * h, m, s), (b, s, h, d)),
        reference=lambda p, v: (np.einsum("bhms,bshd->bmhd", p.reshape(b, h, m, s), v),),
        fires={"transpose_matmul_fusion": 1, "batch_matmul_transpose_fusion": 1},
        ulps=s / 2,
        computed=dtype,
        hostile=frozenset({"hostile", "big"}),
        exact=frozenset({"whole", "zeros"}),
        dispatches=1,
    )


def reshaped_epilogue(name: str, dtype: str) -> Case:
    """Bias and residual after the reshape of a flattened matmul."""
    b, s = 3, 8
    f = Function(name, (b * s, b, s, N, K))
    x, w, bias = f.argument((0, 4), dtype), f.argument((4, 3), dtype), f.argument((3,), dtype)
    residual = f.argument((1, 2, 3), dtype)
    y = f.reshape(f.contract(x, w, (0, 3)), (1, 2, 3), "[[0, 1], [2]]")
    y = f.apply("arith.addf", f.apply("arith.addf", y, bias), residual)
    return Case(
        name=name,
        text=f.finish(y),
        inputs=inputs(b, dtype, (b * s, K), (K, N), (N,), (b, s, N)),
        reference=lambda x, w, bias, r: ((x @ w + bias).reshape(b, s, N) + r,),
        fires={"expand_dims_hoist_rewrite": 2, "matmul_elem_add_fusion": 1},
        ulps=K / 2,
        computed=dtype,
        hostile=frozenset({"hostile", "big"}),
        exact=frozenset({"whole", "zeros"}),
    )


CASES = {
    case.name: case
    for case in [
        *(epilogue(f"{a}_f32", a, "f32", False, False) for a in ACTIVATIONS),
        epilogue("gelu_f16", "gelu", "f16", False, True),
        epilogue("silu_bf16_dynamic", "silu", "bf16", True, True),
        epilogue("gelu_f32_dynamic", "gelu", "f32", True, False),
        epilogue("bias_f32", None, "f32", False, False),
        epilogue("bias_f16_gated_dynamic", None, "f16", True, True),
        epilogue("bias_bf16", None, "bf16", False, False),
        epilogue("relu_f16_dynamic", "relu", "f16", True, False),
        epilogue("relu6_bf16", "relu6", "bf16", False, True),
        epilogue("leaky_f16", "leaky", "f16", False, False),
        residual("residual_f32", "f32", False, True),
        residual("residual_f16_dynamic", "f16", True, False),
        residual("residual_bf16", "bf16", False, True),
        attention_scores("scores_f32", "f32"),
        attention_scores("scores_f16", "f16"),
        attention_output("output_f32", "f32"),
        attention_output("output_bf16", "bf16"),
        reshaped_epilogue("reshaped_f32", "f32"),
        reshaped_epilogue("reshaped_bf16", "bf16"),
    ]
}


@pytest.fixture(scope="module")
def outcomes():
    return Batch(cases=list(CASES.values()), pipeline=PASSES).run()


@pytest.mark.parametrize("name", CASES)
def test_contraction(name, outcomes):
    outcomes[name].check()


def test_vulkan(vulkan):
    cases = [
        epilogue("vulkan_gelu", "gelu", "f32", False, False),
        epilogue("vulkan_leaky", "leaky", "f32", False, False),
        residual("vulkan_residual", "f32", False, True),
        attention_scores("vulkan_scores", "f32"),
        attention_output("vulkan_output", "f32"),
    ]
    for outcome in Batch(cases=cases, pipeline=PASSES, target=vulkan).run().values():
        outcome.check()


def test_groups_for_kernels(monkeypatch):
    """`contraction_fusion` on a CPU, as if it had kernels, groups and computes the same."""
    monkeypatch.setattr(triton_compiler, "supports", lambda target: True)
    case = epilogue("grouped", "relu", "bf16", True, False)
    case = dataclasses.replace(case, fires={"contraction_fusion": 1})
    switches = {"enable_pass": ("contraction_fusion",), "enable_feature": ("kernels",)}
    for outcome in (
        Batch(cases=[case], pipeline="contraction_fusion", switches=switches).run().values()
    ):
        outcome.check()
