"""Softmax of products: the largest one is rounded, so the others have to be, too."""

import pytest
from iree.compiler import ir

from helpers.kernel_runner import needs_triton, planned

TEXT = """
#all = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @main(%x: tensor<64x1000xf32>) -> tensor<64x1000xf32> {{
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %s = arith.constant 169.0 : f32
  %e = tensor.empty() : tensor<64x1000xf32>
  %r = tensor.empty() : tensor<64xf32>
  %z = linalg.fill ins(%zero : f32) outs(%r : tensor<64xf32>) -> tensor<64xf32>
  %l = linalg.fill ins(%low : f32) outs(%r : tensor<64xf32>) -> tensor<64xf32>
  %v = linalg.generic {{indexing_maps = [#all, #all],
      iterator_types = ["parallel", "parallel"]}}
      ins(%x : tensor<64x1000xf32>) outs(%e : tensor<64x1000xf32>) {{
  ^bb0(%i: f32, %o: f32):
    %a = {op}
    linalg.yield %a : f32
  }} -> tensor<64x1000xf32>
  %m = linalg.generic {{indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}}
      ins(%v : tensor<64x1000xf32>) outs(%l : tensor<64xf32>) {{
  ^bb0(%i: f32, %o: f32):
    %a = arith.maximumf %i, %o : f32
    linalg.yield %a : f32
  }} -> tensor<64xf32>
  %p = linalg.generic {{indexing_maps = [#all, #row, #all],
      iterator_types = ["parallel", "parallel"]}}
      ins(%v, %m : tensor<64x1000xf32>, tensor<64xf32>) outs(%e : tensor<64x1000xf32>) {{
  ^bb0(%i: f32, %j: f32, %o: f32):
    %d = arith.subf %i, %j : f32
    %a = math.exp %d : f32
    linalg.yield %a : f32
  }} -> tensor<64x1000xf32>
  %t = linalg.generic {{indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}}
      ins(%p : tensor<64x1000xf32>) outs(%z : tensor<64xf32>) {{
  ^bb0(%i: f32, %o: f32):
    %a = arith.addf %i, %o : f32
    linalg.yield %a : f32
  }} -> tensor<64xf32>
  %y = linalg.generic {{indexing_maps = [#all, #row, #all],
      iterator_types = ["parallel", "parallel"]}}
      ins(%p, %t : tensor<64x1000xf32>, tensor<64xf32>) outs(%e : tensor<64x1000xf32>) {{
  ^bb0(%i: f32, %j: f32, %o: f32):
    %a = arith.divf %i, %j : f32
    linalg.yield %a : f32
  }} -> tensor<64x1000xf32>
  return %y : tensor<64x1000xf32>
}}
"""


@needs_triton
@pytest.mark.parametrize(
    ("op", "contracts"),
    [
        ("arith.divf %i, %s : f32", False),
        ("arith.mulf %i, %s : f32", False),
        ("arith.addf %i, %s : f32", True),
        ("math.absf %i : f32", True),
    ],
)
def test_softmax_of_products_is_not_contracted(op, contracts):
    """Values of 7e9 all alike gave NaN: a product that is not rounded is 256 above the largest."""
    with ir.Context():
        _, (plan,) = planned(TEXT.format(op=op), "rows")
        assert plan.program.contracts is contracts
