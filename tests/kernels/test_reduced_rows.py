"""Reductions of rows that a softmax or a norm has changed, in the kernel of these."""

import functools

import numpy as np
import pytest
from iree.compiler import ir

import mlirfuse
from helpers import kernel_runner
from helpers.kernel_runner import TARGET, close, draw, needs_triton, run
from helpers.linalg_text import Function
from mlirfuse.kernels.reduction.chains import is_behind_norm
from mlirfuse.kernels.reduction.family import REDUCTION
from mlirfuse.kernels.reduction.grouping import is_root
from mlirfuse.kernels.reduction.problem import ReductionConfig
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.structured.ir import ops

LOOP = {"block_rows": 4, "block_columns": 16, "num_warps": 1}
CONFIGS = {
    "default": None,
    "loop": ReductionConfig(64, 16, 32768, **LOOP),
    "split": ReductionConfig(64, 16, 32768, splits=3, **LOOP),
}
SHAPES = [((5, 37), 1), ((37, 6), 0), ((3, 13, 5), 1)]


@pytest.fixture(params=CONFIGS)
def strategy(monkeypatch, request):
    """Has kernels planned with rows in registers, or with loops."""
    chosen = functools.partial(REDUCTION.plan, config=CONFIGS[request.param])
    monkeypatch.setitem(kernel_runner.SUPPORTS, "rows", lambda op, target: chosen(op, target))


def log_softmax(f, x, axis):
    highest = f.reduce("arith.maximumf", x, [axis], init=-1e30)
    centered = f.apply("arith.subf", x, highest)
    total = f.reduce("arith.addf", f.apply("math.exp", centered), [axis])
    return f.apply("arith.subf", centered, f.apply("math.log", total))


def divergence_text(shape, axis, dtype, axes):
    """The divergence of two softmaxes along an axis, over some axes, in f32."""
    f = Function("main", shape)
    x, y = (f.cast(f.argument(range(len(shape)), dtype), "f32") for _ in range(2))
    p, q = log_softmax(f, x, axis), log_softmax(f, y, axis)
    terms = f.apply("arith.mulf", f.apply("math.exp", q), f.apply("arith.subf", q, p))
    return f.finish(f.reduce("arith.addf", terms, axes))


def divergence(x, y, axis, axes):
    x, y = x.astype(np.float64), y.astype(np.float64)
    p, q = (v - np.log(np.exp(v).sum(axis, keepdims=True)) for v in (x, y))
    return (np.exp(q) * (q - p)).sum(axes)


@needs_triton
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_divergence_of_two_softmaxes(interpreter, strategy, shape, axis, dtype):
    x, y = draw(shape, dtype), draw(shape, dtype, seed=1)
    kept = [size for number, size in enumerate(shape) if number != axis]
    text = divergence_text(shape, axis, dtype, [axis])
    (found,) = run(interpreter, text, "rows", [x, y], [kept])
    close(found, divergence(x, y, axis, axis), "f32")


@needs_triton
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_length_of_a_norm(interpreter, strategy, shape, axis):
    x = draw(shape, "f32", spread=3.0)
    f = Function("main", shape)
    given = f.argument(range(len(shape)), "f32")
    count = float(shape[axis])
    mean = f.apply("arith.divf", f.reduce("arith.addf", given, [axis]), count)
    centered = f.apply("arith.subf", given, mean)
    squares = f.reduce("arith.addf", f.apply("arith.mulf", centered, centered), [axis])
    scale = f.apply("math.rsqrt", f.apply("arith.addf", f.apply("arith.divf", squares, count), 1.0))
    normalized = f.apply("arith.mulf", centered, scale)
    text = f.finish(f.reduce("arith.addf", f.apply("math.absf", normalized), [axis]))
    kept = [size for number, size in enumerate(shape) if number != axis]
    (found,) = run(interpreter, text, "rows", [x], [kept])
    exact = x.astype(np.float64)
    exact = exact - exact.mean(axis, keepdims=True)
    exact /= np.sqrt((exact**2).mean(axis, keepdims=True) + 1.0)
    close(found, np.abs(exact).sum(axis), "f32")


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("kept", [[], [-1]])
def test_sums_of_rows_before_the_sum_of_all(tmp_path, shape, axis, kept):
    """The rewritten program, compiled by stock IREE, beside the unfused one."""
    axes = [n for n in range(len(shape)) if n - len(shape) not in kept or n == axis]
    text = divergence_text(shape, axis, "f32", axes)
    with ir.Context():
        options = FusionOptions(pipeline="row_partials_rewrite", enable_feature=("kernels",))
        rewritten, report = engine.run(ir.Module.parse(text), target=TARGET, options=options)
        assert [d.taken for d in report.decisions] == [True] * (len(axes) > 1)
        texts = {"before": text, "after": str(rewritten)}
    x, y = draw(shape, "f32"), draw(shape, "f32", seed=1)
    for name, program in texts.items():
        path = tmp_path / f"{name}.mlir"
        path.write_text(program)
        found = mlirfuse.compile(str(path), stock=True)(x, y)
        close(np.asarray(found, np.float64), divergence(x, y, axis, tuple(axes)), "f32")


def norm(f, x, axis):
    count = float(f.sizes[axis])
    mean = f.apply("arith.divf", f.reduce("arith.addf", x, [axis]), count)
    centered = f.apply("arith.subf", x, mean)
    squares = f.reduce("arith.addf", f.apply("arith.mulf", centered, centered), [axis])
    variance = f.apply("arith.addf", f.apply("arith.divf", squares, count), 0.1)
    return f.apply("arith.mulf", centered, f.apply("math.rsqrt", variance))


def exact_norm(x, axis):
    centered = x - x.mean(axis, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axis, keepdims=True) + 0.1)


def exact_softmax(x, axis):
    p = np.exp(x - x.max(axis, keepdims=True))
    return p / p.sum(axis, keepdims=True)


def gradient(f, x, axis):
    """The gradient of a softmax of x for that of its result, x itself."""
    p = f.apply("math.exp", log_softmax(f, x, axis))
    dot = f.reduce("arith.addf", f.apply("arith.mulf", p, x), [axis])
    return f.apply("arith.mulf", p, f.apply("arith.subf", x, dot))


def exact_gradient(x, axis):
    p = exact_softmax(x, axis)
    return p * (x - (p * x).sum(axis, keepdims=True))


CHAINS = {
    "norms": (
        lambda f, x, axis: norm(f, norm(f, x, axis), axis),
        lambda x, axis: exact_norm(exact_norm(x, axis), axis),
    ),
    "softmax of a norm": (
        lambda f, x, axis: f.apply("math.exp", log_softmax(f, norm(f, x, axis), axis)),
        lambda x, axis: exact_softmax(exact_norm(x, axis), axis),
    ),
    "norm of a softmax": (
        lambda f, x, axis: norm(f, f.apply("math.exp", log_softmax(f, x, axis)), axis),
        lambda x, axis: exact_norm(exact_softmax(x, axis), axis),
    ),
    "gradient of a softmax": (gradient, exact_gradient),
}


@needs_triton
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("chain", CHAINS)
def test_chains_of_norms(interpreter, chain, dtype, shape, axis):
    text_of, exact = CHAINS[chain]
    x = draw(shape, dtype, spread=3.0)
    f = Function("main", shape)
    given = f.argument(range(len(shape)), dtype)
    text = f.finish(f.cast(text_of(f, f.cast(given, "f32"), axis), dtype))
    (found,) = run(interpreter, text, "rows", [x], [shape])
    close(found, exact(x.astype(np.float64), axis), dtype)


@needs_triton
@pytest.mark.parametrize("columns", [700, 2_000_000])
def test_chains_that_registers_do_not_hold_are_two_kernels(columns):
    f = Function("main", (3, columns))
    given = f.argument(range(2), "f32")
    text = f.finish(norm(f, norm(f, given, 1), 1))
    with ir.Context():
        _, plans = kernel_runner.planned(text, "rows")
    assert len(plans) == (1 if columns == 700 else 2)


@pytest.mark.parametrize("through_products", [False, True])
def test_a_norm_at_the_other_end_of_a_residual_is_not_in_front(through_products):
    """The products read that norm, and the reduction them: no kernel can hold both."""
    f = Function("main", (5, 16, 24))
    given, one, two = (f.argument(axes, "f32") for axes in ([0, 1], [1, 2], [2, 1]))
    first = norm(f, given, 1)
    branch = f.contract(f.contract(first, one, [0, 2]), two, [0, 1]) if through_products else given
    text = f.finish(norm(f, f.apply("arith.addf", first, branch), 1))
    with ir.Context():
        module = ir.Module.parse(text)
        (function,) = ops.functions(module)
        held = [view.operation for view in function.regions[0].blocks[0].operations]
        behind = [is_behind_norm(op) for op in held if is_root(op)]
    assert behind == [False, False, *[not through_products] * 2]
