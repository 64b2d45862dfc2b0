"""Functions of `math` on CPUs against float64, in loops that IREE vectorizes and in our kernels."""

import math

import numpy as np
import pytest
from iree.compiler import ir

import mlirfuse
from helpers import function_text
from mlirfuse import targets
from mlirfuse.builders import codegen_repairs
from mlirfuse.structured.ir import ops

COUNT = 1 << 17

EXACT = {
    "cos": np.cos,
    "erf": np.vectorize(math.erf, otypes=[float]),
    "exp": np.exp,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "sin": np.sin,
    "tan": np.tan,
}

ULPS = {"cos": 3, "erf": 6, "exp": 1.5, "expm1": 2, "log1p": 2, "sin": 3, "tan": 4}
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


@pytest.mark.parametrize("flipped", [False, True], ids=["loop", "kernel"])
@pytest.mark.parametrize("name", EXACT)
def test_errors_in_f32(name, flipped):
    x = arguments(np.float32)
    functions = {"y": (f"math.{name}", [0])}
    text = function_text.program(functions, 1, len(x), "f32", flipped=flipped)
    module = mlirfuse.compile(text, target="cpu")
    if flipped:
        assert [kernel.code for kernel in module.kernels] == ["movement_vector_kernel"]
        found = module(x)[::-1]
    else:
        found = module(x)
    with np.errstate(all="ignore"):
        errors = function_text.errors(found, EXACT[name](x.astype(np.float64)), tiny=4e-38)
    assert errors.max() < ULPS[name]
    if name in ("erf", "expm1"):
        assert np.signbit(found[:2]).tolist() == [False, True]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_quotient_by_a_constant_in_an_erf(dtype):
    """GELU's `erf(x / sqrt(2))` has the product, and its polynomials' quotient alone."""
    text = f"""
    #id = affine_map<(d) -> (d)>
    func.func @f(%x: tensor<64x{dtype}>, %e: tensor<64x{dtype}>) -> tensor<64x{dtype}> {{
      %two = arith.constant 2.0 : {dtype}
      %y = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel"]}}
          ins(%x : tensor<64x{dtype}>) outs(%e : tensor<64x{dtype}>) {{
      ^bb0(%a: {dtype}, %o: {dtype}):
        %r = math.sqrt %two : {dtype}
        %q = arith.divf %a, %r : {dtype}
        %f = math.erf %q : {dtype}
        linalg.yield %f : {dtype}
      }} -> tensor<64x{dtype}>
      return %y : tensor<64x{dtype}>
    }}"""
    with ir.Context():
        module = ir.Module.parse(text)
        assert codegen_repairs.repair_grouped(module, targets.parse("cpu:x86-64-v3"), exact=False)
        used = [
            op
            for op in ops.nested_ops(module.operation)
            if op.name == "arith.divf" and any(True for _ in op.results[0].uses)
        ]
        assert len(used) == 1
        assert ops.defining_op(used[0].operands[1]).name == "math.fma"
