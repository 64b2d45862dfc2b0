// Rows of 4096 columns do not fit the stack of a CPU's thread, which IREE says when it generates code.
// mlirfuse-compile examples/reasons/fell_back.mlir -o out.vmfb --target=cpu:x86-64-v4 --load-pass=examples/reasons/groups.pdl.mlir
func.func @main(%x: tensor<64x4096xf32>, %w: tensor<4096x64xf32>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %es = tensor.empty() : tensor<64x4096xf32>
  %s = linalg.softmax dimension(1) ins(%x : tensor<64x4096xf32>) outs(%es : tensor<64x4096xf32>) -> tensor<64x4096xf32>
  %e = tensor.empty() : tensor<64x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = linalg.matmul ins(%s, %w : tensor<64x4096xf32>, tensor<4096x64xf32>) outs(%f : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
