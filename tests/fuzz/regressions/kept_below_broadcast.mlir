// checked: {"target": "cpu", "switches": {}}
// IREE refuses a group that returns a value which its last op reads through a broadcast further
// down: each tile of the last op would write it. The broadcast stays outside.
#id = affine_map<(d0, d1) -> (d0, d1)>
#all = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#last = affine_map<(d0, d1, d2) -> (d1, d2)>
func.func @main(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<2x3x4xf32>) {
  %e = tensor.empty() : tensor<3x4xf32>
  %abs = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%a: f32, %out: f32):
    %t = math.absf %a : f32
    linalg.yield %t : f32
  } -> tensor<3x4xf32>
  %square = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%abs : tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%a: f32, %out: f32):
    %t = arith.mulf %a, %a : f32
    linalg.yield %t : f32
  } -> tensor<3x4xf32>
  %w = tensor.empty() : tensor<2x3x4xf32>
  %wide = linalg.generic {indexing_maps = [#last, #all],
                          iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%square : tensor<3x4xf32>) outs(%w : tensor<2x3x4xf32>) {
  ^bb0(%a: f32, %out: f32):
    %t = arith.addf %a, %a : f32
    linalg.yield %t : f32
  } -> tensor<2x3x4xf32>
  return %abs, %wide : tensor<3x4xf32>, tensor<2x3x4xf32>
}
