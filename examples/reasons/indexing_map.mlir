// The left operand is read by columns.
// mlirfuse-opt examples/reasons/indexing_map.mlir --target=cpu:x86-64-v4 --disable-feature=kernels
#km = affine_map<(m, n, k) -> (k, m)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
func.func @main(%x: tensor<16x24xf32>) -> tensor<24x32xf32> {
  %w = arith.constant dense<2.0> : tensor<16x32xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<24x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<24x32xf32>) -> tensor<24x32xf32>
  %y = linalg.matmul indexing_maps = [#km, #kn, #mn] ins(%x, %w : tensor<16x24xf32>, tensor<16x32xf32>) outs(%f : tensor<24x32xf32>) -> tensor<24x32xf32>
  return %y : tensor<24x32xf32>
}
