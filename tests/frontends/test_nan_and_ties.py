"""NaN in maxima, minima and clamps, and the index of the first of equal elements."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional as F

import mlirfuse

NAN, INF = float("nan"), float("inf")


def same(got, expected):
    return got.dtype == expected.dtype and torch.equal(
        torch.nan_to_num(got.float(), nan=12345.0), torch.nan_to_num(expected.float(), nan=12345.0)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_torch_maxima_propagate_nan(dtype):
    def model(x, y):
        return (
            torch.maximum(x, y),
            torch.minimum(x, y),
            torch.clamp(x, -1, 1),
            torch.clamp(x, y, y + 1),
            torch.clamp_min(x, 0.5),
            F.relu6(x),
            F.hardtanh(x),
            F.relu(x),
            F.leaky_relu(x),
            torch.fmax(x, y),
            torch.where(x > y, x, y),
            x.amax(1),
            F.max_pool1d(x[None], 2),
        )

    x = torch.tensor([[NAN, 2.0, 3.0, -INF, 0.25, -2.0]], dtype=dtype)
    y = torch.tensor([[1.0, NAN, 0.0, INF, -0.5, 0.0]], dtype=dtype)
    for got, expected in zip(mlirfuse.compile(model, (x, y))(x, y), model(x, y), strict=True):
        assert same(got, expected), (got, expected)


def test_fast_maxima_with_numerics_any():
    """`--numerics=any` selects instructions that may return either operand."""
    from mlirfuse.backend.compiler import Compiler
    from mlirfuse.options import FusionOptions
    from mlirfuse.targets import parse

    flag = "--iree-llvmcpu-use-fast-min-max-ops"
    for numerics, expected in (("reassociating", False), ("any", True)):
        compiler = Compiler(parse("cpu"), FusionOptions.of({"numerics": numerics}))
        assert (flag in compiler.flags(fused=True)) == expected
    assert flag not in Compiler(
        parse("vulkan:ampere"), FusionOptions.of({"numerics": "any"})
    ).flags(fused=True)


def elements(dtype):
    generator = np.random.default_rng(0)
    x = torch.from_numpy(generator.integers(0, 5, (33, 129))).to(dtype)
    if dtype.is_floating_point:
        x[3, 5] = x[3, 7] = NAN
        x[4] = -INF
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32])
def test_torch_index_is_the_first(dtype):
    def model(x):
        largest, place = x.max(-1)
        least, other = x.min(0)
        flat = x.argmax()
        return largest, place, least, other, x.argmax(-1), x.argmin(0, keepdim=True), flat

    x = elements(dtype)
    for got, expected in zip(mlirfuse.compile(model, (x,))(x), model(x), strict=True):
        assert same(got, expected), (got, expected)


def test_jax_index_is_the_first():
    def model(x, y):
        return jnp.argmax(x, -1), jnp.argmin(x, 0), jnp.argmax(x), jnp.argmin(y, 1)

    x, y = elements(torch.float16).numpy(), elements(torch.int32).numpy()
    program = mlirfuse.compile(jax.jit(model), (x, y))
    for got, expected in zip(program(x, y), model(x, y), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_index_reductions_are_plain_reductions():
    """CUDA's code generator refuses the reduction of elements and indices for long rows."""
    from helpers.stock_program import text
    from mlirfuse.frontends import import_model

    x = torch.zeros(4, 4096)
    for model in (torch.argmax, lambda x: x.max(-1), lambda x: x.argmin(0)):
        assert "arg_compare" not in text(import_model(model, (x,)))
        assert "arith.minimumf" in text(import_model(model, (x,)))
    imported = import_model(lambda x: jnp.argmax(x, -1), (jax.ShapeDtypeStruct((4, 9), "float32"),))
    assert "arith.minimumf" in text(imported)
