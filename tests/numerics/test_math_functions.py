"""Functions of `math` on CPUs against float64, in loops that IREE vectorizes and in our kernels."""

import math

import numpy as np
import pytest

import mlirfuse

COUNT = 1 << 17

TEXT = """
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<NxT>) -> tensor<NxT> {
  %e = tensor.empty() : tensor<NxT>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<NxT>) outs(%e : tensor<NxT>) {
  ^bb0(%a: T, %o: T):
    %r = OP %a : T
    linalg.yield %r : T
  } -> tensor<NxT>
  return %y : tensor<NxT>
}
"""

FLIPPED = """
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<NxT>) -> tensor<NxT> {
  %last = arith.constant LAST : index
  %e = tensor.empty() : tensor<NxT>
  %y = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]}
      outs(%e : tensor<NxT>) {
  ^bb0(%o: T):
    %i = linalg.index 0 : index
    %j = arith.subi %last, %i : index
    %a = tensor.extract %x[%j] : tensor<NxT>
    %r = OP %a : T
    linalg.yield %r : T
  } -> tensor<NxT>
  return %y : tensor<NxT>
}
"""

EXACT = {
    "cos": np.cos,
    "erf": np.vectorize(math.erf, otypes=[float]),
    "expm1": np.expm1,
    "log1p": np.log1p,
    "sin": np.sin,
    "tan": np.tan,
}

ULPS = {"cos": 3, "erf": 6, "expm1": 2, "log1p": 2, "sin": 3, "tan": 4}
"""Largest error in units in the last place of the exact result."""


def arguments(dtype):
    """Numbers of all exponents, and of the interesting range, with the special ones first."""
    random = np.random.default_rng(1)
    bits = random.integers(0, 1 << 32, COUNT // 2, dtype=np.uint32)
    near = random.normal(0, 4, COUNT // 2).astype(np.float32)
    special = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1.2e-38]
    special += [3.4e38, -3.4e38, 88.7, 88.72, 89.0, -17.3, -104.0, 1e-8, -1e-8, 2.0**20, 1048577.0]
    special += [-0.99999994, 0.5, 3.924, 3.926, 15.0, 1e5, math.pi, math.pi / 2]
    with np.errstate(over="ignore", invalid="ignore"):
        x = np.concatenate([special, bits.view(np.float32), near]).astype(dtype)
    return x[:COUNT]


def error(found, exact):
    """The error in units in the last place, of numbers that are finite in their type.

    IREE's threads compute with zeros in place of denormal numbers.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = exact.astype(found.dtype)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
    infinite = np.isinf(rounded)
    np.testing.assert_array_equal(found[infinite], rounded[infinite])
    usual = np.isfinite(rounded) & (np.abs(rounded) > 4e-38)
    unit = np.spacing(np.abs(rounded[usual]))
    return np.abs(found[usual].astype(np.float64) - exact[usual]) / unit.astype(np.float64)


@pytest.mark.parametrize("text", [TEXT, FLIPPED], ids=["loop", "kernel"])
@pytest.mark.parametrize("name", EXACT)
def test_errors_in_f32(name, text):
    x = arguments(np.float32)
    text = text.replace("N", str(len(x))).replace("LAST", str(len(x) - 1))
    module = mlirfuse.compile(text.replace("T", "f32").replace("OP", f"math.{name}"), target="cpu")
    if "tensor.extract" in text:
        assert [kernel.code for kernel in module.kernels] == ["movement_vector_kernel"]
        found = module(x)[::-1]
    else:
        found = module(x)
    with np.errstate(all="ignore"):
        errors = error(found, EXACT[name](x.astype(np.float64)))
    assert errors.max() < ULPS[name]
    if name in ("erf", "expm1"):
        assert np.signbit(found[:2]).tolist() == [False, True]
