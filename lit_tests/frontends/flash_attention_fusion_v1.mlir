// RUN: %mlirfuse-opt %s --split-input-file --target=rocm --pipeline=flash_attention_fusion_v1 | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/flash_attention_fusion_v1.mlir

// From torch, q: bf16[?, 4, 16, 8], k: bf16[?, 4, 24, 8], v: bf16[?, 4, 24, 8]
//   F.scaled_dot_product_attention(q, k, v, is_causal=True)
// CHECK-LABEL: @torch
// CHECK: %[[Q:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<?x4x16x8xbf16>
// CHECK: %[[K:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<?x4x24x8xbf16>
// CHECK: %[[VC:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<?x24x8xbf16>
// CHECK: %[[V:.*]] = tensor.expand_shape %[[VC]]
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "flash_attention_fusion_v1"
// CHECK: %[[M:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<16x24xi1>)
// CHECK: arith.cmpi sge
// CHECK: %[[Y:.*]] = iree_linalg_ext.attention {{.*}} ins(%[[Q]], %[[K]], %[[V]], %{{.*}}, %[[M]] :
// CHECK: flow.return %[[Y]] :
// CHECK: tensor.collapse_shape %[[R]]
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3, d2)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map3 = affine_map<(d0) -> (d0)>
#map4 = affine_map<(d0, d1) -> (d0)>
#map5 = affine_map<(d0, d1) -> (d1)>
#map6 = affine_map<(d0, d1) -> (d0, d1)>
#map7 = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
#map8 = affine_map<(d0, d1, d2, d3) -> ()>
util.func public @torch(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.353553385 : f32
  %cst_0 = arith.constant dense<0xFF800000> : tensor<f32>
  %c4 = arith.constant 4 : index
  %cst_1 = arith.constant 0.000000e+00 : f32
  %0 = hal.buffer_view.dim<%arg0 : !hal.buffer_view>[0] : index
  %1 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<?x4x16x8xbf16>{%0}
  %2 = iree_tensor_ext.compute_barrier.start %1 : tensor<?x4x16x8xbf16>{%0} -> tensor<?x4x16x8xbf16>
  %3 = hal.buffer_view.dim<%arg1 : !hal.buffer_view>[0] : index
  %4 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<?x4x24x8xbf16>{%3}
  %5 = iree_tensor_ext.compute_barrier.start %4 : tensor<?x4x24x8xbf16>{%3} -> tensor<?x4x24x8xbf16>
  %6 = hal.buffer_view.dim<%arg2 : !hal.buffer_view>[0] : index
  %7 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<?x4x24x8xbf16>{%6}
  %8 = tensor.empty(%0) : tensor<?x4x16x8xbf16>
  %9 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%2 : tensor<?x4x16x8xbf16>) outs(%8 : tensor<?x4x16x8xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %45 = arith.truncf %cst : f32 to bf16
    %46 = arith.mulf %in, %45 : bf16
    linalg.yield %46 : bf16
  } -> tensor<?x4x16x8xbf16>
  %10 = tensor.empty(%3) : tensor<?x4x8x24xbf16>
  %11 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%5 : tensor<?x4x24x8xbf16>) outs(%10 : tensor<?x4x8x24xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  } -> tensor<?x4x8x24xbf16>
  %collapsed = tensor.collapse_shape %9 [[0, 1], [2], [3]] : tensor<?x4x16x8xbf16> into tensor<?x16x8xbf16>
  %collapsed_2 = tensor.collapse_shape %11 [[0, 1], [2], [3]] : tensor<?x4x8x24xbf16> into tensor<?x8x24xbf16>
  %12 = arith.muli %0, %c4 overflow<nsw> : index
  %13 = arith.muli %3, %c4 overflow<nsw> : index
  %14 = arith.index_cast %12 : index to i64
  %15 = arith.index_cast %13 : index to i64
  %16 = arith.cmpi eq, %14, %15 : i64
  cf.assert %16, "mismatching contracting dimension"
  %17 = tensor.empty(%12) : tensor<?x16x24xf32>
  %18 = linalg.fill ins(%cst_1 : f32) outs(%17 : tensor<?x16x24xf32>) -> tensor<?x16x24xf32>
  %19 = linalg.batch_matmul ins(%collapsed, %collapsed_2 : tensor<?x16x8xbf16>, tensor<?x8x24xbf16>) outs(%18 : tensor<?x16x24xf32>) -> tensor<?x16x24xf32>
  %20 = tensor.empty(%12) : tensor<?x16x24xbf16>
  %21 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel", "parallel"]} ins(%19 : tensor<?x16x24xf32>) outs(%20 : tensor<?x16x24xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %45 = arith.truncf %in : f32 to bf16
    linalg.yield %45 : bf16
  } -> tensor<?x16x24xbf16>
  %expanded = tensor.expand_shape %21 [[0, 1], [2], [3]] output_shape [%0, 4, 16, 24] : tensor<?x16x24xbf16> into tensor<?x4x16x24xbf16>
  %22 = tensor.empty(%0) : tensor<?x4x16x24xf32>
  %23 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded : tensor<?x4x16x24xbf16>) outs(%22 : tensor<?x4x16x24xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %45 = arith.extf %in : bf16 to f32
    linalg.yield %45 : f32
  } -> tensor<?x4x16x24xf32>
  %24 = tensor.empty() : tensor<16xi64>
  %25 = linalg.generic {indexing_maps = [#map3], iterator_types = ["parallel"]} outs(%24 : tensor<16xi64>) {
  ^bb0(%out: i64):
    %45 = linalg.index 0 : index
    %46 = arith.index_cast %45 : index to i64
    linalg.yield %46 : i64
  } -> tensor<16xi64>
  %26 = tensor.empty() : tensor<24xi64>
  %27 = linalg.generic {indexing_maps = [#map3], iterator_types = ["parallel"]} outs(%26 : tensor<24xi64>) {
  ^bb0(%out: i64):
    %45 = linalg.index 0 : index
    %46 = arith.index_cast %45 : index to i64
    linalg.yield %46 : i64
  } -> tensor<24xi64>
  %28 = tensor.empty() : tensor<16x24xi1>
  %29 = linalg.generic {indexing_maps = [#map4, #map5, #map6], iterator_types = ["parallel", "parallel"]} ins(%25, %27 : tensor<16xi64>, tensor<24xi64>) outs(%28 : tensor<16x24xi1>) {
  ^bb0(%in: i64, %in_6: i64, %out: i1):
    %45 = arith.cmpi sge, %in, %in_6 : i64
    linalg.yield %45 : i1
  } -> tensor<16x24xi1>
  %30 = linalg.generic {indexing_maps = [#map7, #map, #map8, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%29, %23, %cst_0 : tensor<16x24xi1>, tensor<?x4x16x24xf32>, tensor<f32>) outs(%22 : tensor<?x4x16x24xf32>) {
  ^bb0(%in: i1, %in_6: f32, %in_7: f32, %out: f32):
    %45 = arith.select %in, %in_6, %in_7 : f32
    linalg.yield %45 : f32
  } -> tensor<?x4x16x24xf32>
  %31 = linalg.softmax dimension(3) ins(%30 : tensor<?x4x16x24xf32>) outs(%22 : tensor<?x4x16x24xf32>) -> tensor<?x4x16x24xf32>
  %32 = tensor.empty(%0) : tensor<?x4x16x24xbf16>
  %33 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%31 : tensor<?x4x16x24xf32>) outs(%32 : tensor<?x4x16x24xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %45 = arith.truncf %in : f32 to bf16
    linalg.yield %45 : bf16
  } -> tensor<?x4x16x24xbf16>
  %collapsed_3 = tensor.collapse_shape %33 [[0, 1], [2], [3]] : tensor<?x4x16x24xbf16> into tensor<?x16x24xbf16>
  %collapsed_4 = tensor.collapse_shape %7 [[0, 1], [2], [3]] : tensor<?x4x24x8xbf16> into tensor<?x24x8xbf16>
  %34 = arith.muli %6, %c4 overflow<nsw> : index
  %35 = iree_tensor_ext.compute_barrier.start %collapsed_4 : tensor<?x24x8xbf16>{%34} -> tensor<?x24x8xbf16>
  %36 = arith.index_cast %34 : index to i64
  %37 = arith.cmpi eq, %14, %36 : i64
  cf.assert %37, "mismatching contracting dimension"
  %38 = tensor.empty(%12) : tensor<?x16x8xf32>
  %39 = linalg.fill ins(%cst_1 : f32) outs(%38 : tensor<?x16x8xf32>) -> tensor<?x16x8xf32>
  %40 = linalg.batch_matmul ins(%collapsed_3, %35 : tensor<?x16x24xbf16>, tensor<?x24x8xbf16>) outs(%39 : tensor<?x16x8xf32>) -> tensor<?x16x8xf32>
  %41 = tensor.empty(%12) : tensor<?x16x8xbf16>
  %42 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel", "parallel"]} ins(%40 : tensor<?x16x8xf32>) outs(%41 : tensor<?x16x8xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %45 = arith.truncf %in : f32 to bf16
    linalg.yield %45 : bf16
  } -> tensor<?x16x8xbf16>
  %43 = iree_tensor_ext.compute_barrier.end %42 : tensor<?x16x8xbf16>{%12} -> tensor<?x16x8xbf16>
  %expanded_5 = tensor.expand_shape %43 [[0, 1], [2], [3]] output_shape [%0, 4, 16, 8] : tensor<?x16x8xbf16> into tensor<?x4x16x8xbf16>
  %44 = hal.tensor.export %expanded_5 "output0" : tensor<?x4x16x8xbf16>{%0} -> !hal.buffer_view
  util.return %44 : !hal.buffer_view
}
