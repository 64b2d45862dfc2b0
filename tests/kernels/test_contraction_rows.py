"""Matmul kernels whose epilogue reduces rows, of which a tile has all columns."""

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import TARGET, close, draw, needs_triton, run
from helpers.linalg_text import Function
from mlirfuse.kernels.matmul.heuristics import dot_config
from mlirfuse.kernels.matmul.problem import MatmulProblem
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine

B, M, N, K = 0, 1, 2, 3


def softmax(f, c, rest):
    powers = f.apply(
        "math.exp", f.apply("arith.subf", c, f.reduce("arith.maximumf", c, [N], float("-inf")))
    )
    return [f.apply("arith.divf", powers, f.reduce("arith.addf", powers, [N]))]


def layer_norm(f, c, rest):
    """With a residual before, a weight and a bias after; the sum is a result, too."""
    residual, weight, bias = rest
    c = f.apply("arith.addf", c, residual)
    n = float(f.sizes[N])
    centered = f.apply("arith.subf", c, f.apply("arith.divf", f.reduce("arith.addf", c, [N]), n))
    squares = f.reduce("arith.addf", f.apply("arith.mulf", centered, centered), [N])
    scale = f.apply("math.rsqrt", f.apply("arith.addf", f.apply("arith.divf", squares, n), 1e-5))
    scaled = f.apply("arith.mulf", f.apply("arith.mulf", centered, scale), weight)
    return [f.apply("arith.addf", scaled, bias)]


def log_sum_exp(f, c, rest):
    highest = f.reduce("arith.maximumf", c, [N], float("-inf"))
    powers = f.apply("math.exp", f.apply("arith.subf", c, highest))
    total = f.reduce("arith.addf", powers, [N])
    return [f.apply("arith.addf", f.apply("math.log", total), highest)]


def exact_softmax(c, rest):
    powers = np.exp(c - c.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def exact_layer_norm(c, rest):
    residual, weight, bias = (r.astype(np.float64) for r in rest)
    c = c + residual
    centered = c - c.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * weight + bias


def exact_log_sum_exp(c, rest):
    highest = c.max(-1)
    return np.log(np.exp(c - highest[..., None]).sum(-1)) + highest


FORMS = {
    "softmax": (softmax, exact_softmax, ()),
    "layer_norm": (layer_norm, exact_layer_norm, ((M, N), (N,), (N,))),
    "log_sum_exp": (log_sum_exp, exact_log_sum_exp, ()),
}


def text_of(form, sizes, left, right, rows):
    """The contraction in f32 of operands in f16, and the form of its rows."""
    build, _, more = FORMS[form]
    f = Function("main", sizes)
    a, b = f.argument(left, "f16"), f.argument(right, "f16")
    rest = [f.argument(axes if len(axes) == 1 else (*rows, N), "f32") for axes in more]
    c = f.contract(a, b, (*rows, N), "f32")
    return f.finish(*build(f, c, rest))


@needs_triton
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("sizes", "left", "right", "rows"),
    [
        ((1, 37, 53, 71), (M, K), (K, N), (M,)),
        ((1, 130, 40, 128), (M, K), (N, K), (M,)),
        ((1, 64, 200, 32), (K, M), (K, N), (M,)),
        ((3, 17, 64, 48), (B, M, K), (B, K, N), (B, M)),
    ],
)
def test_rows_of_a_contraction(interpreter, form, sizes, left, right, rows):
    text = text_of(form, sizes, left, right, rows)
    arrays = [draw([sizes[a] for a in axes], "f16", n) for n, axes in enumerate((left, right))]
    wide = tuple(sizes[a] for a in (*rows, N))
    for n, axes in enumerate(FORMS[form][2]):
        arrays.append(draw(wide if len(axes) > 1 else wide[-1:], "f32", n + 2))
    a, b = (x.astype(np.float64) for x in arrays[:2])
    spelled = ",".join("".join("bmnk"[axis] for axis in axes) for axes in (left, right))
    c = np.einsum(f"{spelled}->{''.join('bmnk'[axis] for axis in (*rows, N))}", a, b)
    expected = FORMS[form][1](c, arrays[2:])
    (found,) = run(interpreter, text, "matmul", arrays, [expected.shape])
    close(found, expected, "f16")


def counts(text):
    options = FusionOptions(enable_feature=("kernels",))
    with ir.Context():
        return engine.run(ir.Module.parse(text), target=TARGET, options=options)[1].counts()


@needs_triton
@pytest.mark.parametrize(("columns", "fused"), [(256, 1), (257, 0)])
def test_long_rows_are_kernels_of_their_own(columns, fused):
    text = text_of("softmax", (1, 4096, columns, 128), (M, K), (K, N), (M,))
    assert counts(text).get("contraction_row_fusion", 0) == fused


@needs_triton
def test_a_product_that_something_else_reads_is_a_result_of_its_own():
    f = Function("main", (1, 4096, 64, 128))
    c = f.contract(f.argument((M, K), "f16"), f.argument((K, N), "f16"), (M, N), "f32")
    text = f.finish(*softmax(f, c, ()), c)
    assert "contraction_row_fusion" not in counts(text)


def test_tiles_have_all_columns():
    for n in (16, 33, 100, 256):
        problem = MatmulProblem(4096, n, 512, 1, whole_rows=True)
        config = dot_config(problem, TARGET)
        assert config.block_n >= n
        assert config.k_splits == config.split_k == 1
