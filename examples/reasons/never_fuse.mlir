// The op has the name that --never-fuse gives; a source location would do as well.
// mlirfuse-opt examples/reasons/never_fuse.mlir --never-fuse=probabilities
func.func @main(%x: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %e = tensor.empty() : tensor<64x128xf32>
  %y = linalg.softmax {mlirfuse.id = "probabilities"} dimension(1) ins(%x : tensor<64x128xf32>) outs(%e : tensor<64x128xf32>) -> tensor<64x128xf32>
  return %y : tensor<64x128xf32>
}
