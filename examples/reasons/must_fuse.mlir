// The first pass would group the exponential and the product without the sum.
// mlirfuse-opt examples/reasons/must_fuse.mlir --pipeline=elementwise_fusion,reduction_fusion --must-fuse=power,total
#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @main(%x: tensor<64x128xf32>) -> tensor<64xf32> {
  %zero = arith.constant 0.0 : f32
  %d = tensor.empty() : tensor<64x128xf32>
  %a = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x128xf32>) outs(%d : tensor<64x128xf32>) attrs = {mlirfuse.id = "power"} {
  ^bb0(%v: f32, %unused: f32):
    %r = math.exp %v : f32
    linalg.yield %r : f32
  } -> tensor<64x128xf32>
  %b = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%a, %x : tensor<64x128xf32>, tensor<64x128xf32>) outs(%d : tensor<64x128xf32>) {
  ^bb0(%u: f32, %v: f32, %unused: f32):
    %r = arith.mulf %u, %v : f32
    linalg.yield %r : f32
  } -> tensor<64x128xf32>
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%b : tensor<64x128xf32>) outs(%f : tensor<64xf32>) attrs = {mlirfuse.id = "total"} {
  ^bb0(%v: f32, %sum: f32):
    %r = arith.addf %v, %sum : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  return %s : tensor<64xf32>
}
