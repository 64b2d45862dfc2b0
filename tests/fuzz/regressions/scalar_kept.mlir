// checked: {"target": "cpu", "switches": {}}
// IREE refuses a group of rows that returns a scalar of which it reads a broadcast: each tile would
// write it. `reduction_fusion` leaves the scalar outside.
#all = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#none = affine_map<(d0, d1) -> ()>
#scalar = affine_map<() -> ()>
func.func @main(%x: tensor<8x16xf32>, %s: tensor<f32>) -> (tensor<f32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %scalar = tensor.empty() : tensor<f32>
  %twice = linalg.generic {indexing_maps = [#scalar, #scalar], iterator_types = []}
      ins(%s : tensor<f32>) outs(%scalar : tensor<f32>) {
  ^bb0(%a: f32, %out: f32):
    %t = arith.addf %a, %a : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  %empty = tensor.empty() : tensor<8x16xf32>
  %scaled = linalg.generic {indexing_maps = [#all, #none, #all],
                            iterator_types = ["parallel", "parallel"]}
      ins(%x, %twice : tensor<8x16xf32>, tensor<f32>) outs(%empty : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<8x16xf32>
  %rows = tensor.empty() : tensor<8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%rows : tensor<8xf32>) -> tensor<8xf32>
  %sums = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%scaled : tensor<8x16xf32>) outs(%zeros : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %t = arith.addf %a, %out : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  return %twice, %sums : tensor<f32>, tensor<8xf32>
}
