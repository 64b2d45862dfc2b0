// The pass packs the weight for tiles of M, and an M of 13 is no multiple of one.
// mlirfuse-opt examples/reasons/shape_mismatch.mlir --target=cpu:x86-64-v4 --disable-feature=kernels
func.func @main(%x: tensor<13x16xf32>) -> tensor<13x32xf32> {
  %w = arith.constant dense<2.0> : tensor<16x32xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<13x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<13x32xf32>) -> tensor<13x32xf32>
  %y = linalg.matmul ins(%x, %w : tensor<13x16xf32>, tensor<16x32xf32>) outs(%f : tensor<13x32xf32>) -> tensor<13x32xf32>
  return %y : tensor<13x32xf32>
}
