// One rewrite is allowed, and the second softmax is tried first.
// mlirfuse-opt examples/reasons/fusion_limit.mlir --fusion-limit=1 --disable-feature=kernels
func.func @main(%x: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %e = tensor.empty() : tensor<64x128xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<64x128xf32>) outs(%e : tensor<64x128xf32>) -> tensor<64x128xf32>
  %z = linalg.softmax dimension(1) ins(%y : tensor<64x128xf32>) outs(%e : tensor<64x128xf32>) -> tensor<64x128xf32>
  return %z : tensor<64x128xf32>
}
