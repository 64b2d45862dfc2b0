// checked: {"target": "cpu", "switches": {}}
// a function without a mark next to one with: IREE packs a dynamic batched matmul wrongly
func.func @main(%a0: tensor<?x2x4x1x17xf16>, %a1: tensor<?x17x4xf16>, %a2: tensor<?x2x4xf16>, %a3: tensor<?x4x1xf16>, %a4: tensor<1xf16>, %a5: tensor<?x2xi1>) -> (tensor<?x2x4xf16>, tensor<?x2x1xf16>, tensor<4x?x2xf16>, tensor<?x2x4xf16>) {
  %v1 = arith.constant 5.000000e-01 : f16
  %v2 = arith.constant 0 : index
  %v3 = tensor.dim %a0, %v2 : tensor<?x2x4x1x17xf16>
  %v4 = tensor.empty(%v3) : tensor<?x2x4xf16>
  %v5 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%a2, %a2 : tensor<?x2x4xf16>, tensor<?x2x4xf16>) outs(%v4 : tensor<?x2x4xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16):
    %s = arith.subf %i1, %i0 : f16
    %r = arith.mulf %s, %v1 : f16
    linalg.yield %r : f16
  } -> tensor<?x2x4xf16>
  %v6 = arith.constant 0 : index
  %v7 = tensor.dim %a0, %v6 : tensor<?x2x4x1x17xf16>
  %v8 = tensor.empty(%v7) : tensor<?x2x4xf16>
  %v9 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%a2 : tensor<?x2x4xf16>) outs(%v8 : tensor<?x2x4xf16>) {
  ^bb0(%i0: f16, %o: f16):
    %r = math.tanh %i0 : f16
    linalg.yield %r : f16
  } -> tensor<?x2x4xf16>
  %v10 = arith.constant 0.000000e+00 : f16
  %v11 = arith.constant 0 : index
  %v12 = tensor.dim %a0, %v11 : tensor<?x2x4x1x17xf16>
  %v13 = tensor.empty(%v12) : tensor<?x2x1xf16>
  %v14 = linalg.fill ins(%v10 : f16) outs(%v13 : tensor<?x2x1xf16>) -> tensor<?x2x1xf16>
  %v15 = linalg.batch_matmul ins(%v9, %a3 : tensor<?x2x4xf16>, tensor<?x4x1xf16>) outs(%v14 : tensor<?x2x1xf16>) -> tensor<?x2x1xf16>
  %v16 = arith.constant 5.000000e-01 : f16
  %v17 = arith.constant 0 : index
  %v18 = tensor.dim %a0, %v17 : tensor<?x2x4x1x17xf16>
  %v19 = tensor.empty(%v18) : tensor<?x2x1xf16>
  %v20 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%v15 : tensor<?x2x1xf16>) outs(%v19 : tensor<?x2x1xf16>) {
  ^bb0(%i0: f16, %o: f16):
    %r = arith.mulf %i0, %v16 : f16
    linalg.yield %r : f16
  } -> tensor<?x2x1xf16>
  %v21 = arith.constant 0 : index
  %v22 = tensor.dim %a0, %v21 : tensor<?x2x4x1x17xf16>
  %v23 = tensor.empty(%v22) : tensor<?x2x1xf16>
  %v24 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%v20, %a4 : tensor<?x2x1xf16>, tensor<1xf16>) outs(%v23 : tensor<?x2x1xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16):
    %r = arith.addf %i0, %i1 : f16
    linalg.yield %r : f16
  } -> tensor<?x2x1xf16>
  %v25 = arith.constant 0.000000e+00 : f16
  %v26 = arith.constant 0 : index
  %v27 = tensor.dim %a0, %v26 : tensor<?x2x4x1x17xf16>
  %v28 = tensor.empty(%v27) : tensor<?x2x4xf16>
  %v29 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%v9, %a5 : tensor<?x2x4xf16>, tensor<?x2xi1>) outs(%v28 : tensor<?x2x4xf16>) {
  ^bb0(%i0: f16, %i1: i1, %o: f16):
    %r = arith.select %i1, %i0, %v25 : f16
    linalg.yield %r : f16
  } -> tensor<?x2x4xf16>
  %v30 = arith.constant 0 : index
  %v31 = tensor.dim %a0, %v30 : tensor<?x2x4x1x17xf16>
  %v32 = tensor.empty(%v31) : tensor<?x2x4xf16>
  %v33 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%v29 : tensor<?x2x4xf16>) outs(%v32 : tensor<?x2x4xf16>) {
  ^bb0(%i0: f16, %o: f16):
    %r = arith.negf %i0 : f16
    linalg.yield %r : f16
  } -> tensor<?x2x4xf16>
  %v34 = arith.constant 0 : index
  %v35 = tensor.dim %a0, %v34 : tensor<?x2x4x1x17xf16>
  %v36 = tensor.empty(%v35) : tensor<4x?x2xf16>
  %v37 = linalg.transpose ins(%v33 : tensor<?x2x4xf16>) outs(%v36 : tensor<4x?x2xf16>) permutation = [2, 0, 1]
  %v38 = arith.constant 0 : index
  %v39 = tensor.dim %a0, %v38 : tensor<?x2x4x1x17xf16>
  %v40 = tensor.empty(%v39) : tensor<?x2x4xf16>
  %v41 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%v33 : tensor<?x2x4xf16>) outs(%v40 : tensor<?x2x4xf16>) {
  ^bb0(%i0: f16, %o: f16):
    %a = math.absf %i0 : f16
    %r = math.sqrt %a : f16
    linalg.yield %r : f16
  } -> tensor<?x2x4xf16>
  return %v5, %v24, %v37, %v41 : tensor<?x2x4xf16>, tensor<?x2x1xf16>, tensor<4x?x2xf16>, tensor<?x2x4xf16>
}
func.func @plain(%x: tensor<48x64xf32>, %w: tensor<64x16xf32>, %y: tensor<48x16xf32>) -> tensor<48x16xf32> {
  %p = linalg.matmul ins(%x, %w : tensor<48x64xf32>, tensor<64x16xf32>) outs(%y : tensor<48x16xf32>) -> tensor<48x16xf32>
  return %p : tensor<48x16xf32>
}
