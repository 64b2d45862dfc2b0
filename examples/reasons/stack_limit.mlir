// Eight rows of 2048 columns are kept on the stack, since the residual add is a result too.
// mlirfuse-opt examples/reasons/stack_limit.mlir --pipeline=add_rms_norm_fusion
#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
#n = affine_map<(m, n) -> (n)>
#i = affine_map<(i) -> (i)>
func.func @main(%x: tensor<8x2048xf32>, %r: tensor<8x2048xf32>, %gamma: tensor<2048xf32>) -> (tensor<8x2048xf32>, tensor<8x2048xf32>) {
  %zero = arith.constant 0.0 : f32
  %count = arith.constant 2048.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<8x2048xf32>
  %er = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%er : tensor<8xf32>) -> tensor<8xf32>
  %h = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x, %r : tensor<8x2048xf32>, tensor<8x2048xf32>) outs(%e : tensor<8x2048xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x2048xf32>
  %q = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<8x2048xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %p = arith.mulf %i, %i : f32
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %rstd = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%q : tensor<8xf32>) outs(%er : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %d = arith.divf %i, %count : f32
    %a = arith.addf %d, %eps : f32
    %s = math.rsqrt %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#mn, #m, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%h, %rstd, %gamma : tensor<8x2048xf32>, tensor<8xf32>, tensor<2048xf32>) outs(%e : tensor<8x2048xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %o: f32):
    %a = arith.mulf %i, %j : f32
    %s = arith.mulf %a, %k : f32
    linalg.yield %s : f32
  } -> tensor<8x2048xf32>
  return %y, %h : tensor<8x2048xf32>, tensor<8x2048xf32>
}
