"""Reductions of gathered elements, against numpy, run by Triton's interpreter on the CPU."""

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import close, draw, needs_triton, planned, run

BAG = """
#index = affine_map<(d0, d1, d2) -> (d0, d1)>
#all = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#kept = affine_map<(d0, d1, d2) -> (d0, d2)>
func.func @main(%table: tensor<50x24xf32>, %i: tensor<9x40xi64>) -> tensor<9x24xf32> {
  %zero = arith.constant 0.0 : f32
  %rows = arith.constant 50 : i64
  %e = tensor.empty() : tensor<9x40x24xf32>
  %r = tensor.empty() : tensor<9x24xf32>
  %z = linalg.fill ins(%zero : f32) outs(%r : tensor<9x24xf32>) -> tensor<9x24xf32>
  %g = linalg.generic {indexing_maps = [#index, #all],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%i : tensor<9x40xi64>) outs(%e : tensor<9x40x24xf32>) {
  ^bb0(%a: i64, %o: f32):
    %t = arith.cmpi slt, %a, %rows : i64
    cf.assert %t, "index must be smaller than dim size"
    %n = arith.index_cast %a : i64 to index
    %c = linalg.index 2 : index
    %v = tensor.extract %table[%n, %c] : tensor<50x24xf32>
    linalg.yield %v : f32
  } -> tensor<9x40x24xf32>
  %s = linalg.generic {indexing_maps = [#all, #kept],
      iterator_types = ["parallel", "reduction", "parallel"]}
      ins(%g : tensor<9x40x24xf32>) outs(%z : tensor<9x24xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.addf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<9x24xf32>
  return %s : tensor<9x24xf32>
}
"""

LOSS = """
#row = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>
func.func @main(%x: tensor<300x50xf32>, %i: tensor<300xi64>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<300xf32>
  %r = tensor.empty() : tensor<f32>
  %z = linalg.fill ins(%zero : f32) outs(%r : tensor<f32>) -> tensor<f32>
  %g = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]}
      ins(%i : tensor<300xi64>) outs(%e : tensor<300xf32>) {
  ^bb0(%a: i64, %o: f32):
    %n = arith.index_cast %a : i64 to index
    %m = linalg.index 0 : index
    %v = tensor.extract %x[%m, %n] : tensor<300x50xf32>
    %w = arith.negf %v : f32
    linalg.yield %w : f32
  } -> tensor<300xf32>
  %s = linalg.generic {indexing_maps = [#row, #none], iterator_types = ["reduction"]}
      ins(%g : tensor<300xf32>) outs(%z : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.addf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  return %s : tensor<f32>
}
"""


@needs_triton
def test_a_sum_of_embeddings_reads_the_table(interpreter):
    table, index = draw((50, 24), "f32"), np.random.default_rng(3).integers(0, 50, (9, 40))
    (found,) = run(interpreter, BAG, "rows", [table, index], [(9, 24)])
    close(found, table.astype(np.float64)[index].sum(1), "f32")


@needs_triton
def test_a_loss_sums_the_elements_of_classes(interpreter):
    x, index = draw((300, 50), "f32"), np.random.default_rng(4).integers(0, 50, (300,))
    (found,) = run(interpreter, LOSS, "rows", [x, index], [()])
    close(found, -x.astype(np.float64)[np.arange(300), index].sum(), "f32")


@needs_triton
@pytest.mark.parametrize("text", [BAG, LOSS])
def test_gather_and_reduction_are_one_group(text):
    with ir.Context():
        _, plans = planned(text, "rows")
        assert len(plans) == 1
