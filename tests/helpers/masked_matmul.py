"""A matmul whose rows are masked, as text."""

MASKED_MATMUL = """
#row = affine_map<(i, j) -> (i)>
#all = affine_map<(i, j) -> (i, j)>
func.func @main(%x: tensor<48x64xf32>, %w: tensor<64x32xf32>, %m: tensor<48xi1>)
    -> tensor<48x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<48x32xf32>) -> tensor<48x32xf32>
  %p = linalg.matmul ins(%x, %w : tensor<48x64xf32>, tensor<64x32xf32>)
                     outs(%f : tensor<48x32xf32>) -> tensor<48x32xf32>
  %s = linalg.generic {indexing_maps = [#row, #all, #all],
                       iterator_types = ["parallel", "parallel"]}
      ins(%m, %p : tensor<48xi1>, tensor<48x32xf32>) outs(%e : tensor<48x32xf32>) {
  ^bb0(%keep: i1, %value: f32, %unused: f32):
    %r = arith.select %keep, %value, %zero : f32
    linalg.yield %r : f32
  } -> tensor<48x32xf32>
  return %s : tensor<48x32xf32>
}
"""
