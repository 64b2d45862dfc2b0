// The softmax is of a kind that the switch keeps out of groups.
// mlirfuse-opt examples/reasons/skipped_op_kind.mlir --skip-op-kind=linalg.softmax
func.func @main(%x: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %e = tensor.empty() : tensor<64x128xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<64x128xf32>) outs(%e : tensor<64x128xf32>) -> tensor<64x128xf32>
  return %y : tensor<64x128xf32>
}
