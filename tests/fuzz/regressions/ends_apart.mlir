// checked: {"target": "cpu", "switches": {}}
// elementwise_fusion: two results after a transpose
func.func @main(%a0: tensor<16x5xf32>, %a1: tensor<5x2x1x3x33xf32>, %a2: tensor<17x2xf32>, %a3: tensor<34xf32>, %a4: tensor<i1>) -> (tensor<34x2xf32>, tensor<2x34xf32>, tensor<2x34xf32>) {
  %v1 = tensor.concat dim(0) %a2, %a2 : (tensor<17x2xf32>, tensor<17x2xf32>) -> tensor<34x2xf32>
  %v2 = tensor.empty() : tensor<2x34xf32>
  %v3 = linalg.transpose ins(%v1 : tensor<34x2xf32>) outs(%v2 : tensor<2x34xf32>) permutation = [1, 0]
  %v4 = arith.constant 5.000000e-01 : f32
  %v5 = tensor.empty() : tensor<34x2xf32>
  %v6 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%v1 : tensor<34x2xf32>) outs(%v5 : tensor<34x2xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %r = arith.mulf %i0, %v4 : f32
    linalg.yield %r : f32
  } -> tensor<34x2xf32>
  %v7 = tensor.empty() : tensor<2x34xf32>
  %v8 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%v3, %a3 : tensor<2x34xf32>, tensor<34xf32>) outs(%v7 : tensor<2x34xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.minimumf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<2x34xf32>
  %v9 = arith.constant 0.000000e+00 : f32
  %v10 = tensor.empty() : tensor<2x34xf32>
  %v11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%v3, %a4 : tensor<2x34xf32>, tensor<i1>) outs(%v10 : tensor<2x34xf32>) {
  ^bb0(%i0: f32, %i1: i1, %o: f32):
    %r = arith.select %i1, %i0, %v9 : f32
    linalg.yield %r : f32
  } -> tensor<2x34xf32>
  return %v6, %v8, %v11 : tensor<34x2xf32>, tensor<2x34xf32>, tensor<2x34xf32>
}
