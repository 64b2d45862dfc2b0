// checked: {"target": "cpu", "switches": {}}
// reduction_fusion: a third result that is the second once a fill is folded
func.func @main(%x: tensor<14xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
 %c = arith.constant 0.0 : f32
 %h = arith.constant 0.5 : f32
 %lo = arith.constant 0xFF800000 : f32
 %e = tensor.empty() : tensor<f32>
 %f = linalg.fill ins(%c : f32) outs(%e : tensor<f32>) -> tensor<f32>
 %s = linalg.generic {indexing_maps=[affine_map<(d0)->(d0)>, affine_map<(d0)->()>], iterator_types=["reduction"]} ins(%x : tensor<14xf32>) outs(%f : tensor<f32>) {
 ^bb0(%i: f32, %o: f32):
  %r = arith.addf %i, %o : f32
  linalg.yield %r : f32 } -> tensor<f32>
 %v0 = linalg.generic {indexing_maps=[affine_map<()->()>,affine_map<()->()>], iterator_types=[]} ins(%s : tensor<f32>) outs(%e : tensor<f32>) {
 ^bb0(%i: f32, %o: f32):
  %r = arith.mulf %i, %h : f32
  linalg.yield %r : f32 } -> tensor<f32>
 %v1 = linalg.generic {indexing_maps=[affine_map<()->()>,affine_map<()->()>], iterator_types=[]} ins(%v0 : tensor<f32>) outs(%e : tensor<f32>) {
 ^bb0(%i: f32, %o: f32):
  %q = math.tanh %i : f32
  %r = arith.addf %q, %h : f32
  linalg.yield %r : f32 } -> tensor<f32>
 %g = linalg.fill ins(%lo : f32) outs(%e : tensor<f32>) -> tensor<f32>
 %v2 = linalg.generic {indexing_maps=[affine_map<()->()>,affine_map<()->()>,affine_map<()->()>], iterator_types=[]} ins(%v1, %g : tensor<f32>, tensor<f32>) outs(%e : tensor<f32>) {
 ^bb0(%i: f32, %j: f32, %o: f32):
  %r = arith.maximumf %i, %j : f32
  linalg.yield %r : f32 } -> tensor<f32>
 return %v0, %v1, %v2 : tensor<f32>, tensor<f32>, tensor<f32>
}
