// RUN: %mlirfuse-opt %s --split-input-file --target=rocm --pipeline=flash_attention_fusion_v2 | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/flash_attention_fusion_v2.mlir

// From jax, q: bf16[2, 16, 4, 8], k: bf16[2, 24, 4, 8], v: bf16[2, 24, 4, 8]
//   jax.nn.dot_product_attention(q, k, v)
// CHECK-LABEL: @jax
// CHECK: %[[Q:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<2x16x4x8xbf16>
// CHECK: %[[K:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<2x24x4x8xbf16>
// CHECK: %[[V:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<2x24x4x8xbf16>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "flash_attention_fusion_v2"
// CHECK: %[[Y:.*]] = iree_linalg_ext.attention {{.*}} ins(%[[Q]], %[[K]], %[[V]], %{{.*}} :
// CHECK: flow.return %[[Y]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d3, d1, d2)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3, d2)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3, d1)>
util.func public @jax(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 0.353553385 : f32
  %cst_1 = arith.constant 0xFF800000 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<2x16x4x8xbf16>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<2x24x4x8xbf16>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<2x24x4x8xbf16> -> tensor<2x24x4x8xbf16>
  %4 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<2x24x4x8xbf16>
  %5 = iree_tensor_ext.compute_barrier.start %4 : tensor<2x24x4x8xbf16> -> tensor<2x24x4x8xbf16>
  %6 = tensor.empty() : tensor<2x4x16x8xbf16>
  %7 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%1 : tensor<2x16x4x8xbf16>) outs(%6 : tensor<2x4x16x8xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  } -> tensor<2x4x16x8xbf16>
  %8 = tensor.empty() : tensor<2x4x8x24xbf16>
  %9 = linalg.generic {indexing_maps = [#map2, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%3 : tensor<2x24x4x8xbf16>) outs(%8 : tensor<2x4x8x24xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  } -> tensor<2x4x8x24xbf16>
  %collapsed = tensor.collapse_shape %7 [[0, 1], [2], [3]] : tensor<2x4x16x8xbf16> into tensor<8x16x8xbf16>
  %collapsed_2 = tensor.collapse_shape %9 [[0, 1], [2], [3]] : tensor<2x4x8x24xbf16> into tensor<8x8x24xbf16>
  %10 = tensor.empty() : tensor<8x16x24xf32>
  %11 = linalg.fill ins(%cst : f32) outs(%10 : tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %12 = linalg.batch_matmul ins(%collapsed, %collapsed_2 : tensor<8x16x8xbf16>, tensor<8x8x24xbf16>) outs(%11 : tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %expanded = tensor.expand_shape %12 [[0, 1], [2], [3]] output_shape [2, 4, 16, 24] : tensor<8x16x24xf32> into tensor<2x4x16x24xf32>
  %13 = tensor.empty() : tensor<2x4x16x24xf32>
  %14 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded : tensor<2x4x16x24xf32>) outs(%13 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    %38 = arith.mulf %in, %cst_0 : f32
    linalg.yield %38 : f32
  } -> tensor<2x4x16x24xf32>
  %15 = tensor.empty() : tensor<2x4x16xf32>
  %16 = linalg.fill ins(%cst_1 : f32) outs(%15 : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %17 = linalg.generic {indexing_maps = [#map1, #map3], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%14 : tensor<2x4x16x24xf32>) outs(%16 : tensor<2x4x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %38 = arith.maximumf %out, %in : f32
    linalg.yield %38 : f32
  } -> tensor<2x4x16xf32>
  %18 = linalg.generic {indexing_maps = [#map3, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%17 : tensor<2x4x16xf32>) outs(%13 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x16x24xf32>
  %19 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%14, %18 : tensor<2x4x16x24xf32>, tensor<2x4x16x24xf32>) outs(%13 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: f32, %in_6: f32, %out: f32):
    %38 = arith.subf %in, %in_6 : f32
    linalg.yield %38 : f32
  } -> tensor<2x4x16x24xf32>
  %20 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%19 : tensor<2x4x16x24xf32>) outs(%13 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    %38 = math.exp %in : f32
    linalg.yield %38 : f32
  } -> tensor<2x4x16x24xf32>
  %21 = linalg.fill ins(%cst : f32) outs(%15 : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %22 = linalg.generic {indexing_maps = [#map1, #map3], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%20 : tensor<2x4x16x24xf32>) outs(%21 : tensor<2x4x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %38 = arith.addf %out, %in : f32
    linalg.yield %38 : f32
  } -> tensor<2x4x16xf32>
  %23 = linalg.generic {indexing_maps = [#map3, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%22 : tensor<2x4x16xf32>) outs(%13 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x16x24xf32>
  %24 = linalg.generic {indexing_maps = [#map2, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%5 : tensor<2x24x4x8xbf16>) outs(%8 : tensor<2x4x8x24xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  } -> tensor<2x4x8x24xbf16>
  %25 = tensor.empty() : tensor<2x4x24x16xf32>
  %26 = linalg.generic {indexing_maps = [#map4, #map4, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%20, %23 : tensor<2x4x16x24xf32>, tensor<2x4x16x24xf32>) outs(%25 : tensor<2x4x24x16xf32>) {
  ^bb0(%in: f32, %in_6: f32, %out: f32):
    %38 = arith.divf %in, %in_6 : f32
    linalg.yield %38 : f32
  } -> tensor<2x4x24x16xf32>
  %27 = tensor.empty() : tensor<2x4x24x16xbf16>
  %28 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%26 : tensor<2x4x24x16xf32>) outs(%27 : tensor<2x4x24x16xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %38 = arith.truncf %in : f32 to bf16
    linalg.yield %38 : bf16
  } -> tensor<2x4x24x16xbf16>
  %collapsed_3 = tensor.collapse_shape %24 [[0, 1], [2], [3]] : tensor<2x4x8x24xbf16> into tensor<8x8x24xbf16>
  %collapsed_4 = tensor.collapse_shape %28 [[0, 1], [2], [3]] : tensor<2x4x24x16xbf16> into tensor<8x24x16xbf16>
  %29 = tensor.empty() : tensor<8x8x16xf32>
  %30 = linalg.fill ins(%cst : f32) outs(%29 : tensor<8x8x16xf32>) -> tensor<8x8x16xf32>
  %31 = linalg.batch_matmul ins(%collapsed_3, %collapsed_4 : tensor<8x8x24xbf16>, tensor<8x24x16xbf16>) outs(%30 : tensor<8x8x16xf32>) -> tensor<8x8x16xf32>
  %expanded_5 = tensor.expand_shape %31 [[0, 1], [2], [3]] output_shape [2, 4, 8, 16] : tensor<8x8x16xf32> into tensor<2x4x8x16xf32>
  %32 = tensor.empty() : tensor<2x4x8x16xbf16>
  %33 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_5 : tensor<2x4x8x16xf32>) outs(%32 : tensor<2x4x8x16xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %38 = arith.truncf %in : f32 to bf16
    linalg.yield %38 : bf16
  } -> tensor<2x4x8x16xbf16>
  %34 = tensor.empty() : tensor<2x16x4x8xbf16>
  %35 = linalg.generic {indexing_maps = [#map5, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%33 : tensor<2x4x8x16xbf16>) outs(%34 : tensor<2x16x4x8xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  } -> tensor<2x16x4x8xbf16>
  %36 = iree_tensor_ext.compute_barrier.end %35 : tensor<2x16x4x8xbf16> -> tensor<2x16x4x8xbf16>
  %37 = hal.tensor.export %36 "output0" : tensor<2x16x4x8xbf16> -> !hal.buffer_view
  util.return %37 : !hal.buffer_view
}
