// RUN: %mlirfuse-opt %s --split-input-file --target=rocm --pipeline=flash_attention_fusion_v1 | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline='flash_attention_fusion_v1{any-size=true}' | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=rocm --pipeline=flash_attention_fusion_v1 --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --target=rocm --pipeline=flash_attention_fusion_v2 | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --disable-feature=kernels --pipeline=flash_attention_fusion_v1 --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=CPU
// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan --pipeline=flash_attention_fusion_v1 --enable-pass=flash_attention_fusion_v1 --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=VULKAN
// OFF-NOT: flow.dispatch.region
// CPU-LABEL: @torch_sdpa_boolean_mask
// CPU: groups (0)
// CPU: kernels are off
// VULKAN-LABEL: @torch_sdpa_boolean_mask
// VULKAN: groups (0)
// VULKAN: target_unsupported

// PyTorch: F.scaled_dot_product_attention(q, k, v, attn_mask=mask) with a boolean mask, f32, through
// torch.export, run_decompositions, and iree-compile --iree-input-type=torch
// --compile-to=global-optimization. Rows that the mask closes throughout are zero.
// CHECK: #[[QM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4)>
// CHECK: #[[KM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d5, d4)>
// CHECK: #[[VM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d5, d3)>
// CHECK: #[[NONE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> ()>
// CHECK: #[[MM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d5)>
// CHECK: #[[OM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3)>
// CHECK-LABEL: @torch_sdpa_boolean_mask
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x16x8xf32>, %[[K:.*]]: tensor<2x4x24x8xf32>, %[[V:.*]]: tensor<2x4x24x8xf32>, %[[MASK:.*]]: tensor<2x1x16x24xi1>
// CHECK: %[[KEEP:.*]] = tensor.collapse_shape %[[MASK]]
// CHECK: %[[CLOSED:.*]] = linalg.generic {{.*}} ["parallel", "parallel", "reduction"]} ins(%[[KEEP]] :
// CHECK: arith.xori
// CHECK: arith.andi
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[SCALE:.*]] = arith.constant 0.353553
// CHECK: %[[A:.*]] = iree_linalg_ext.attention <indexing_maps = [#[[QM]], #[[KM]], #[[VM]], #[[NONE]], #[[MM]], #[[OM]]]>
// CHECK-SAME: ins(%[[Q]], %[[K]], %[[V]], %[[SCALE]], %[[KEEP]] :
// CHECK: %[[Z:.*]] = linalg.generic {{.*}} ins(%[[CLOSED]], %[[A]] :
// CHECK: ^bb0(%[[C:.*]]: i1, %[[X:.*]]: f32,
// CHECK: %[[ZERO:.*]] = arith.constant 0.0
// CHECK: arith.select %[[C]], %[[ZERO]], %[[X]]
// CHECK: flow.return %[[Z]]
// CHECK: tensor.collapse_shape %[[R]]
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> ()>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3, d2)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
func.func @torch_sdpa_boolean_mask(%arg0: tensor<2x4x16x8xf32>, %arg1: tensor<2x4x24x8xf32>, %arg2: tensor<2x4x24x8xf32>, %arg3: tensor<2x1x16x24xi1>) -> tensor<2x4x16x8xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 0xFF800000 : f32
  %false = arith.constant false
  %cst_1 = arith.constant dense<0.000000e+00> : tensor<2x4x16x24xf32>
  %cst_2 = arith.constant 0.594603539 : f32
  %cst_3 = arith.constant dense<0xFF800000> : tensor<f32>
  %cst_4 = arith.constant dense<0.000000e+00> : tensor<f32>
  %collapsed = tensor.collapse_shape %arg3 [[0, 1], [2], [3]] : tensor<2x1x16x24xi1> into tensor<2x16x24xi1>
  %0 = tensor.empty() : tensor<2x16x24xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map1, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed, %cst_4, %cst_3 : tensor<2x16x24xi1>, tensor<f32>, tensor<f32>) outs(%0 : tensor<2x16x24xf32>) {
  ^bb0(%in: i1, %in_10: f32, %in_11: f32, %out: f32):
    %25 = arith.select %in, %in_10, %in_11 : f32
    linalg.yield %25 : f32
  } -> tensor<2x16x24xf32>
  %2 = tensor.empty() : tensor<2x4x16x8xf32>
  %3 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<2x4x16x8xf32>) outs(%2 : tensor<2x4x16x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %25 = arith.mulf %in, %cst_2 : f32
    linalg.yield %25 : f32
  } -> tensor<2x4x16x8xf32>
  %4 = tensor.empty() : tensor<2x4x24x8xf32>
  %5 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg1 : tensor<2x4x24x8xf32>) outs(%4 : tensor<2x4x24x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %25 = arith.mulf %in, %cst_2 : f32
    linalg.yield %25 : f32
  } -> tensor<2x4x24x8xf32>
  %6 = tensor.empty() : tensor<2x4x8x24xf32>
  %7 = linalg.generic {indexing_maps = [#map3, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%5 : tensor<2x4x24x8xf32>) outs(%6 : tensor<2x4x8x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x8x24xf32>
  %collapsed_5 = tensor.collapse_shape %3 [[0, 1], [2], [3]] : tensor<2x4x16x8xf32> into tensor<8x16x8xf32>
  %collapsed_6 = tensor.collapse_shape %7 [[0, 1], [2], [3]] : tensor<2x4x8x24xf32> into tensor<8x8x24xf32>
  %8 = tensor.empty() : tensor<8x16x24xf32>
  %9 = linalg.fill ins(%cst : f32) outs(%8 : tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %10 = linalg.batch_matmul ins(%collapsed_5, %collapsed_6 : tensor<8x16x8xf32>, tensor<8x8x24xf32>) outs(%9 : tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %expanded = tensor.expand_shape %10 [[0, 1], [2], [3]] output_shape [2, 4, 16, 24] : tensor<8x16x24xf32> into tensor<2x4x16x24xf32>
  %11 = tensor.empty() : tensor<2x4x16x24xf32>
  %12 = linalg.generic {indexing_maps = [#map2, #map4, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded, %1 : tensor<2x4x16x24xf32>, tensor<2x16x24xf32>) outs(%11 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: f32, %in_10: f32, %out: f32):
    %25 = arith.addf %in, %in_10 : f32
    linalg.yield %25 : f32
  } -> tensor<2x4x16x24xf32>
  %13 = linalg.softmax dimension(3) ins(%12 : tensor<2x4x16x24xf32>) outs(%11 : tensor<2x4x16x24xf32>) -> tensor<2x4x16x24xf32>
  %14 = tensor.empty() : tensor<2x4x16x24xi1>
  %15 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%12 : tensor<2x4x16x24xf32>) outs(%14 : tensor<2x4x16x24xi1>) {
  ^bb0(%in: f32, %out: i1):
    %25 = arith.cmpf oeq, %in, %cst_0 : f32
    linalg.yield %25 : i1
  } -> tensor<2x4x16x24xi1>
  %16 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%15 : tensor<2x4x16x24xi1>) outs(%14 : tensor<2x4x16x24xi1>) {
  ^bb0(%in: i1, %out: i1):
    %25 = arith.cmpi eq, %in, %false : i1
    linalg.yield %25 : i1
  } -> tensor<2x4x16x24xi1>
  %17 = tensor.empty() : tensor<2x4x16xi1>
  %18 = linalg.fill ins(%false : i1) outs(%17 : tensor<2x4x16xi1>) -> tensor<2x4x16xi1>
  %19 = linalg.generic {indexing_maps = [#map2, #map5], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%16 : tensor<2x4x16x24xi1>) outs(%18 : tensor<2x4x16xi1>) {
  ^bb0(%in: i1, %out: i1):
    %25 = arith.ori %in, %out : i1
    linalg.yield %25 : i1
  } -> tensor<2x4x16xi1>
  %20 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%19 : tensor<2x4x16xi1>) outs(%17 : tensor<2x4x16xi1>) {
  ^bb0(%in: i1, %out: i1):
    %25 = arith.cmpi eq, %in, %false : i1
    linalg.yield %25 : i1
  } -> tensor<2x4x16xi1>
  %21 = linalg.generic {indexing_maps = [#map5, #map2, #map2, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%20, %cst_1, %13 : tensor<2x4x16xi1>, tensor<2x4x16x24xf32>, tensor<2x4x16x24xf32>) outs(%11 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: i1, %in_10: f32, %in_11: f32, %out: f32):
    %25 = arith.select %in, %in_10, %in_11 : f32
    linalg.yield %25 : f32
  } -> tensor<2x4x16x24xf32>
  %collapsed_7 = tensor.collapse_shape %21 [[0, 1], [2], [3]] : tensor<2x4x16x24xf32> into tensor<8x16x24xf32>
  %collapsed_8 = tensor.collapse_shape %arg2 [[0, 1], [2], [3]] : tensor<2x4x24x8xf32> into tensor<8x24x8xf32>
  %22 = tensor.empty() : tensor<8x16x8xf32>
  %23 = linalg.fill ins(%cst : f32) outs(%22 : tensor<8x16x8xf32>) -> tensor<8x16x8xf32>
  %24 = linalg.batch_matmul ins(%collapsed_7, %collapsed_8 : tensor<8x16x24xf32>, tensor<8x24x8xf32>) outs(%23 : tensor<8x16x8xf32>) -> tensor<8x16x8xf32>
  %expanded_9 = tensor.expand_shape %24 [[0, 1], [2], [3]] output_shape [2, 4, 16, 8] : tensor<8x16x8xf32> into tensor<2x4x16x8xf32>
  return %expanded_9 : tensor<2x4x16x8xf32>
}

// -----

// PyTorch: F.scaled_dot_product_attention(q, k, v, is_causal=True). IREE hoists a part of the mask
// into a global; the group computes it from indices. Every query keeps the first key, so that no row
// is zero.
// CHECK: #[[QM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4)>
// CHECK: #[[KM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d5, d4)>
// CHECK: #[[VM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d5, d3)>
// CHECK: #[[NONE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> ()>
// CHECK: #[[MM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d2, d5)>
// CHECK: #[[OM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3)>
// CHECK-LABEL: @torch_sdpa_causal
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x16x8xf32>, %[[K:.*]]: tensor<2x4x24x8xf32>, %[[V:.*]]: tensor<2x4x24x8xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[KEEP:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<16x24xi1>)
// CHECK: %[[J:.*]] = linalg.index 1
// CHECK: %[[J64:.*]] = arith.index_cast %[[J]]
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK: %[[I64:.*]] = arith.index_cast %[[I]]
// CHECK: %[[D:.*]] = arith.subi %[[J64]], %[[I64]]
// CHECK: arith.cmpi sle, %[[D]]
// CHECK: %[[A:.*]] = iree_linalg_ext.attention <indexing_maps = [#[[QM]], #[[KM]], #[[VM]], #[[NONE]], #[[MM]], #[[OM]]]>
// CHECK-SAME: ins(%[[Q]], %[[K]], %[[V]], %{{.*}}, %[[KEEP]] :
// CHECK: flow.return %[[A]]
#map = affine_map<(d0) -> (d0)>
#map1 = affine_map<(d0, d1) -> (d1)>
#map2 = affine_map<(d0, d1) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d0, d1)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map5 = affine_map<(d0, d1) -> ()>
#map6 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3, d2)>
#map7 = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
#map8 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map9 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
util.global private @__hoisted_tensor_16x24xi64 : tensor<16x24xi64>
util.initializer {
  %0 = tensor.empty() : tensor<24xi64>
  %1 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%0 : tensor<24xi64>) {
  ^bb0(%out: i64):
    %6 = linalg.index 0 : index
    %7 = arith.index_cast %6 : index to i64
    linalg.yield %7 : i64
  } -> tensor<24xi64>
  %2 = tensor.empty() : tensor<16xi64>
  %3 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%2 : tensor<16xi64>) {
  ^bb0(%out: i64):
    %6 = linalg.index 0 : index
    %7 = arith.index_cast %6 : index to i64
    linalg.yield %7 : i64
  } -> tensor<16xi64>
  %4 = tensor.empty() : tensor<16x24xi64>
  %5 = linalg.generic {indexing_maps = [#map1, #map2, #map3], iterator_types = ["parallel", "parallel"]} ins(%1, %3 : tensor<24xi64>, tensor<16xi64>) outs(%4 : tensor<16x24xi64>) {
  ^bb0(%in: i64, %in_0: i64, %out: i64):
    %6 = arith.subi %in, %in_0 : i64
    linalg.yield %6 : i64
  } -> tensor<16x24xi64>
  util.global.store %5, @__hoisted_tensor_16x24xi64 : tensor<16x24xi64>
  util.return
}
func.func @torch_sdpa_causal(%arg0: tensor<2x4x16x8xf32>, %arg1: tensor<2x4x24x8xf32>, %arg2: tensor<2x4x24x8xf32>) -> tensor<2x4x16x8xf32> {
  %c0_i64 = arith.constant 0 : i64
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 0xFF800000 : f32
  %false = arith.constant false
  %cst_1 = arith.constant dense<0.000000e+00> : tensor<2x4x16x24xf32>
  %cst_2 = arith.constant dense<0.000000e+00> : tensor<f32>
  %cst_3 = arith.constant dense<0xFF800000> : tensor<f32>
  %cst_4 = arith.constant dense<true> : tensor<16x24xi1>
  %cst_5 = arith.constant 0.594603539 : f32
  %0 = tensor.empty() : tensor<2x4x16x8xf32>
  %1 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<2x4x16x8xf32>) outs(%0 : tensor<2x4x16x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %28 = arith.mulf %in, %cst_5 : f32
    linalg.yield %28 : f32
  } -> tensor<2x4x16x8xf32>
  %__hoisted_tensor_16x24xi64 = util.global.load immutable @__hoisted_tensor_16x24xi64 : tensor<16x24xi64>
  %2 = tensor.empty() : tensor<16x24xi1>
  %3 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%__hoisted_tensor_16x24xi64 : tensor<16x24xi64>) outs(%2 : tensor<16x24xi1>) {
  ^bb0(%in: i64, %out: i1):
    %28 = arith.cmpi sle, %in, %c0_i64 : i64
    linalg.yield %28 : i1
  } -> tensor<16x24xi1>
  %4 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%3, %cst_4 : tensor<16x24xi1>, tensor<16x24xi1>) outs(%2 : tensor<16x24xi1>) {
  ^bb0(%in: i1, %in_10: i1, %out: i1):
    %28 = arith.andi %in, %in_10 : i1
    linalg.yield %28 : i1
  } -> tensor<16x24xi1>
  %5 = tensor.empty() : tensor<16x24xf32>
  %6 = linalg.generic {indexing_maps = [#map3, #map5, #map5, #map3], iterator_types = ["parallel", "parallel"]} ins(%4, %cst_2, %cst_3 : tensor<16x24xi1>, tensor<f32>, tensor<f32>) outs(%5 : tensor<16x24xf32>) {
  ^bb0(%in: i1, %in_10: f32, %in_11: f32, %out: f32):
    %28 = arith.select %in, %in_10, %in_11 : f32
    linalg.yield %28 : f32
  } -> tensor<16x24xf32>
  %7 = tensor.empty() : tensor<2x4x24x8xf32>
  %8 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg1 : tensor<2x4x24x8xf32>) outs(%7 : tensor<2x4x24x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %28 = arith.mulf %in, %cst_5 : f32
    linalg.yield %28 : f32
  } -> tensor<2x4x24x8xf32>
  %9 = tensor.empty() : tensor<2x4x8x24xf32>
  %10 = linalg.generic {indexing_maps = [#map6, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%8 : tensor<2x4x24x8xf32>) outs(%9 : tensor<2x4x8x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x8x24xf32>
  %collapsed = tensor.collapse_shape %1 [[0, 1], [2], [3]] : tensor<2x4x16x8xf32> into tensor<8x16x8xf32>
  %collapsed_6 = tensor.collapse_shape %10 [[0, 1], [2], [3]] : tensor<2x4x8x24xf32> into tensor<8x8x24xf32>
  %11 = tensor.empty() : tensor<8x16x24xf32>
  %12 = linalg.fill ins(%cst : f32) outs(%11 : tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %13 = linalg.batch_matmul ins(%collapsed, %collapsed_6 : tensor<8x16x8xf32>, tensor<8x8x24xf32>) outs(%12 : tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %expanded = tensor.expand_shape %13 [[0, 1], [2], [3]] output_shape [2, 4, 16, 24] : tensor<8x16x24xf32> into tensor<2x4x16x24xf32>
  %14 = tensor.empty() : tensor<2x4x16x24xf32>
  %15 = linalg.generic {indexing_maps = [#map4, #map7, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded, %6 : tensor<2x4x16x24xf32>, tensor<16x24xf32>) outs(%14 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: f32, %in_10: f32, %out: f32):
    %28 = arith.addf %in, %in_10 : f32
    linalg.yield %28 : f32
  } -> tensor<2x4x16x24xf32>
  %16 = linalg.softmax dimension(3) ins(%15 : tensor<2x4x16x24xf32>) outs(%14 : tensor<2x4x16x24xf32>) -> tensor<2x4x16x24xf32>
  %17 = tensor.empty() : tensor<2x4x16x24xi1>
  %18 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%15 : tensor<2x4x16x24xf32>) outs(%17 : tensor<2x4x16x24xi1>) {
  ^bb0(%in: f32, %out: i1):
    %28 = arith.cmpf oeq, %in, %cst_0 : f32
    linalg.yield %28 : i1
  } -> tensor<2x4x16x24xi1>
  %19 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%18 : tensor<2x4x16x24xi1>) outs(%17 : tensor<2x4x16x24xi1>) {
  ^bb0(%in: i1, %out: i1):
    %28 = arith.cmpi eq, %in, %false : i1
    linalg.yield %28 : i1
  } -> tensor<2x4x16x24xi1>
  %20 = tensor.empty() : tensor<2x4x16xi1>
  %21 = linalg.fill ins(%false : i1) outs(%20 : tensor<2x4x16xi1>) -> tensor<2x4x16xi1>
  %22 = linalg.generic {indexing_maps = [#map4, #map8], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%19 : tensor<2x4x16x24xi1>) outs(%21 : tensor<2x4x16xi1>) {
  ^bb0(%in: i1, %out: i1):
    %28 = arith.ori %in, %out : i1
    linalg.yield %28 : i1
  } -> tensor<2x4x16xi1>
  %23 = linalg.generic {indexing_maps = [#map9, #map9], iterator_types = ["parallel", "parallel", "parallel"]} ins(%22 : tensor<2x4x16xi1>) outs(%20 : tensor<2x4x16xi1>) {
  ^bb0(%in: i1, %out: i1):
    %28 = arith.cmpi eq, %in, %false : i1
    linalg.yield %28 : i1
  } -> tensor<2x4x16xi1>
  %24 = linalg.generic {indexing_maps = [#map8, #map4, #map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%23, %cst_1, %16 : tensor<2x4x16xi1>, tensor<2x4x16x24xf32>, tensor<2x4x16x24xf32>) outs(%14 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: i1, %in_10: f32, %in_11: f32, %out: f32):
    %28 = arith.select %in, %in_10, %in_11 : f32
    linalg.yield %28 : f32
  } -> tensor<2x4x16x24xf32>
  %collapsed_7 = tensor.collapse_shape %24 [[0, 1], [2], [3]] : tensor<2x4x16x24xf32> into tensor<8x16x24xf32>
  %collapsed_8 = tensor.collapse_shape %arg2 [[0, 1], [2], [3]] : tensor<2x4x24x8xf32> into tensor<8x24x8xf32>
  %25 = tensor.empty() : tensor<8x16x8xf32>
  %26 = linalg.fill ins(%cst : f32) outs(%25 : tensor<8x16x8xf32>) -> tensor<8x16x8xf32>
  %27 = linalg.batch_matmul ins(%collapsed_7, %collapsed_8 : tensor<8x16x24xf32>, tensor<8x24x8xf32>) outs(%26 : tensor<8x16x8xf32>) -> tensor<8x16x8xf32>
  %expanded_9 = tensor.expand_shape %27 [[0, 1], [2], [3]] output_shape [2, 4, 16, 8] : tensor<8x16x8xf32> into tensor<2x4x16x8xf32>
  return %expanded_9 : tensor<2x4x16x8xf32>
}

// -----

// JAX: jax.nn.dot_product_attention(q, k, v, mask=mask). Masked scores are -2.38e38, which would be
// -inf after the attention op's factor log2(e), and a row of them NaN instead of the mean of v.
// CHECK: #[[QM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d1, d4)>
// CHECK: #[[KM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d5, d1, d4)>
// CHECK: #[[VM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d5, d1, d3)>
// CHECK: #[[NONE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> ()>
// CHECK: #[[MM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d5)>
// CHECK: #[[OM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d1, d3)>
// CHECK-LABEL: @jax_dot_product_attention_mask
// CHECK-SAME: %[[MASK:arg3]]: tensor<2x1x16x24xi1>
// CHECK: %[[READ:.*]] = tensor.collapse_shape %[[MASK]]
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%[[READ]] : tensor<2x16x24xi1>) outs(%{{.*}} : tensor<2x16x24xf32>)
// CHECK: ^bb0(%[[B:.*]]: i1,
// CHECK: %[[ZERO:.*]] = arith.constant 0.0
// CHECK: %[[LOW:.*]] = arith.constant -1.000000e+30
// CHECK: arith.select %[[B]], %[[ZERO]], %[[LOW]]
// CHECK: iree_linalg_ext.attention <indexing_maps = [#[[QM]], #[[KM]], #[[VM]], #[[NONE]], #[[MM]], #[[OM]]]>
// CHECK-SAME: ins(%arg0, %arg1, %arg2, %{{.*}}, %[[M]] :
// CHECK: return %[[R]]
#map = affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d3, d1, d2)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
#map4 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4, d3)>
#map5 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#map6 = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3, d1)>
func.func @jax_dot_product_attention_mask(%arg0: tensor<2x16x4x8xf32>, %arg1: tensor<2x24x4x8xf32>, %arg2: tensor<2x24x4x8xf32>, %arg3: tensor<2x1x16x24xi1>) -> tensor<2x16x4x8xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 0.353553385 : f32
  %cst_1 = arith.constant -2.38197633E+38 : f32
  %collapsed = tensor.collapse_shape %arg3 [[0, 1], [2], [3]] : tensor<2x1x16x24xi1> into tensor<2x16x24xi1>
  %0 = tensor.empty() : tensor<2x4x16x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<2x16x4x8xf32>) outs(%0 : tensor<2x4x16x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x16x8xf32>
  %2 = tensor.empty() : tensor<2x4x8x24xf32>
  %3 = linalg.generic {indexing_maps = [#map2, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg1 : tensor<2x24x4x8xf32>) outs(%2 : tensor<2x4x8x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x8x24xf32>
  %collapsed_2 = tensor.collapse_shape %1 [[0, 1], [2], [3]] : tensor<2x4x16x8xf32> into tensor<8x16x8xf32>
  %collapsed_3 = tensor.collapse_shape %3 [[0, 1], [2], [3]] : tensor<2x4x8x24xf32> into tensor<8x8x24xf32>
  %4 = tensor.empty() : tensor<8x16x24xf32>
  %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %6 = linalg.batch_matmul ins(%collapsed_2, %collapsed_3 : tensor<8x16x8xf32>, tensor<8x8x24xf32>) outs(%5 : tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %expanded = tensor.expand_shape %6 [[0, 1], [2], [3]] output_shape [2, 4, 16, 24] : tensor<8x16x24xf32> into tensor<2x4x16x24xf32>
  %7 = tensor.empty() : tensor<2x4x16x24xf32>
  %8 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded : tensor<2x4x16x24xf32>) outs(%7 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.mulf %in, %cst_0 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x16x24xf32>
  %9 = tensor.empty() : tensor<2x4x16x24xi1>
  %10 = linalg.generic {indexing_maps = [#map3, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%collapsed : tensor<2x16x24xi1>) outs(%9 : tensor<2x4x16x24xi1>) {
  ^bb0(%in: i1, %out: i1):
    linalg.yield %in : i1
  } -> tensor<2x4x16x24xi1>
  %11 = tensor.empty() : tensor<1x2x4x16x24xf32>
  %12 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%10, %8 : tensor<2x4x16x24xi1>, tensor<2x4x16x24xf32>) outs(%7 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: i1, %in_8: f32, %out: f32):
    %22 = arith.select %in, %in_8, %cst_1 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x16x24xf32>
  %expanded_4 = tensor.expand_shape %12 [[0, 1], [2], [3], [4]] output_shape [1, 2, 4, 16, 24] : tensor<2x4x16x24xf32> into tensor<1x2x4x16x24xf32>
  %13 = linalg.softmax dimension(4) ins(%expanded_4 : tensor<1x2x4x16x24xf32>) outs(%11 : tensor<1x2x4x16x24xf32>) -> tensor<1x2x4x16x24xf32>
  %14 = linalg.generic {indexing_maps = [#map2, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg2 : tensor<2x24x4x8xf32>) outs(%2 : tensor<2x4x8x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x8x24xf32>
  %15 = tensor.empty() : tensor<1x2x4x24x16xf32>
  %16 = linalg.generic {indexing_maps = [#map4, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%13 : tensor<1x2x4x16x24xf32>) outs(%15 : tensor<1x2x4x24x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<1x2x4x24x16xf32>
  %collapsed_5 = tensor.collapse_shape %14 [[0, 1], [2], [3]] : tensor<2x4x8x24xf32> into tensor<8x8x24xf32>
  %collapsed_6 = tensor.collapse_shape %16 [[0, 1, 2], [3], [4]] : tensor<1x2x4x24x16xf32> into tensor<8x24x16xf32>
  %17 = tensor.empty() : tensor<8x8x16xf32>
  %18 = linalg.fill ins(%cst : f32) outs(%17 : tensor<8x8x16xf32>) -> tensor<8x8x16xf32>
  %19 = linalg.batch_matmul ins(%collapsed_5, %collapsed_6 : tensor<8x8x24xf32>, tensor<8x24x16xf32>) outs(%18 : tensor<8x8x16xf32>) -> tensor<8x8x16xf32>
  %expanded_7 = tensor.expand_shape %19 [[0, 1], [2], [3]] output_shape [2, 4, 8, 16] : tensor<8x8x16xf32> into tensor<2x4x8x16xf32>
  %20 = tensor.empty() : tensor<2x16x4x8xf32>
  %21 = linalg.generic {indexing_maps = [#map6, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_7 : tensor<2x4x8x16xf32>) outs(%20 : tensor<2x16x4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x16x4x8xf32>
  return %21 : tensor<2x16x4x8xf32>
}

// -----

// PyTorch, as transformers' eager attention: torch.matmul(q, k^T) * 0.25 + mask, torch.softmax(...,
// dtype=torch.float32).to(f16), torch.matmul with v, transpose; all f16. A mask in f16 has no number
// that log2(e) takes to -inf: it is read as it is.
// CHECK: #[[QM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4)>
// CHECK: #[[KM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d5, d4)>
// CHECK: #[[VM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d5, d3)>
// CHECK: #[[NONE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> ()>
// CHECK: #[[MM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d5)>
// CHECK: #[[OM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d1, d3)>
// CHECK-LABEL: @transformers_eager_f16
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x16x8xf16>, %[[K:.*]]: tensor<2x4x24x8xf16>, %[[V:.*]]: tensor<2x4x24x8xf16>, %[[MASK:.*]]: tensor<2x1x16x24xf16>
// CHECK: %[[READ:.*]] = tensor.collapse_shape %[[MASK]]
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x16x4x8xf16>)
// CHECK: %[[LN2:.*]] = arith.constant 0.693147182
// CHECK: %[[A:.*]] = iree_linalg_ext.attention <indexing_maps = [#[[QM]], #[[KM]], #[[VM]], #[[NONE]], #[[MM]], #[[OM]]]>
// CHECK-SAME: ins(%[[Q]], %[[K]], %[[V]], %[[LN2]], %[[READ]] :
// CHECK: flow.return %[[A]]
// CHECK: return %[[R]]
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3, d2)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>
func.func @transformers_eager_f16(%arg0: tensor<2x4x16x8xf16>, %arg1: tensor<2x4x24x8xf16>, %arg2: tensor<2x4x24x8xf16>, %arg3: tensor<2x1x16x24xf16>) -> tensor<2x16x4x8xf16> {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 2.500000e-01 : f16
  %0 = tensor.empty() : tensor<2x4x8x24xf16>
  %1 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg1 : tensor<2x4x24x8xf16>) outs(%0 : tensor<2x4x8x24xf16>) {
  ^bb0(%in: f16, %out: f16):
    linalg.yield %in : f16
  } -> tensor<2x4x8x24xf16>
  %collapsed = tensor.collapse_shape %arg0 [[0, 1], [2], [3]] : tensor<2x4x16x8xf16> into tensor<8x16x8xf16>
  %collapsed_1 = tensor.collapse_shape %1 [[0, 1], [2], [3]] : tensor<2x4x8x24xf16> into tensor<8x8x24xf16>
  %2 = tensor.empty() : tensor<8x16x24xf32>
  %3 = linalg.fill ins(%cst : f32) outs(%2 : tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %4 = linalg.batch_matmul ins(%collapsed, %collapsed_1 : tensor<8x16x8xf16>, tensor<8x8x24xf16>) outs(%3 : tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %5 = tensor.empty() : tensor<8x16x24xf16>
  %6 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel", "parallel"]} ins(%4 : tensor<8x16x24xf32>) outs(%5 : tensor<8x16x24xf16>) {
  ^bb0(%in: f32, %out: f16):
    %21 = arith.truncf %in : f32 to f16
    linalg.yield %21 : f16
  } -> tensor<8x16x24xf16>
  %expanded = tensor.expand_shape %6 [[0, 1], [2], [3]] output_shape [2, 4, 16, 24] : tensor<8x16x24xf16> into tensor<2x4x16x24xf16>
  %7 = tensor.empty() : tensor<2x4x16x24xf16>
  %8 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded : tensor<2x4x16x24xf16>) outs(%7 : tensor<2x4x16x24xf16>) {
  ^bb0(%in: f16, %out: f16):
    %21 = arith.mulf %in, %cst_0 : f16
    linalg.yield %21 : f16
  } -> tensor<2x4x16x24xf16>
  %collapsed_2 = tensor.collapse_shape %arg3 [[0, 1], [2], [3]] : tensor<2x1x16x24xf16> into tensor<2x16x24xf16>
  %9 = linalg.generic {indexing_maps = [#map1, #map3, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%8, %collapsed_2 : tensor<2x4x16x24xf16>, tensor<2x16x24xf16>) outs(%7 : tensor<2x4x16x24xf16>) {
  ^bb0(%in: f16, %in_6: f16, %out: f16):
    %21 = arith.addf %in, %in_6 : f16
    linalg.yield %21 : f16
  } -> tensor<2x4x16x24xf16>
  %10 = tensor.empty() : tensor<2x4x16x24xf32>
  %11 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%9 : tensor<2x4x16x24xf16>) outs(%10 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: f16, %out: f32):
    %21 = arith.extf %in : f16 to f32
    linalg.yield %21 : f32
  } -> tensor<2x4x16x24xf32>
  %12 = linalg.softmax dimension(3) ins(%11 : tensor<2x4x16x24xf32>) outs(%10 : tensor<2x4x16x24xf32>) -> tensor<2x4x16x24xf32>
  %13 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%12 : tensor<2x4x16x24xf32>) outs(%7 : tensor<2x4x16x24xf16>) {
  ^bb0(%in: f32, %out: f16):
    %21 = arith.truncf %in : f32 to f16
    linalg.yield %21 : f16
  } -> tensor<2x4x16x24xf16>
  %collapsed_3 = tensor.collapse_shape %13 [[0, 1], [2], [3]] : tensor<2x4x16x24xf16> into tensor<8x16x24xf16>
  %collapsed_4 = tensor.collapse_shape %arg2 [[0, 1], [2], [3]] : tensor<2x4x24x8xf16> into tensor<8x24x8xf16>
  %14 = tensor.empty() : tensor<8x16x8xf32>
  %15 = linalg.fill ins(%cst : f32) outs(%14 : tensor<8x16x8xf32>) -> tensor<8x16x8xf32>
  %16 = linalg.batch_matmul ins(%collapsed_3, %collapsed_4 : tensor<8x16x24xf16>, tensor<8x24x8xf16>) outs(%15 : tensor<8x16x8xf32>) -> tensor<8x16x8xf32>
  %expanded_5 = tensor.expand_shape %16 [[0, 1], [2], [3]] output_shape [2, 4, 16, 8] : tensor<8x16x8xf32> into tensor<2x4x16x8xf32>
  %17 = tensor.empty() : tensor<2x4x16x8xf16>
  %18 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_5 : tensor<2x4x16x8xf32>) outs(%17 : tensor<2x4x16x8xf16>) {
  ^bb0(%in: f32, %out: f16):
    %21 = arith.truncf %in : f32 to f16
    linalg.yield %21 : f16
  } -> tensor<2x4x16x8xf16>
  %19 = tensor.empty() : tensor<2x16x4x8xf16>
  %20 = linalg.generic {indexing_maps = [#map4, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%18 : tensor<2x4x16x8xf16>) outs(%19 : tensor<2x16x4x8xf16>) {
  ^bb0(%in: f16, %out: f16):
    linalg.yield %in : f16
  } -> tensor<2x16x4x8xf16>
  return %20 : tensor<2x16x4x8xf16>
}

// -----

// ONNX: Transpose, MatMul, Div by 2.5, Add of a padding mask, Softmax, MatMul, Transpose, opset 17. An
// f32 mask may hold the lowest number of f32: finite numbers are clamped, -inf is kept.
// CHECK: #[[QM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4)>
// CHECK: #[[KM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d5, d4)>
// CHECK: #[[VM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d5, d3)>
// CHECK: #[[NONE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> ()>
// CHECK: #[[MM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d5)>
// CHECK: #[[OM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d1, d3)>
// CHECK-LABEL: @onnx_additive_mask
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x16x8xf32>, %[[K:.*]]: tensor<2x4x24x8xf32>, %[[V:.*]]: tensor<2x4x24x8xf32>, %[[MASK:.*]]: tensor<2x1x1x24xf32>
// CHECK: %[[READ:.*]] = tensor.collapse_shape %[[MASK]]
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%[[READ]] : tensor<2x24xf32>)
// CHECK: ^bb0(%[[B:.*]]: f32,
// CHECK: %[[CLOSED:.*]] = arith.cmpf oeq, %[[B]]
// CHECK: %[[LIMIT:.*]] = arith.constant -2.300000e+38
// CHECK: %[[LIFTED:.*]] = arith.maximumf %[[B]], %[[LIMIT]]
// CHECK: arith.select %[[CLOSED]], %{{.*}}, %[[LIFTED]]
// CHECK: %[[SCALE:.*]] = arith.constant 4.000000e-01
// CHECK: iree_linalg_ext.attention <indexing_maps = [#[[QM]], #[[KM]], #[[VM]], #[[NONE]], #[[MM]], #[[OM]]]>
// CHECK-SAME: ins(%[[Q]], %[[K]], %[[V]], %[[SCALE]], %[[M]] :
// CHECK: return %[[R]]
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3, d2)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map2 = affine_map<(d0, d1, d2, d3) -> ()>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d3)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>
func.func @onnx_additive_mask(%arg0: tensor<2x4x16x8xf32>, %arg1: tensor<2x4x24x8xf32>, %arg2: tensor<2x4x24x8xf32>, %arg3: tensor<2x1x1x24xf32>) -> tensor<2x16x4x8xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant dense<2.500000e+00> : tensor<f32>
  %0 = tensor.empty() : tensor<2x4x8x24xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg1 : tensor<2x4x24x8xf32>) outs(%0 : tensor<2x4x8x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x8x24xf32>
  %collapsed = tensor.collapse_shape %arg0 [[0, 1], [2], [3]] : tensor<2x4x16x8xf32> into tensor<8x16x8xf32>
  %collapsed_1 = tensor.collapse_shape %1 [[0, 1], [2], [3]] : tensor<2x4x8x24xf32> into tensor<8x8x24xf32>
  %2 = tensor.empty() : tensor<8x16x24xf32>
  %3 = linalg.fill ins(%cst : f32) outs(%2 : tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %4 = linalg.batch_matmul ins(%collapsed, %collapsed_1 : tensor<8x16x8xf32>, tensor<8x8x24xf32>) outs(%3 : tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %expanded = tensor.expand_shape %4 [[0, 1], [2], [3]] output_shape [2, 4, 16, 24] : tensor<8x16x24xf32> into tensor<2x4x16x24xf32>
  %5 = tensor.empty() : tensor<2x4x16x24xf32>
  %6 = linalg.generic {indexing_maps = [#map1, #map2, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded, %cst_0 : tensor<2x4x16x24xf32>, tensor<f32>) outs(%5 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: f32, %in_6: f32, %out: f32):
    %14 = arith.divf %in, %in_6 : f32
    linalg.yield %14 : f32
  } -> tensor<2x4x16x24xf32>
  %collapsed_2 = tensor.collapse_shape %arg3 [[0, 1, 2], [3]] : tensor<2x1x1x24xf32> into tensor<2x24xf32>
  %7 = linalg.generic {indexing_maps = [#map1, #map3, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6, %collapsed_2 : tensor<2x4x16x24xf32>, tensor<2x24xf32>) outs(%5 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: f32, %in_6: f32, %out: f32):
    %14 = arith.addf %in, %in_6 : f32
    linalg.yield %14 : f32
  } -> tensor<2x4x16x24xf32>
  %8 = linalg.softmax dimension(3) ins(%7 : tensor<2x4x16x24xf32>) outs(%5 : tensor<2x4x16x24xf32>) -> tensor<2x4x16x24xf32>
  %collapsed_3 = tensor.collapse_shape %8 [[0, 1], [2], [3]] : tensor<2x4x16x24xf32> into tensor<8x16x24xf32>
  %collapsed_4 = tensor.collapse_shape %arg2 [[0, 1], [2], [3]] : tensor<2x4x24x8xf32> into tensor<8x24x8xf32>
  %9 = tensor.empty() : tensor<8x16x8xf32>
  %10 = linalg.fill ins(%cst : f32) outs(%9 : tensor<8x16x8xf32>) -> tensor<8x16x8xf32>
  %11 = linalg.batch_matmul ins(%collapsed_3, %collapsed_4 : tensor<8x16x24xf32>, tensor<8x24x8xf32>) outs(%10 : tensor<8x16x8xf32>) -> tensor<8x16x8xf32>
  %expanded_5 = tensor.expand_shape %11 [[0, 1], [2], [3]] output_shape [2, 4, 16, 8] : tensor<8x16x8xf32> into tensor<2x4x16x8xf32>
  %12 = tensor.empty() : tensor<2x16x4x8xf32>
  %13 = linalg.generic {indexing_maps = [#map4, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_5 : tensor<2x4x16x8xf32>) outs(%12 : tensor<2x16x4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x16x4x8xf32>
  return %13 : tensor<2x16x4x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>
#key = affine_map<(b, m, n) -> (b, n)>

// The mask is computed where the scores are: a query sees its own key and those before it, as far as they
// are real. Scores are scaled after they are masked.
// CHECK-LABEL: @causal_and_padding_in_one_body
// CHECK-SAME: %[[Q:.*]]: tensor<4x16x8xf32>, %[[K:.*]]: tensor<4x8x24xf32>, %[[V:.*]]: tensor<4x24x8xf32>, %[[REAL:.*]]: tensor<4x24xi1>
// CHECK: flow.dispatch.region
// CHECK: %[[KEEP:.*]] = linalg.generic {{.*}} ins(%[[REAL]] : tensor<4x24xi1>) outs(%{{.*}} : tensor<4x16x24xi1>)
// CHECK: ^bb0(%[[B:.*]]: i1,
// CHECK: %[[I:.*]] = linalg.index 1
// CHECK: %[[J:.*]] = linalg.index 2
// CHECK: %[[C:.*]] = arith.cmpi sge, %[[I]], %[[J]]
// CHECK: %[[BOTH:.*]] = arith.andi %[[C]], %[[B]]
// CHECK: linalg.yield %[[BOTH]]
// CHECK: arith.constant 5.000000e-01
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: ins(%[[Q]], %[[K]], %[[V]], %{{.*}}, %[[KEEP]] :
func.func @causal_and_padding_in_one_body(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %real: tensor<4x24xi1>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %half = arith.constant 5.000000e-01 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #key, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk, %real : tensor<4x16x24xf32>, tensor<4x24xi1>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %b1: i1, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi sge, %i, %j : index
    %d = arith.andi %c, %b1 : i1
    %x = arith.select %d, %b0, %low : f32
    %y = arith.mulf %x, %half : f32
    linalg.yield %y : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>
#mn = affine_map<(b, m, n) -> (m, n)>

// A bias, then two selects: all three in one additive mask.
// CHECK-LABEL: @two_masks_and_a_bias
// CHECK-SAME: %[[BIAS:arg3]]: tensor<16x24xf32>, %[[M1:.*]]: tensor<4x16x24xi1>, %[[M2:.*]]: tensor<4x16x24xi1>
// CHECK: flow.dispatch.region
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(
// CHECK: arith.negf
// CHECK: arith.select
// CHECK: arith.select
// CHECK: arith.maximumf
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: ins(%arg0, %arg1, %arg2, %{{.*}}, %[[M]] :
func.func @two_masks_and_a_bias(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %bias: tensor<16x24xf32>, %m1: tensor<4x16x24xi1>, %m2: tensor<4x16x24xi1>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s0 = linalg.generic {indexing_maps = [#id, #mn, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk, %bias : tensor<4x16x24xf32>, tensor<16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %b1: f32, %out: f32):
    %x = arith.subf %b0, %b1 : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %s1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m1, %s0 : tensor<4x16x24xi1>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: i1, %b1: f32, %out: f32):
    %x = arith.select %b0, %b1, %low : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m2, %s1 : tensor<4x16x24xi1>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: i1, %b1: f32, %out: f32):
    %x = arith.select %b0, %low, %b1 : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// transformers' extended masks: the lowest number of f32, which log2(e) would take to -inf. It is known,
// so the group adds another number that no score survives, and tests nothing.
// CHECK-LABEL: @lowest_number_added_where_masked
// CHECK-SAME: %[[MASK:arg3]]: tensor<4x16x24xi1>
// CHECK: flow.dispatch.region
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%[[MASK]] : tensor<4x16x24xi1>)
// CHECK: %[[LOW:.*]] = arith.constant -1.000000e+30
// CHECK: %[[X:.*]] = arith.select %{{.*}}, %{{.*}}, %[[LOW]]
// CHECK: linalg.yield %[[X]]
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: ins(%arg0, %arg1, %arg2, %{{.*}}, %[[M]] :
func.func @lowest_number_added_where_masked(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %m: tensor<4x16x24xi1>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF7FFFFF : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %me = tensor.empty() : tensor<4x16x24xf32>
  %mask = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m : tensor<4x16x24xi1>) outs(%me : tensor<4x16x24xf32>) {
  ^bb0(%b0: i1, %out: f32):
    %x = arith.select %b0, %zero, %low : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk, %mask : tensor<4x16x24xf32>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %b1: f32, %out: f32):
    %x = arith.addf %b0, %b1 : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// The rest of the row is masked by a value above -inf.
// CHECK-LABEL: @no_fusion_fill_is_plus_infinity
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_fill_is_plus_infinity
// WHY: constant_unverified
// WHY: masked scores are set to inf
func.func @no_fusion_fill_is_plus_infinity(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %m: tensor<4x16x24xi1>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant 0x7F800000 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m, %qk : tensor<4x16x24xi1>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: i1, %b1: f32, %out: f32):
    %x = arith.select %b0, %b1, %c : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// -10000 rounded to bf16.
// CHECK-LABEL: @fill_of_bf16
// CHECK: flow.dispatch.region
// CHECK: iree_linalg_ext.attention
func.func @fill_of_bf16(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %m: tensor<4x16x24xi1>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant -9984.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m, %qk : tensor<4x16x24xi1>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: i1, %b1: f32, %out: f32):
    %x = arith.select %b0, %b1, %c : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// A score of -100 is low, not masked: its weight can be the largest.
// CHECK-LABEL: @no_fusion_fill_does_not_mask
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_fill_does_not_mask
// WHY: constant_unverified
// WHY: masked scores are set to -100; -inf or at most -9984 masks
func.func @no_fusion_fill_does_not_mask(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %m: tensor<4x16x24xi1>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant -1.0e+02 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m, %qk : tensor<4x16x24xi1>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: i1, %b1: f32, %out: f32):
    %x = arith.select %b0, %b1, %c : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// Masked with -20000, then multiplied by 0.1.
// CHECK-LABEL: @no_fusion_fill_scaled_up_to_a_score
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_fill_scaled_up_to_a_score
// WHY: constant_unverified
// WHY: masked scores are set to -2000
func.func @no_fusion_fill_scaled_up_to_a_score(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %m: tensor<4x16x24xi1>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant -2.0e+04 : f32
  %tenth = arith.constant 0.1 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m, %qk : tensor<4x16x24xi1>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: i1, %b1: f32, %out: f32):
    %x = arith.select %b0, %b1, %c : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s0 : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %out: f32):
    %x = arith.mulf %b0, %tenth : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// Scores are replaced by others, not masked.
// CHECK-LABEL: @no_fusion_fill_is_a_tensor
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_fill_is_a_tensor
// WHY: constant_unverified
// WHY: a value that is not constant
func.func @no_fusion_fill_is_a_tensor(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %m: tensor<4x16x24xi1>, %t: tensor<4x16x24xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m, %qk, %t : tensor<4x16x24xi1>, tensor<4x16x24xf32>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: i1, %b1: f32, %b2: f32, %out: f32):
    %x = arith.select %b0, %b1, %b2 : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// A row of both keeps the keys with the higher fill, which one additive mask does not tell apart.
// CHECK-LABEL: @no_fusion_two_finite_fills
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_two_finite_fills
// WHY: structure
// WHY: one select sets scores to -10000, another to -1e+09
func.func @no_fusion_two_finite_fills(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %m: tensor<4x16x24xi1>, %m2: tensor<4x16x24xi1>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant -1.0e+04 : f32
  %c2 = arith.constant -1.0e+09 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m, %qk : tensor<4x16x24xi1>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: i1, %b1: f32, %out: f32):
    %x = arith.select %b0, %b1, %c : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m2, %s0 : tensor<4x16x24xi1>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: i1, %b1: f32, %out: f32):
    %x = arith.select %b0, %b1, %c2 : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// In a row that is masked throughout, the bias alone decides.
// CHECK-LABEL: @no_fusion_bias_after_a_finite_fill
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_bias_after_a_finite_fill
// WHY: structure
// WHY: a mask is added to scores that a select set to -1e+09
func.func @no_fusion_bias_after_a_finite_fill(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %m: tensor<4x16x24xi1>, %t: tensor<4x16x24xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant -1.0e+09 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m, %qk : tensor<4x16x24xi1>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: i1, %b1: f32, %out: f32):
    %x = arith.select %b0, %b1, %c : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s0, %t : tensor<4x16x24xf32>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %b1: f32, %out: f32):
    %x = arith.addf %b0, %b1 : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>
#mrow = affine_map<(b, m, n) -> (b, m)>

// The mask is the same for all keys of a row: it masks nothing.
// CHECK-LABEL: @no_fusion_mask_of_rows
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_mask_of_rows
// WHY: wrong_axis
// WHY: the mask does not vary with the keys
func.func @no_fusion_mask_of_rows(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %t: tensor<4x16xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #mrow, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk, %t : tensor<4x16x24xf32>, tensor<4x16xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %b1: f32, %out: f32):
    %x = arith.addf %b0, %b1 : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// -inf becomes inf.
// CHECK-LABEL: @no_fusion_masked_scores_times_a_negative
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_masked_scores_times_a_negative
// WHY: structure
// WHY: the masked scores are multiplied by -1
func.func @no_fusion_masked_scores_times_a_negative(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %m: tensor<4x16x24xi1>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %c = arith.constant -1.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m, %qk : tensor<4x16x24xi1>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: i1, %b1: f32, %out: f32):
    %x = arith.select %b0, %b1, %low : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s0 : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %out: f32):
    %x = arith.mulf %b0, %c : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// Scores below zero are dropped: the mask is computed from values that the group would not write.
// CHECK-LABEL: @no_fusion_mask_depends_on_the_scores
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_mask_depends_on_the_scores
// WHY: structure
// WHY: the mask depends on the scores
func.func @no_fusion_mask_depends_on_the_scores(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %me = tensor.empty() : tensor<4x16x24xi1>
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %m = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk : tensor<4x16x24xf32>) outs(%me : tensor<4x16x24xi1>) {
  ^bb0(%b0: f32, %out: i1):
    %x = arith.cmpf oge, %b0, %zero : f32
    linalg.yield %x : i1
  } -> tensor<4x16x24xi1>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m, %qk : tensor<4x16x24xi1>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: i1, %b1: f32, %out: f32):
    %x = arith.select %b0, %b1, %low : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// The body of the op that masks reads a table.
// CHECK-LABEL: @no_fusion_mask_is_looked_up
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_mask_is_looked_up
// WHY: structure
// WHY: the mask cannot be computed in the group
func.func @no_fusion_mask_is_looked_up(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %table: tensor<64xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %out: f32):
    %j = linalg.index 2 : index
    %t = tensor.extract %table[%j] : tensor<64xf32>
    %x = arith.addf %b0, %t : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>
#blk = affine_map<(b, m, n, i) -> (b, m, n)>
#all = affine_map<(b, m, n, i) -> (b, m, n, i)>

// The mask is per block of keys: the keys would be two dimensions.
// CHECK-LABEL: @no_fusion_mask_splits_the_keys
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_mask_splits_the_keys
// WHY: indexing_map
// WHY: 2 dimensions in place of one
func.func @no_fusion_mask_splits_the_keys(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %blocks: tensor<4x16x4xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %be = tensor.empty() : tensor<4x16x4x6xf32>
  %wide = linalg.generic {indexing_maps = [#blk, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%blocks : tensor<4x16x4xf32>) outs(%be : tensor<4x16x4x6xf32>) {
  ^bb0(%x: f32, %out: f32):
    linalg.yield %x : f32
  } -> tensor<4x16x4x6xf32>
  %t = tensor.collapse_shape %wide [[0], [1], [2, 3]] : tensor<4x16x4x6xf32> into tensor<4x16x24xf32>
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk, %t : tensor<4x16x24xf32>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %b1: f32, %out: f32):
    %x = arith.addf %b0, %b1 : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// The masked scores are a result of the function too.
// CHECK-LABEL: @no_fusion_masked_scores_are_read_too
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_masked_scores_are_read_too
// WHY: extra_users
// WHY: linalg.generic is also used by func.return
func.func @no_fusion_masked_scores_are_read_too(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %t: tensor<4x16x24xf32>) -> (tensor<4x16x8xf32>, tensor<4x16x24xf32>) {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk, %t : tensor<4x16x24xf32>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %b1: f32, %out: f32):
    %x = arith.addf %b0, %b1 : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o, %s : tensor<4x16x8xf32>, tensor<4x16x24xf32>
}
