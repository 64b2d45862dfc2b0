// Attention over one number for each key has values without a head dimension.
// mlirfuse-opt examples/reasons/structure.mlir --target=cuda
func.func @main(%q: tensor<2x8x32xf32>, %kt: tensor<2x32x64xf32>, %v: tensor<2x64x1xf32>) -> tensor<2x8x1xf32> {
  %zero = arith.constant 0.0 : f32
  %es = tensor.empty() : tensor<2x8x64xf32>
  %fs = linalg.fill ins(%zero : f32) outs(%es : tensor<2x8x64xf32>) -> tensor<2x8x64xf32>
  %s = linalg.batch_matmul ins(%q, %kt : tensor<2x8x32xf32>, tensor<2x32x64xf32>) outs(%fs : tensor<2x8x64xf32>) -> tensor<2x8x64xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x64xf32>) outs(%es : tensor<2x8x64xf32>) -> tensor<2x8x64xf32>
  %eo = tensor.empty() : tensor<2x8x1xf32>
  %fo = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x8x1xf32>) -> tensor<2x8x1xf32>
  %y = linalg.batch_matmul ins(%p, %v : tensor<2x8x64xf32>, tensor<2x64x1xf32>) outs(%fo : tensor<2x8x1xf32>) -> tensor<2x8x1xf32>
  return %y : tensor<2x8x1xf32>
}
