// The contraction accumulates into an argument; the pass would start from zero.
// mlirfuse-opt examples/reasons/constant_unverified.mlir --target=cpu:x86-64-v4 --disable-feature=kernels
func.func @main(%x: tensor<24x16xf32>, %init: tensor<24x32xf32>) -> tensor<24x32xf32> {
  %w = arith.constant dense<2.0> : tensor<16x32xf32>
  %y = linalg.matmul ins(%x, %w : tensor<24x16xf32>, tensor<16x32xf32>) outs(%init : tensor<24x32xf32>) -> tensor<24x32xf32>
  return %y : tensor<24x32xf32>
}
