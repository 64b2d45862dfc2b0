"""Bodies of f16 and bf16 on CPUs: computed in f32, rounded once, or after each op if exact."""

import numpy as np
import pytest
import torch
from iree.compiler import ir

import mlirfuse
from helpers.spread import some
from mlirfuse.builders import half_arithmetic
from mlirfuse.runtime.arrays import numpy_dtype

TEXT = """
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<64xT>, %y: tensor<64xT>) -> tensor<64xT> {
  %e = tensor.empty() : tensor<64xT>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<64xT>, tensor<64xT>) outs(%e : tensor<64xT>) {
  ^bb0(%a: T, %b: T, %o: T):
    %s = arith.addf %a, %b : T
    %d = arith.subf %s, %a : T
    %m = arith.maximumf %d, %b : T
    %c = arith.cmpf ogt, %m, %a : T
    %v = arith.select %c, %m, %d : T
    linalg.yield %v : T
  } -> tensor<64xT>
  return %r : tensor<64xT>
}
"""

CASTS = """
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %h = arith.truncf %a : f32 to f16
    %w = arith.extf %h : f16 to f32
    %d = arith.subf %a, %w : f32
    linalg.yield %d : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
"""

PRODUCT = """
func.func @main(%x: tensor<4x8xf16>, %w: tensor<8x4xf16>, %i: tensor<4x4xf16>) -> tensor<4x4xf16> {
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x8xf16>, tensor<8x4xf16>) outs(%i : tensor<4x4xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %m = arith.mulf %a, %b : f16
    %s = arith.addf %o, %m : f16
    linalg.yield %s : f16
  } -> tensor<4x4xf16>
  return %r : tensor<4x4xf16>
}
"""


def expected(x, y):
    """The results of `TEXT`, in the element type of the arguments."""
    d = (x + y) - x
    m = np.maximum(d, y)
    return np.where(m > x, m, d)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_values_between_ops_are_not_rounded(kind):
    dtype = numpy_dtype(kind)
    random = np.random.default_rng(0)
    x, y = (random.normal(0, scale, 64).astype(dtype) for scale in (100, 1))
    text = TEXT.replace("T", kind)
    wide = expected(x.astype(np.float32), y.astype(np.float32)).astype(dtype)
    rounded = expected(x, y)
    assert not np.array_equal(wide, rounded)
    np.testing.assert_array_equal(mlirfuse.compile(text, target="cpu")(x, y), wide)
    if kind == "f16":  # IREE 3.13 does not round values of bf16 itself
        exact = mlirfuse.compile(text, target="cpu", numerics="exact")
        np.testing.assert_array_equal(exact(x, y), rounded)


def test_square_roots_of_f16_are_vectors():
    x = np.linspace(0, 60000, 64).astype(np.float16)
    text = TEXT.replace("arith.addf %a, %b", "math.sqrt %a").replace("T", "f16")
    found = mlirfuse.compile(text, target="cpu")(x, x)
    wide = x.astype(np.float32)
    d = np.sqrt(wide) - wide
    m = np.maximum(d, wide)
    np.testing.assert_array_equal(found, np.where(m > wide, m, d).astype(np.float16))


def test_casts_of_the_model_stay():
    x = np.random.default_rng(0).normal(0, 1, 64).astype(np.float32)
    found = mlirfuse.compile(CASTS, target="cpu")(x)
    np.testing.assert_array_equal(found, x - x.astype(np.float16).astype(np.float32))
    assert found.any()


def test_products_stay_as_they_are():
    with ir.Context():
        module = ir.Module.parse(PRODUCT)
        assert not half_arithmetic.widen(module, rounds=False)
        module = ir.Module.parse(TEXT.replace("T", "bf16"))
        assert half_arithmetic.widen(module, rounds=False)
        assert not half_arithmetic.widen(module, rounds=False), "a repair that repeats"
        assert str(module).count("arith.truncf") == 1
        assert str(module).count("arith.extf") == 5


SHAPES = ((64, 313), (70000, 1), (3, 9000))


@pytest.mark.parametrize(
    ("shape", "axis", "dtype"),
    some(
        SHAPES,
        (0, 1),
        (torch.float16, torch.bfloat16),
        often=lambda shape, axis, dtype: (
            (SHAPES.index(shape) + axis) % 2 == (dtype == torch.bfloat16)
        ),
    ),
)
def test_computed_numbers_equal_their_copies_in_memory(shape, axis, dtype):
    """A maximum that one kernel rounded is found by another, and by its own."""

    def model(x):
        y = torch.sigmoid(x * 1.3) * 0.7
        highest = y.amax(axis, keepdim=True)
        equal, reached = (y == highest).sum(axis), (y >= highest).sum(axis)
        return equal, reached, y.argmax(axis), y.min(axis)[1]

    x = torch.from_numpy(np.random.default_rng(0).normal(0, 1, shape)).to(dtype)
    equal, reached, largest, least = mlirfuse.compile(model, (x,), target="cpu")(x)
    assert equal.min() > 0
    assert torch.equal(equal, reached)
    y = (torch.sigmoid(x * 1.3) * 0.7).float()
    for indices, bound in ((largest, y.amax(axis)), (least, y.amin(axis))):
        found = y.gather(axis, indices.unsqueeze(axis)).squeeze(axis)
        torch.testing.assert_close(found, bound, rtol=4 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_constants_are_rounded(dtype):
    """A mask of the largest numbers, as in sampling, and its number, which no half is."""

    def model(x):
        y = x.masked_fill(x < x.amax(1, keepdim=True), -10001.0)
        return (y > -10001.0).sum(1), (y >= -10001.0).sum(1), (y < -10001.0).sum(1)

    x = torch.from_numpy(np.random.default_rng(0).normal(0, 1, (64, 100))).to(dtype)
    found = mlirfuse.compile(model, (x,), target="cpu")(x)
    for got, expected in zip(found, model(x), strict=True):
        assert torch.equal(got, expected)


def test_comparisons_with_constants_stay():
    """Of order: those of activations and clamps, in the innermost loops of models."""
    text = TEXT.replace("arith.cmpf ogt, %m, %a", "arith.cmpf ogt, %m, %k").replace(
        "%e =", "%k = arith.constant 0.5 : T\n  %e ="
    )
    for kind in ("f16", "bf16"):
        with ir.Context():
            module = ir.Module.parse(text.replace("T", kind))
            assert half_arithmetic.widen(module, rounds=False)
            assert "arith.shli" not in str(module)
            assert str(module).count("arith.truncf") == 1
