"""A norm with its epilogue in one dispatch agrees with the unfused program and float64."""

import numpy as np
import pytest

from helpers.harness import FLOATS, Batch, Case
from helpers.linalg_text import Function
from helpers.norm_text import EPSILON, layer_norm, rms_norm, silu

PIPELINE = ",".join(
    [
        "group_norm_fusion",
        "add_cast_rms_norm_cast_fusion",
        "add_rms_norm_fusion",
        "layer_norm_fusion",
        "rms_norm_fusion",
        "softmax_fusion",
        "norm_epilogue_fusion",
    ]
)

ULPS = 8.0
"""The rounding of the norm's narrow result, and of each narrow op after it."""

BATCH, ROW, FLAT, COLUMN = range(4)
EVERYTHING = (BATCH, ROW, COLUMN)


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def rms(x, gamma):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * gamma


def layer(x, gamma=1.0, beta=0.0):
    shifted = x - x.mean(-1, keepdims=True)
    return shifted / np.sqrt((shifted * shifted).mean(-1, keepdims=True) + EPSILON) * gamma + beta


def case(f: Function, dtype: str, results, compute, fires: str, rows: int = 3) -> Case:
    """A case whose arguments are normal; a dynamic size is `rows`."""
    normal = np.random.default_rng(len(f.name)).standard_normal
    inputs = []
    for text in f.arguments:
        *sizes, kind = text.partition("<")[2].rstrip(">").split("x")
        shape = [rows if size == "?" else int(size) for size in sizes]
        inputs.append(normal(shape).astype(FLOATS[kind]))
    return Case(
        name=f.name,
        text=f.finish(*results),
        inputs={"normal": tuple(inputs)},
        reference=compute,
        fires={fires: 1, "norm_epilogue_fusion": 1},
        ulps=ULPS,
        computed=dtype,
        dispatches=1,
    )


def activation(dtype: str, rows: int | None) -> Case:
    f = Function(f"activation_{dtype}", (rows, 4, 8, 64))
    x, g, b = (
        f.argument(EVERYTHING, dtype),
        f.argument((COLUMN,), dtype),
        f.argument((COLUMN,), dtype),
    )
    y = silu(f, layer_norm(f, x, (COLUMN,), g, b, "f32"))

    def compute(x, g, b):
        n = layer(x, g, b)
        return (n * sigmoid(n),)

    return case(f, dtype, [y], compute, "layer_norm_fusion")


def gate(dtype: str) -> Case:
    """The residual add is a result too."""
    f = Function(f"gate_{dtype}", (None, 64))
    x, r, g, z = (f.argument(axes, dtype) for axes in ((0, 1), (0, 1), (1,), (0, 1)))
    total = f.apply("arith.addf", x, r)
    y = f.apply("arith.mulf", rms_norm(f, total, (1,), g, "f32"), silu(f, z))

    def compute(x, r, g, z):
        return rms(x + r, g) * z * sigmoid(z), x + r

    fires = "add_rms_norm_fusion" if dtype == "f32" else "add_cast_rms_norm_cast_fusion"
    return case(f, dtype, [y, total], compute, fires)


def modulated(dtype: str) -> Case:
    """Scale and shift by batch and column, then a residual of flat rows after a reshape."""
    f = Function(f"modulated_{dtype}", (2, 4, 8, 64))
    x, scale, shift, r = (
        f.argument(axes, dtype)
        for axes in (EVERYTHING, (BATCH, COLUMN), (BATCH, COLUMN), (FLAT, COLUMN))
    )
    n = layer_norm(f, x, (COLUMN,), None, None, "f32")
    m = f.apply("arith.mulf", n, f.apply("arith.addf", scale, 1.0))
    m = f.apply("arith.addf", m, shift)
    y = f.apply("arith.addf", r, f.reshape(m, (FLAT, COLUMN), "[[0, 1], [2]]"))

    def compute(x, scale, shift, r):
        m = layer(x) * (1 + scale[:, None]) + shift[:, None]
        return (r + m.reshape(r.shape),)

    return case(f, dtype, [y], compute, "layer_norm_fusion")


def group_norm(dtype: str, *, affine: bool, channels_last: bool = False) -> Case:
    """Four groups of two channels, and SiLU over (batch, channel, space) or with channels last."""
    name = f"group_{dtype}_{affine}_{channels_last}"
    f = Function(name, (3, 6, 4, 2, 8, 6))
    layout = (0, 1, 4) if channels_last else (0, 4, 5)
    split = (0, 1, 2, 3) if channels_last else (0, 2, 3, 5)
    summed = (1, 3) if channels_last else (3, 5)
    dims = "[[0], [1], [2, 3]]" if channels_last else "[[0], [1, 2], [3]]"
    x = f.argument(layout, dtype)
    wide = f.reshape(f.cast(x, "f32"), split, dims)
    n = f.reshape(layer_norm(f, wide, summed, None, None, "f32"), layout, dims)
    if affine:
        n = f.apply("arith.mulf", n, f.cast(f.argument((4,), dtype), "f32"))
    y = silu(f, f.cast(n, dtype))

    def compute(x, gamma=None):
        first = np.moveaxis(x, 2, 1) if channels_last else x
        n = layer(first.reshape(3, 4, 12)).reshape(3, 8, 6)
        n = np.moveaxis(n, 1, 2) if channels_last else n
        if gamma is not None:
            n = n * gamma.reshape((1, 1, -1) if channels_last else (1, -1, 1))
        return (n * sigmoid(n),)

    return case(f, dtype, [y], compute, "group_norm_fusion")


def cases() -> list[Case]:
    return [
        activation("f32", None),
        activation("f16", 2),
        activation("bf16", None),
        gate("f32"),
        gate("bf16"),
        modulated("f32"),
        modulated("f16"),
        group_norm("f32", affine=True),
        group_norm("f16", affine=True, channels_last=True),
        group_norm("bf16", affine=True),
        group_norm("f16", affine=False),
    ]


CASES = cases()


@pytest.fixture(scope="module")
def outcomes():
    return Batch(cases=CASES, pipeline=PIPELINE).run()


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_epilogues(outcomes, name):
    outcomes[name].check()
