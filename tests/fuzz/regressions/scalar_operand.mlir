// checked: {"target": "cpu", "switches": {}}
// data_tiling_rewrite: the packing of a tensor of rank 0
func.func @main(%x: tensor<f32>, %w: tensor<1x32xf32>) -> tensor<1x32xf32> {
  %ae = tensor.empty() : tensor<f32>
  %a = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%x : tensor<f32>) outs(%ae : tensor<f32>) {
  ^bb0(%in: f32, %o: f32):
    %q = math.exp %in : f32
    linalg.yield %q : f32
  } -> tensor<f32>
  %be = tensor.empty() : tensor<f32>
  %b = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%a : tensor<f32>) outs(%be : tensor<f32>) {
  ^bb0(%in: f32, %o: f32):
    %q = math.tanh %in : f32
    linalg.yield %q : f32
  } -> tensor<f32>
  %y = tensor.expand_shape %b [] output_shape [1, 1] : tensor<f32> into tensor<1x1xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x32xf32>) -> tensor<1x32xf32>
  %p = linalg.matmul ins(%y, %w : tensor<1x1xf32>, tensor<1x32xf32>) outs(%f : tensor<1x32xf32>) -> tensor<1x32xf32>
  return %p : tensor<1x32xf32>
}
