// checked: {"target": "cpu", "switches": {}}
// elementwise_fusion: a result after an op that widens, before another
func.func @main(%a0: tensor<?x4xf16>, %a1: tensor<?x3xf16>) -> (tensor<?x3xf64>, tensor<?x3xf16>) {
  %v1 = arith.constant 5.000000e-01 : f16
  %v2 = arith.constant 0 : index
  %v3 = tensor.dim %a0, %v2 : tensor<?x4xf16>
  %v4 = tensor.empty(%v3) : tensor<?x3xf16>
  %v5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%a1, %a1 : tensor<?x3xf16>, tensor<?x3xf16>) outs(%v4 : tensor<?x3xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16):
    %s = arith.addf %i0, %i1 : f16
    %r = arith.mulf %s, %v1 : f16
    linalg.yield %r : f16
  } -> tensor<?x3xf16>
  %v6 = arith.constant 1.000000e+00 : f16
  %v7 = arith.constant 0 : index
  %v8 = tensor.dim %a0, %v7 : tensor<?x4xf16>
  %v9 = tensor.empty(%v8) : tensor<?x3xf16>
  %v10 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%v5 : tensor<?x3xf16>) outs(%v9 : tensor<?x3xf16>) {
  ^bb0(%i0: f16, %o: f16):
    %s = arith.mulf %i0, %i0 : f16
    %p = arith.addf %s, %v6 : f16
    %r = math.rsqrt %p : f16
    linalg.yield %r : f16
  } -> tensor<?x3xf16>
  %v11 = arith.constant 1.000000e+00 : f16
  %v12 = arith.constant 0 : index
  %v13 = tensor.dim %a0, %v12 : tensor<?x4xf16>
  %v14 = tensor.empty(%v13) : tensor<?x3xf16>
  %v15 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%v10 : tensor<?x3xf16>) outs(%v14 : tensor<?x3xf16>) {
  ^bb0(%i0: f16, %o: f16):
    %c = arith.minimumf %i0, %v11 : f16
    %r = math.exp %c : f16
    linalg.yield %r : f16
  } -> tensor<?x3xf16>
  %v16 = arith.constant 0 : index
  %v17 = tensor.dim %a0, %v16 : tensor<?x4xf16>
  %v18 = tensor.empty(%v17) : tensor<?x3xf64>
  %v19 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%v15 : tensor<?x3xf16>) outs(%v18 : tensor<?x3xf64>) {
  ^bb0(%i0: f16, %o: f64):
    %r = arith.extf %i0 : f16 to f64
    linalg.yield %r : f64
  } -> tensor<?x3xf64>
  %v20 = arith.constant 0 : index
  %v21 = tensor.dim %a0, %v20 : tensor<?x4xf16>
  %v22 = tensor.empty(%v21) : tensor<?x3xf64>
  %v23 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%v19 : tensor<?x3xf64>) outs(%v22 : tensor<?x3xf64>) {
  ^bb0(%i0: f64, %o: f64):
    %r = arith.negf %i0 : f64
    linalg.yield %r : f64
  } -> tensor<?x3xf64>
  %v24 = arith.constant 0 : index
  %v25 = tensor.dim %a0, %v24 : tensor<?x4xf16>
  %v26 = tensor.empty(%v25) : tensor<?x3xf16>
  %v27 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%v15, %v10 : tensor<?x3xf16>, tensor<?x3xf16>) outs(%v26 : tensor<?x3xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16):
    %r = arith.addf %i0, %i1 : f16
    linalg.yield %r : f16
  } -> tensor<?x3xf16>
  return %v23, %v27 : tensor<?x3xf64>, tensor<?x3xf16>
}
