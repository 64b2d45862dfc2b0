// checked: {"target": "cpu", "switches": {}}
// data_tiling_rewrite: the result of another dispatch, packed along a dynamic size
func.func @main(%a0: tensor<?x1xf32>, %a1: tensor<f32>, %a2: tensor<?x8xf32>, %a3: tensor<8xf32>) -> (tensor<bf16>, tensor<?xf32>, tensor<1x8xf32>) {
  %v1 = tensor.empty() : tensor<f32>
  %v2 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}
      ins(%a1, %a1 : tensor<f32>, tensor<f32>) outs(%v1 : tensor<f32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %h = math.tanh %i0 : f32
    %r = arith.mulf %i1, %h : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  %v3 = tensor.empty() : tensor<f32>
  %v4 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}
      ins(%v2 : tensor<f32>) outs(%v3 : tensor<f32>) {
  ^bb0(%i0: f32, %o: f32):
    %r = math.absf %i0 : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  %v5 = tensor.empty() : tensor<bf16>
  %v6 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}
      ins(%v4 : tensor<f32>) outs(%v5 : tensor<bf16>) {
  ^bb0(%i0: f32, %o: bf16):
    %r = arith.truncf %i0 : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<bf16>
  %v7 = arith.constant 0.000000e+00 : f32
  %v8 = arith.constant 0 : index
  %v9 = tensor.dim %a0, %v8 : tensor<?x1xf32>
  %v10 = tensor.empty(%v9) : tensor<?xf32>
  %v11 = linalg.fill ins(%v7 : f32) outs(%v10 : tensor<?xf32>) -> tensor<?xf32>
  %v12 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%a0 : tensor<?x1xf32>) outs(%v11 : tensor<?xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %r = arith.addf %i0, %o : f32
    linalg.yield %r : f32
  } -> tensor<?xf32>
  %v13 = arith.constant 1.000000e+00 : f32
  %v14 = arith.constant 0 : index
  %v15 = tensor.dim %a0, %v14 : tensor<?x1xf32>
  %v16 = tensor.empty(%v15) : tensor<?xf32>
  %v17 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%v12 : tensor<?xf32>) outs(%v16 : tensor<?xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %r = arith.mulf %i0, %v13 : f32
    linalg.yield %r : f32
  } -> tensor<?xf32>
  %v18 = arith.constant 0 : index
  %v19 = tensor.dim %a0, %v18 : tensor<?x1xf32>
  %v20 = tensor.empty(%v19) : tensor<1x?xf32>
  %v21 = linalg.transpose ins(%a0 : tensor<?x1xf32>) outs(%v20 : tensor<1x?xf32>) permutation = [1, 0]
  %v22 = arith.constant 0.000000e+00 : f32
  %v23 = arith.constant 0 : index
  %v24 = tensor.dim %a0, %v23 : tensor<?x1xf32>
  %v25 = tensor.empty(%v24) : tensor<1x?xf32>
  %v26 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%v21 : tensor<1x?xf32>) outs(%v25 : tensor<1x?xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %r = arith.maximumf %i0, %v22 : f32
    linalg.yield %r : f32
  } -> tensor<1x?xf32>
  %v27 = arith.constant 0.000000e+00 : f32
  %v28 = tensor.empty() : tensor<1x8xf32>
  %v29 = linalg.fill ins(%v27 : f32) outs(%v28 : tensor<1x8xf32>) -> tensor<1x8xf32>
  %v30 = linalg.matmul ins(%v26, %a2 : tensor<1x?xf32>, tensor<?x8xf32>) outs(%v29 : tensor<1x8xf32>) -> tensor<1x8xf32>
  %v31 = arith.constant 3.535534e-01 : f32
  %v32 = tensor.empty() : tensor<1x8xf32>
  %v33 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%v30 : tensor<1x8xf32>) outs(%v32 : tensor<1x8xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %r = arith.mulf %i0, %v31 : f32
    linalg.yield %r : f32
  } -> tensor<1x8xf32>
  %v34 = tensor.empty() : tensor<1x8xf32>
  %v35 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%v33, %a3 : tensor<1x8xf32>, tensor<8xf32>) outs(%v34 : tensor<1x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.addf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<1x8xf32>
  return %v6, %v17, %v35 : tensor<bf16>, tensor<?xf32>, tensor<1x8xf32>
}
