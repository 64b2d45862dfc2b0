// The first pass would take the norm, which contains the sum, but not the multiply after it.
// mlirfuse-opt examples/reasons/must_fuse.mlir --pipeline=rms_norm_fusion,reduction_fusion --must-fuse=sum,product
#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @main(%x: tensor<64x128xf32>, %y: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 128.0 : f32
  %eps = arith.constant 1.0e-6 : f32
  %e = tensor.empty() : tensor<64x128xf32>
  %r = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%r : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x128xf32>) outs(%f : tensor<64xf32>) attrs = {mlirfuse.id = "sum"} {
  ^bb0(%a: f32, %sum: f32):
    %q = arith.mulf %a, %a : f32
    %t = arith.addf %q, %sum : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  %v = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<64x128xf32>, tensor<64xf32>) outs(%e : tensor<64x128xf32>) {
  ^bb0(%a: f32, %b: f32, %unused: f32):
    %m = arith.divf %b, %n : f32
    %p = arith.addf %m, %eps : f32
    %i = math.rsqrt %p : f32
    %w = arith.mulf %a, %i : f32
    linalg.yield %w : f32
  } -> tensor<64x128xf32>
  %z = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%v, %y : tensor<64x128xf32>, tensor<64x128xf32>) outs(%e : tensor<64x128xf32>)
      attrs = {mlirfuse.id = "product"} {
  ^bb0(%a: f32, %b: f32, %unused: f32):
    %w = arith.mulf %a, %b : f32
    linalg.yield %w : f32
  } -> tensor<64x128xf32>
  return %z : tensor<64x128xf32>
}
