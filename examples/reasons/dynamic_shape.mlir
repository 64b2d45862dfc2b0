// The pass tiles rows, and their length is dynamic.
// mlirfuse-opt examples/reasons/dynamic_shape.mlir
func.func @main(%x: tensor<64x?xf32>, %e: tensor<64x?xf32>) -> tensor<64x?xf32> {
  %y = linalg.softmax dimension(1) ins(%x : tensor<64x?xf32>) outs(%e : tensor<64x?xf32>) -> tensor<64x?xf32>
  return %y : tensor<64x?xf32>
}
