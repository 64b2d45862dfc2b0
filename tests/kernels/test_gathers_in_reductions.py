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

NORM = """
#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>
#all = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%table: tensor<50xCxf32>, %i: tensor<77xi64>, %p: tensor<Cxf32>)
    -> tensor<77xCxf32> {
  %zero = arith.constant 0.0 : f32
  %count = arith.constant C.0 : f32
  %e = tensor.empty() : tensor<77xCxf32>
  %r = tensor.empty() : tensor<77xf32>
  %z = linalg.fill ins(%zero : f32) outs(%r : tensor<77xf32>) -> tensor<77xf32>
  %g = linalg.generic {indexing_maps = [#row, #column, #all],
      iterator_types = ["parallel", "parallel"]}
      ins(%i, %p : tensor<77xi64>, tensor<Cxf32>) outs(%e : tensor<77xCxf32>) {
  ^bb0(%a: i64, %b: f32, %o: f32):
    %n = arith.index_cast %a : i64 to index
    %c = linalg.index 1 : index
    %t = tensor.extract %table[%n, %c] : tensor<50xCxf32>
    %v = arith.addf %t, %b : f32
    linalg.yield %v : f32
  } -> tensor<77xCxf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%g : tensor<77xCxf32>) outs(%z : tensor<77xf32>) {
  ^bb0(%a: f32, %o: f32):
    %q = arith.mulf %a, %a : f32
    %v = arith.addf %q, %o : f32
    linalg.yield %v : f32
  } -> tensor<77xf32>
  %y = linalg.generic {indexing_maps = [#all, #row, #all],
      iterator_types = ["parallel", "parallel"]}
      ins(%g, %s : tensor<77xCxf32>, tensor<77xf32>) outs(%e : tensor<77xCxf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.divf %b, %count : f32
    %d = math.rsqrt %m : f32
    %v = arith.mulf %a, %d : f32
    linalg.yield %v : f32
  } -> tensor<77xCxf32>
  return %y : tensor<77xCxf32>
}
"""


@needs_triton
@pytest.mark.parametrize("columns", [64, 37, 9001])
def test_a_norm_of_embeddings_reads_the_table(interpreter, columns):
    """Rows in registers, with and without a mask, and rows that are read twice in a loop."""
    table, p = draw((50, columns), "f32"), draw((columns,), "f32", 1)
    index = np.random.default_rng(5).integers(0, 50, (77,))
    index[:2] = 49, 0
    text = NORM.replace("xCx", f"x{columns}x").replace("<Cx", f"<{columns}x")
    text = text.replace("C.0", f"{columns}.0")
    (found,) = run(interpreter, text, "rows", [table, index, p], [(77, columns)])
    rows = table.astype(np.float64)[index] + p
    close(found, rows / np.sqrt((rows**2).mean(1, keepdims=True)), "f32")


@needs_triton
@pytest.mark.parametrize("columns", [37, 9001])
def test_embeddings_that_are_a_result_come_from_the_kernel_of_their_norm(interpreter, columns):
    """A residual connection reads them, too."""
    text = NORM.replace(
        "    -> tensor<77xCxf32> {", "    -> (tensor<77xCxf32>, tensor<77xCxf32>) {"
    )
    text = text.replace(
        "return %y : tensor<77xCxf32>", "return %y, %g : tensor<77xCxf32>, tensor<77xCxf32>"
    )
    text = text.replace("xCx", f"x{columns}x").replace("<Cx", f"<{columns}x")
    text = text.replace("C.0", f"{columns}.0")
    table, p = draw((50, columns), "f32"), draw((columns,), "f32", 1)
    index = np.random.default_rng(5).integers(0, 50, (77,))
    found = run(interpreter, text, "rows", [table, index, p], [(77, columns)] * 2)
    rows = table.astype(np.float64)[index] + p
    expected = [rows / np.sqrt((rows**2).mean(1, keepdims=True)), rows]
    in_order = np.allclose(found[0], expected[0], rtol=1e-3)
    for one, other in zip(found, expected if in_order else expected[::-1], strict=True):
        close(one, other, "f32")


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
