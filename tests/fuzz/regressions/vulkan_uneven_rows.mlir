// checked: {"target": "vulkan:ampere", "switches": {}}
// reduction_fusion: row sums next to another result
func.func @main(%x: tensor<64x48xf32>, %v: tensor<64xf32>) -> (tensor<64x48xf32>, tensor<64xf32>) {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<64xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x48xf32>) outs(%sf : tensor<64xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %q = arith.addf %i0, %o : f32
    linalg.yield %q : f32
  } -> tensor<64xf32>
  %ce = tensor.empty() : tensor<64x48xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<64x48xf32>, tensor<64xf32>) outs(%ce : tensor<64x48xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %q = arith.addf %i0, %i1 : f32
    linalg.yield %q : f32
  } -> tensor<64x48xf32>
  return %c, %s : tensor<64x48xf32>, tensor<64xf32>
}
