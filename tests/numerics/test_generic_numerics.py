"""Elementwise and row fusion agree with the unfused program and float64."""

import numpy as np
import pytest

from helpers.harness import FLOATS, Batch, Case
from helpers.linalg_text import Function

M, N = 24, 40
PASSES = "reduction_fusion,elementwise_fusion,horizontal_fusion"


def inputs(dtype: str, *shapes: tuple[int, ...]) -> dict[str, tuple[np.ndarray, ...]]:
    rng = np.random.default_rng(5)
    kind = FLOATS[dtype]
    normal = tuple(rng.standard_normal(s).astype(kind) for s in shapes)
    equal = tuple(np.full(s, 1.5, kind) for s in shapes)
    negative_zero = tuple(np.full(s, -0.0, kind) for s in shapes)
    hostile = tuple(a.copy() for a in normal)
    hostile[0].flat[0] = np.inf
    hostile[0].flat[-1] = np.nan
    return {
        "normal": normal,
        "equal": equal,
        "negative zero": negative_zero,
        "hostile": hostile,
    }


def tree(name: str, dtype: str, rows: int | None, keep: bool) -> Case:
    """A tree with a broadcast; the first product may be a second result."""
    f = Function(name, (rows, N))
    x, y, b = f.argument((0, 1), dtype), f.argument((0, 1), dtype), f.argument((1,), dtype)
    p = f.apply("arith.mulf", x, y)
    q = f.apply("math.absf", f.apply("arith.addf", p, b))
    r = f.apply("arith.subf", q, p)

    def reference(x, y, b):
        r = np.abs(x * y + b) - x * y
        return (r, x * y) if keep else (r,)

    return Case(
        name=name,
        text=f.finish(r, p) if keep else f.finish(r),
        inputs=inputs(dtype, (M, N), (M, N), (N,)),
        reference=reference,
        fires={"elementwise_fusion": 1},
        ulps=4.0,
        computed=dtype,
        hostile=frozenset({"hostile"}),
        exact=frozenset({"equal", "negative zero"}),
        dispatches=1,
    )


def rows(name: str, dtype: str, count: int | None, keep: bool) -> Case:
    """Centers the rows and divides them by their sum of squares, which may be a result too.

    No softmax: IREE raises that to an op of its own before we see it.
    """
    f = Function(name, (count, N))
    x = f.argument((0, 1), dtype)
    average = f.apply("arith.mulf", f.reduce("arith.addf", x, (1,)), 1.0 / N)
    centered = f.apply("arith.subf", x, average)
    total = f.reduce("arith.addf", f.apply("arith.mulf", centered, centered), (1,))
    y = f.apply("arith.divf", centered, f.apply("arith.addf", total, 1.0))

    def reference(x):
        centered = x - x.mean(-1, keepdims=True)
        total = (centered * centered).sum(-1)
        y = centered / (total[:, None] + 1)
        return (y, total) if keep else (y,)

    return Case(
        name=name,
        text=f.finish(y, total) if keep else f.finish(y),
        inputs=inputs(dtype, (M, N)),
        reference=reference,
        fires={"reduction_fusion": 1},
        ulps=N / 2,
        computed=dtype,
        hostile=frozenset({"hostile"}),
        dispatches=1,
    )


def siblings(name: str, dtype: str) -> Case:
    """Two ops that share an input, one of which reads it transposed."""
    f = Function(name, (N, N))
    x, y, t = f.argument((0, 1), dtype), f.argument((0, 1), dtype), f.argument((1, 0), dtype)
    a = f.apply("arith.addf", x, y)
    b = f.apply("arith.mulf", y, t)
    return Case(
        name=name,
        text=f.finish(a, b),
        inputs=inputs(dtype, (N, N), (N, N), (N, N)),
        reference=lambda x, y, t: (x + y, y * t.T),
        fires={"horizontal_fusion": 1},
        ulps=2.0,
        computed=dtype,
        hostile=frozenset({"hostile"}),
        exact=frozenset({"equal", "negative zero"}),
        dispatches=1,
    )


def row_siblings(name: str, dtype: str) -> Case:
    """Sum and maximum of the same rows."""
    f = Function(name, (M, N))
    x = f.argument((0, 1), dtype)
    total, most = f.reduce("arith.addf", x, (1,)), f.reduce("arith.maximumf", x, (1,))
    return Case(
        name=name,
        text=f.finish(total, most),
        inputs=inputs(dtype, (M, N)),
        reference=lambda x: (x.sum(-1), x.max(-1)),
        fires={"horizontal_fusion": 1},
        ulps=N / 2,
        computed=dtype,
        hostile=frozenset({"hostile"}),
        dispatches=1,
    )


CASES = {
    case.name: case
    for case in [
        *(tree(f"tree_{d}", d, M, keep=False) for d in FLOATS),
        tree("tree_two_results", "f32", M, keep=True),
        tree("tree_dynamic", "f16", None, keep=True),
        *(rows(f"rows_{d}", d, M, keep=False) for d in FLOATS),
        rows("rows_two_results", "f32", M, keep=True),
        rows("rows_dynamic", "f32", None, keep=False),
        *(siblings(f"siblings_{d}", d) for d in FLOATS),
        row_siblings("row_siblings_f32", "f32"),
    ]
}


@pytest.fixture(scope="module")
def outcomes():
    return Batch(cases=list(CASES.values()), pipeline=PASSES).run()


@pytest.mark.parametrize("name", CASES)
def test_generic(name, outcomes):
    outcomes[name].check()


def test_vulkan(vulkan):
    cases = [
        tree("vulkan_tree", "f32", M, True),
        rows("vulkan_rows", "f32", M, False),
        siblings("vulkan_siblings", "f32"),
    ]
    for outcome in Batch(cases=cases, pipeline=PASSES, target=vulkan).run().values():
        outcome.check()
