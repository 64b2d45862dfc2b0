// On a GPU `linalg.softmax` is one kernel of IREE's anyway.
// mlirfuse-opt examples/reasons/single_op.mlir --target=cuda
func.func @main(%x: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %e = tensor.empty() : tensor<64x128xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<64x128xf32>) outs(%e : tensor<64x128xf32>) -> tensor<64x128xf32>
  return %y : tensor<64x128xf32>
}
