"""Sums in f64: not those of a softmax that has tiles."""

import numpy as np

import mlirfuse

SOFTMAX = """
func.func @main(%x: tensor<?x18385xf32>) -> tensor<?x18385xf32> {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x18385xf32>
  %e = tensor.empty(%rows) : tensor<?x18385xf32>
  %s = linalg.softmax dimension(1) ins(%x : tensor<?x18385xf32>)
      outs(%e : tensor<?x18385xf32>) -> tensor<?x18385xf32>
  return %s : tensor<?x18385xf32>
}
"""


def test_the_rows_of_a_softmax_keep_their_tiles():
    """IREE refuses a dispatch in which one op has lost its tiles."""
    program = mlirfuse.compile(SOFTMAX, target="cpu", cache=False)
    assert {d.pass_name for d in program.report.decisions if d.taken} == {"softmax_fusion"}
    x = np.random.default_rng(0).standard_normal((3, 18385)).astype(np.float32) * 4
    wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(program(x), wide / wide.sum(1, keepdims=True), 1e-4)
