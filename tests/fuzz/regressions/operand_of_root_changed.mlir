// checked: {"target": "cpu", "switches": {}}
// rms_norm_fusion: a later root whose operand the rewrite of the first had changed: a crash
func.func @main(%a0: tensor<bf16>, %a1: tensor<17x3x5x2x2xbf16>, %a2: tensor<1x1x2x2x2xbf16>, %a3: tensor<2xbf16>) -> (tensor<1x2x2x2x2xbf16>, tensor<1x2x2x2x2xf32>) {
  %v1 = tensor.concat dim(1) %a2, %a2 : (tensor<1x1x2x2x2xbf16>, tensor<1x1x2x2x2xbf16>) -> tensor<1x2x2x2x2xbf16>
  %v2 = arith.constant 2.000000e+00 : bf16
  %v3 = arith.constant 1.000000e-02 : bf16
  %v4 = arith.constant 0.000000e+00 : bf16
  %v5 = tensor.empty() : tensor<1x2x2x2xbf16>
  %v6 = linalg.fill ins(%v4 : bf16) outs(%v5 : tensor<1x2x2x2xbf16>) -> tensor<1x2x2x2xbf16>
  %v7 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%v1 : tensor<1x2x2x2x2xbf16>) outs(%v6 : tensor<1x2x2x2xbf16>) {
  ^bb0(%i0: bf16, %o: bf16):
    %s = arith.mulf %i0, %i0 : bf16
    %r = arith.addf %s, %o : bf16
    linalg.yield %r : bf16
  } -> tensor<1x2x2x2xbf16>
  %v8 = tensor.empty() : tensor<1x2x2x2x2xbf16>
  %v9 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%v1, %v7 : tensor<1x2x2x2x2xbf16>, tensor<1x2x2x2xbf16>) outs(%v8 : tensor<1x2x2x2x2xbf16>) {
  ^bb0(%i0: bf16, %i1: bf16, %o: bf16):
    %m = arith.divf %i1, %v2 : bf16
    %p = arith.addf %m, %v3 : bf16
    %q = math.rsqrt %p : bf16
    %r = arith.mulf %i0, %q : bf16
    linalg.yield %r : bf16
  } -> tensor<1x2x2x2x2xbf16>
  %v10 = arith.constant 2.000000e+00 : bf16
  %v11 = arith.constant 1.000000e-02 : bf16
  %v12 = arith.constant 0.000000e+00 : bf16
  %v13 = tensor.empty() : tensor<1x2x2x2xbf16>
  %v14 = linalg.fill ins(%v12 : bf16) outs(%v13 : tensor<1x2x2x2xbf16>) -> tensor<1x2x2x2xbf16>
  %v15 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%v9 : tensor<1x2x2x2x2xbf16>) outs(%v14 : tensor<1x2x2x2xbf16>) {
  ^bb0(%i0: bf16, %o: bf16):
    %s = arith.mulf %i0, %i0 : bf16
    %r = arith.addf %s, %o : bf16
    linalg.yield %r : bf16
  } -> tensor<1x2x2x2xbf16>
  %v16 = tensor.empty() : tensor<1x2x2x2x2xbf16>
  %v17 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%v9, %v15 : tensor<1x2x2x2x2xbf16>, tensor<1x2x2x2xbf16>) outs(%v16 : tensor<1x2x2x2x2xbf16>) {
  ^bb0(%i0: bf16, %i1: bf16, %o: bf16):
    %m = arith.divf %i1, %v10 : bf16
    %p = arith.addf %m, %v11 : bf16
    %q = math.rsqrt %p : bf16
    %r = arith.mulf %i0, %q : bf16
    linalg.yield %r : bf16
  } -> tensor<1x2x2x2x2xbf16>
  %v18 = tensor.empty() : tensor<1x2x2x2x2xbf16>
  %v19 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%v17, %a3 : tensor<1x2x2x2x2xbf16>, tensor<2xbf16>) outs(%v18 : tensor<1x2x2x2x2xbf16>) {
  ^bb0(%i0: bf16, %i1: bf16, %o: bf16):
    %r = arith.mulf %i0, %i1 : bf16
    linalg.yield %r : bf16
  } -> tensor<1x2x2x2x2xbf16>
  %v20 = tensor.empty() : tensor<1x2x2x2x2xf32>
  %v21 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%v9 : tensor<1x2x2x2x2xbf16>) outs(%v20 : tensor<1x2x2x2x2xf32>) {
  ^bb0(%i0: bf16, %o: f32):
    %r = arith.extf %i0 : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<1x2x2x2x2xf32>
  return %v19, %v21 : tensor<1x2x2x2x2xbf16>, tensor<1x2x2x2x2xf32>
}
