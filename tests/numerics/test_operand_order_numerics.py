"""Contractions with swapped operands, before and after, run on the CPU: the pass acts on CUDA."""

import numpy as np
import pytest
from iree.compiler import ir

import mlirfuse
from mlirfuse import targets
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine

PRODUCT = """
#x = affine_map<(b, f, h, w, c) -> (b, c, h * {0}, w * {1})>
#w = affine_map<(b, f, h, w, c) -> (f, c)>
#y = affine_map<(b, f, h, w, c) -> (b, f, h, w)>
func.func @main(%x: tensor<2x12x{2}x{3}xf16>, %w: tensor<10x12xf16>) -> tensor<2x10x5x4xf32> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x10x5x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x10x5x4xf32>) -> tensor<2x10x5x4xf32>
  %y = linalg.generic {{indexing_maps = [#x, #w, #y],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}}
      ins(%x, %w : tensor<2x12x{2}x{3}xf16>, tensor<10x12xf16>) outs(%f : tensor<2x10x5x4xf32>) {{
  ^bb0(%i: f16, %j: f16, %o: f32):
    %p = arith.extf %i : f16 to f32
    %q = arith.extf %j : f16 to f32
    %m = arith.mulf %p, %q : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  }} -> tensor<2x10x5x4xf32>
  return %y : tensor<2x10x5x4xf32>
}}
"""


@pytest.mark.parametrize("steps", [(1, 1), (2, 2), (3, 2), (1, 4)])
def test_swapped_operands(steps):
    high, wide = ((n - 1) * step + 1 + step // 2 for n, step in zip((5, 4), steps, strict=True))
    text = PRODUCT.format(*steps, high, wide)
    with ir.Context():
        options = FusionOptions(pipeline="operand_order_rewrite")
        after, report = engine.run(
            ir.Module.parse(text), target=targets.parse("cuda:sm_90"), options=options
        )
        assert report.counts() == {"operand_order_rewrite": 1}
        swapped = str(after)
    draws = np.random.default_rng(0)
    x = draws.standard_normal((2, 12, high, wide)).astype(np.float16)
    w = draws.standard_normal((10, 12)).astype(np.float16)
    found = mlirfuse.compile(swapped, stock=True, cache=False)(x, w)
    places = x[:, :, :: steps[0], :: steps[1]][:, :, :5, :4].astype(np.float64)
    expected = np.einsum("bchw,fc->bfhw", places, w.astype(np.float64))
    np.testing.assert_allclose(np.asarray(found), expected, atol=1e-4)
