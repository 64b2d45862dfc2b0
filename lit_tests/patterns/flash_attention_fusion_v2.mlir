// RUN: %mlirfuse-opt %s --split-input-file --target=rocm --disable-feature=kernels --pipeline=flash_attention_fusion_v2 | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --disable-feature=kernels --pipeline='flash_attention_fusion_v2{any-size=true}' | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=rocm --disable-feature=kernels --pipeline=flash_attention_fusion_v2 --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --disable-feature=kernels --pipeline=flash_attention_fusion_v2 --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=CPU
// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan --pipeline=flash_attention_fusion_v2 --enable-pass=flash_attention_fusion_v2 --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=VULKAN
// RUN: %mlirfuse-opt %s --split-input-file --target=rocm --disable-feature=kernels --pipeline='flash_attention_fusion_v2{dynamic-keys=true}' | FileCheck %s --check-prefix=OPTION
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=flash_attention_fusion_v2 | FileCheck %s --check-prefix=KERNEL %}
// CPU-LABEL: @torch_sdpa_f16
// CPU: groups (0)
// CPU: kernels are off
// VULKAN-LABEL: @torch_sdpa_f16
// VULKAN: groups (0)
// VULKAN: target_unsupported
// VULKAN: leaves iree_linalg_ext.online_attention unlowered

// PyTorch: F.scaled_dot_product_attention(q, k, v), f16, through torch.export, run_decompositions,
// and iree-compile --iree-input-type=torch --compile-to=global-optimization. The square root of the
// scale is on q and on k, both f32; a row of -inf would give zero.
// CHECK: #[[QM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4)>
// CHECK: #[[KM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d5, d4)>
// CHECK: #[[VM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d5, d3)>
// CHECK: #[[NONE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> ()>
// CHECK: #[[OM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3)>
// CHECK-LABEL: @torch_sdpa_f16
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x16x8xf16>, %[[K:.*]]: tensor<2x4x24x8xf16>, %[[V:.*]]: tensor<2x4x24x8xf16>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x4x16x8xf16>)
// CHECK: %[[E:.*]] = tensor.empty() : tensor<2x4x16x8xf16>
// CHECK: %[[LN2:.*]] = arith.constant 0.693147182 : f32
// CHECK: %[[A:.*]] = iree_linalg_ext.attention <indexing_maps = [#[[QM]], #[[KM]], #[[VM]], #[[NONE]], #[[OM]]]>
// CHECK-SAME: ins(%[[Q]], %[[K]], %[[V]], %[[LN2]] :
// CHECK-SAME: outs(%[[E]] :
// CHECK: ^bb0(%[[S:.*]]: f32):
// 0.353553 / ln(2)
// CHECK: %[[C:.*]] = arith.constant 0.510069
// CHECK: %[[T:.*]] = arith.mulf %[[S]], %[[C]] : f32
// CHECK: iree_linalg_ext.yield %[[T]]
// CHECK: flow.return %[[A]]
// CHECK: return %[[R]]
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3, d2)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @torch_sdpa_f16(%arg0: tensor<2x4x16x8xf16>, %arg1: tensor<2x4x24x8xf16>, %arg2: tensor<2x4x24x8xf16>) -> tensor<2x4x16x8xf16> {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 0xFF800000 : f32
  %false = arith.constant false
  %cst_1 = arith.constant dense<0.000000e+00> : tensor<2x4x16x24xf32>
  %cst_2 = arith.constant 0.594603539 : f32
  %0 = tensor.empty() : tensor<2x4x16x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<2x4x16x8xf16>) outs(%0 : tensor<2x4x16x8xf32>) {
  ^bb0(%in: f16, %out: f32):
    %27 = arith.extf %in : f16 to f32
    linalg.yield %27 : f32
  } -> tensor<2x4x16x8xf32>
  %2 = tensor.empty() : tensor<2x4x24x8xf32>
  %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg2 : tensor<2x4x24x8xf16>) outs(%2 : tensor<2x4x24x8xf32>) {
  ^bb0(%in: f16, %out: f32):
    %27 = arith.extf %in : f16 to f32
    linalg.yield %27 : f32
  } -> tensor<2x4x24x8xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%1 : tensor<2x4x16x8xf32>) outs(%0 : tensor<2x4x16x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %27 = arith.mulf %in, %cst_2 : f32
    linalg.yield %27 : f32
  } -> tensor<2x4x16x8xf32>
  %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg1 : tensor<2x4x24x8xf16>) outs(%2 : tensor<2x4x24x8xf32>) {
  ^bb0(%in: f16, %out: f32):
    %27 = arith.extf %in : f16 to f32
    linalg.yield %27 : f32
  } -> tensor<2x4x24x8xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%5 : tensor<2x4x24x8xf32>) outs(%2 : tensor<2x4x24x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %27 = arith.mulf %in, %cst_2 : f32
    linalg.yield %27 : f32
  } -> tensor<2x4x24x8xf32>
  %7 = tensor.empty() : tensor<2x4x8x24xf32>
  %8 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6 : tensor<2x4x24x8xf32>) outs(%7 : tensor<2x4x8x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x8x24xf32>
  %collapsed = tensor.collapse_shape %4 [[0, 1], [2], [3]] : tensor<2x4x16x8xf32> into tensor<8x16x8xf32>
  %collapsed_3 = tensor.collapse_shape %8 [[0, 1], [2], [3]] : tensor<2x4x8x24xf32> into tensor<8x8x24xf32>
  %9 = tensor.empty() : tensor<8x16x24xf32>
  %10 = linalg.fill ins(%cst : f32) outs(%9 : tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %11 = linalg.batch_matmul ins(%collapsed, %collapsed_3 : tensor<8x16x8xf32>, tensor<8x8x24xf32>) outs(%10 : tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %expanded = tensor.expand_shape %11 [[0, 1], [2], [3]] output_shape [2, 4, 16, 24] : tensor<8x16x24xf32> into tensor<2x4x16x24xf32>
  %12 = tensor.empty() : tensor<2x4x16x24xf32>
  %13 = linalg.softmax dimension(3) ins(%expanded : tensor<2x4x16x24xf32>) outs(%12 : tensor<2x4x16x24xf32>) -> tensor<2x4x16x24xf32>
  %14 = tensor.empty() : tensor<2x4x16x24xi1>
  %15 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded : tensor<2x4x16x24xf32>) outs(%14 : tensor<2x4x16x24xi1>) {
  ^bb0(%in: f32, %out: i1):
    %27 = arith.cmpf oeq, %in, %cst_0 : f32
    linalg.yield %27 : i1
  } -> tensor<2x4x16x24xi1>
  %16 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%15 : tensor<2x4x16x24xi1>) outs(%14 : tensor<2x4x16x24xi1>) {
  ^bb0(%in: i1, %out: i1):
    %27 = arith.cmpi eq, %in, %false : i1
    linalg.yield %27 : i1
  } -> tensor<2x4x16x24xi1>
  %17 = tensor.empty() : tensor<2x4x16xi1>
  %18 = linalg.fill ins(%false : i1) outs(%17 : tensor<2x4x16xi1>) -> tensor<2x4x16xi1>
  %19 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%16 : tensor<2x4x16x24xi1>) outs(%18 : tensor<2x4x16xi1>) {
  ^bb0(%in: i1, %out: i1):
    %27 = arith.ori %in, %out : i1
    linalg.yield %27 : i1
  } -> tensor<2x4x16xi1>
  %20 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%19 : tensor<2x4x16xi1>) outs(%17 : tensor<2x4x16xi1>) {
  ^bb0(%in: i1, %out: i1):
    %27 = arith.cmpi eq, %in, %false : i1
    linalg.yield %27 : i1
  } -> tensor<2x4x16xi1>
  %21 = linalg.generic {indexing_maps = [#map2, #map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%20, %cst_1, %13 : tensor<2x4x16xi1>, tensor<2x4x16x24xf32>, tensor<2x4x16x24xf32>) outs(%12 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: i1, %in_7: f32, %in_8: f32, %out: f32):
    %27 = arith.select %in, %in_7, %in_8 : f32
    linalg.yield %27 : f32
  } -> tensor<2x4x16x24xf32>
  %collapsed_4 = tensor.collapse_shape %21 [[0, 1], [2], [3]] : tensor<2x4x16x24xf32> into tensor<8x16x24xf32>
  %collapsed_5 = tensor.collapse_shape %3 [[0, 1], [2], [3]] : tensor<2x4x24x8xf32> into tensor<8x24x8xf32>
  %22 = tensor.empty() : tensor<8x16x8xf32>
  %23 = linalg.fill ins(%cst : f32) outs(%22 : tensor<8x16x8xf32>) -> tensor<8x16x8xf32>
  %24 = linalg.batch_matmul ins(%collapsed_4, %collapsed_5 : tensor<8x16x24xf32>, tensor<8x24x8xf32>) outs(%23 : tensor<8x16x8xf32>) -> tensor<8x16x8xf32>
  %expanded_6 = tensor.expand_shape %24 [[0, 1], [2], [3]] output_shape [2, 4, 16, 8] : tensor<8x16x8xf32> into tensor<2x4x16x8xf32>
  %25 = tensor.empty() : tensor<2x4x16x8xf16>
  %26 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_6 : tensor<2x4x16x8xf32>) outs(%25 : tensor<2x4x16x8xf16>) {
  ^bb0(%in: f32, %out: f16):
    %27 = arith.truncf %in : f32 to f16
    linalg.yield %27 : f16
  } -> tensor<2x4x16x8xf16>
  return %26 : tensor<2x4x16x8xf16>
}

// -----

// PyTorch: F.scaled_dot_product_attention(q, k, v, scale=0.3, enable_gqa=True). Each of 2 heads of k
// and v serves 4 heads of q; they are not repeated.
// CHECK: #[[QM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3, d5)>
// CHECK: #[[KM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d6, d5)>
// CHECK: #[[VM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d6, d4)>
// CHECK: #[[NONE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> ()>
// CHECK: #[[OM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3, d4)>
// CHECK-LABEL: @torch_sdpa_grouped_queries
// CHECK-SAME: %[[Q:.*]]: tensor<2x8x16x8xf32>, %[[K:.*]]: tensor<2x2x24x8xf32>, %[[V:.*]]: tensor<2x2x24x8xf32>
// CHECK: %[[SPLIT:.*]] = tensor.expand_shape %[[Q]] {{\[}}[0], [1, 2], [3], [4]{{\]}} output_shape [2, 2, 4, 16, 8]
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x2x4x16x8xf32>)
// CHECK: %[[SCALE:.*]] = arith.constant 0.2999999
// CHECK: iree_linalg_ext.attention <indexing_maps = [#[[QM]], #[[KM]], #[[VM]], #[[NONE]], #[[OM]]]>
// CHECK-SAME: ins(%[[SPLIT]], %[[K]], %[[V]], %[[SCALE]] :
// CHECK: %[[JOINED:.*]] = tensor.collapse_shape %[[R]] {{\[}}[0, 1, 2], [3], [4]{{\]}}
// CHECK: %[[OUT:.*]] = tensor.expand_shape %[[JOINED]]
// CHECK: return %[[OUT]]
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3, d4)>
#map2 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#map3 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4, d3)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map5 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @torch_sdpa_grouped_queries(%arg0: tensor<2x8x16x8xf32>, %arg1: tensor<2x2x24x8xf32>, %arg2: tensor<2x2x24x8xf32>) -> tensor<2x8x16x8xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 0xFF800000 : f32
  %false = arith.constant false
  %cst_1 = arith.constant dense<0.000000e+00> : tensor<2x8x16x24xf32>
  %cst_2 = arith.constant 0.547722518 : f32
  %0 = tensor.empty() : tensor<2x8x16x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<2x8x16x8xf32>) outs(%0 : tensor<2x8x16x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.mulf %in, %cst_2 : f32
    linalg.yield %24 : f32
  } -> tensor<2x8x16x8xf32>
  %2 = tensor.empty() : tensor<2x2x4x24x8xf32>
  %3 = linalg.generic {indexing_maps = [#map1, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%arg2 : tensor<2x2x24x8xf32>) outs(%2 : tensor<2x2x4x24x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x2x4x24x8xf32>
  %4 = tensor.empty() : tensor<2x2x4x8x24xf32>
  %5 = linalg.generic {indexing_maps = [#map3, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%arg1 : tensor<2x2x24x8xf32>) outs(%4 : tensor<2x2x4x8x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x2x4x8x24xf32>
  %collapsed = tensor.collapse_shape %5 [[0], [1, 2], [3], [4]] : tensor<2x2x4x8x24xf32> into tensor<2x8x8x24xf32>
  %6 = tensor.empty() : tensor<2x8x8x24xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%collapsed : tensor<2x8x8x24xf32>) outs(%6 : tensor<2x8x8x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.mulf %in, %cst_2 : f32
    linalg.yield %24 : f32
  } -> tensor<2x8x8x24xf32>
  %collapsed_3 = tensor.collapse_shape %1 [[0, 1], [2], [3]] : tensor<2x8x16x8xf32> into tensor<16x16x8xf32>
  %collapsed_4 = tensor.collapse_shape %7 [[0, 1], [2], [3]] : tensor<2x8x8x24xf32> into tensor<16x8x24xf32>
  %8 = tensor.empty() : tensor<16x16x24xf32>
  %9 = linalg.fill ins(%cst : f32) outs(%8 : tensor<16x16x24xf32>) -> tensor<16x16x24xf32>
  %10 = linalg.batch_matmul ins(%collapsed_3, %collapsed_4 : tensor<16x16x8xf32>, tensor<16x8x24xf32>) outs(%9 : tensor<16x16x24xf32>) -> tensor<16x16x24xf32>
  %expanded = tensor.expand_shape %10 [[0, 1], [2], [3]] output_shape [2, 8, 16, 24] : tensor<16x16x24xf32> into tensor<2x8x16x24xf32>
  %11 = tensor.empty() : tensor<2x8x16x24xf32>
  %12 = linalg.softmax dimension(3) ins(%expanded : tensor<2x8x16x24xf32>) outs(%11 : tensor<2x8x16x24xf32>) -> tensor<2x8x16x24xf32>
  %13 = tensor.empty() : tensor<2x8x16x24xi1>
  %14 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded : tensor<2x8x16x24xf32>) outs(%13 : tensor<2x8x16x24xi1>) {
  ^bb0(%in: f32, %out: i1):
    %24 = arith.cmpf oeq, %in, %cst_0 : f32
    linalg.yield %24 : i1
  } -> tensor<2x8x16x24xi1>
  %15 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%14 : tensor<2x8x16x24xi1>) outs(%13 : tensor<2x8x16x24xi1>) {
  ^bb0(%in: i1, %out: i1):
    %24 = arith.cmpi eq, %in, %false : i1
    linalg.yield %24 : i1
  } -> tensor<2x8x16x24xi1>
  %16 = tensor.empty() : tensor<2x8x16xi1>
  %17 = linalg.fill ins(%false : i1) outs(%16 : tensor<2x8x16xi1>) -> tensor<2x8x16xi1>
  %18 = linalg.generic {indexing_maps = [#map, #map4], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%15 : tensor<2x8x16x24xi1>) outs(%17 : tensor<2x8x16xi1>) {
  ^bb0(%in: i1, %out: i1):
    %24 = arith.ori %in, %out : i1
    linalg.yield %24 : i1
  } -> tensor<2x8x16xi1>
  %19 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%18 : tensor<2x8x16xi1>) outs(%16 : tensor<2x8x16xi1>) {
  ^bb0(%in: i1, %out: i1):
    %24 = arith.cmpi eq, %in, %false : i1
    linalg.yield %24 : i1
  } -> tensor<2x8x16xi1>
  %20 = linalg.generic {indexing_maps = [#map4, #map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%19, %cst_1, %12 : tensor<2x8x16xi1>, tensor<2x8x16x24xf32>, tensor<2x8x16x24xf32>) outs(%11 : tensor<2x8x16x24xf32>) {
  ^bb0(%in: i1, %in_8: f32, %in_9: f32, %out: f32):
    %24 = arith.select %in, %in_8, %in_9 : f32
    linalg.yield %24 : f32
  } -> tensor<2x8x16x24xf32>
  %collapsed_5 = tensor.collapse_shape %20 [[0, 1], [2], [3]] : tensor<2x8x16x24xf32> into tensor<16x16x24xf32>
  %collapsed_6 = tensor.collapse_shape %3 [[0, 1, 2], [3], [4]] : tensor<2x2x4x24x8xf32> into tensor<16x24x8xf32>
  %21 = tensor.empty() : tensor<16x16x8xf32>
  %22 = linalg.fill ins(%cst : f32) outs(%21 : tensor<16x16x8xf32>) -> tensor<16x16x8xf32>
  %23 = linalg.batch_matmul ins(%collapsed_5, %collapsed_6 : tensor<16x16x24xf32>, tensor<16x24x8xf32>) outs(%22 : tensor<16x16x8xf32>) -> tensor<16x16x8xf32>
  %expanded_7 = tensor.expand_shape %23 [[0, 1], [2], [3]] output_shape [2, 8, 16, 8] : tensor<16x16x8xf32> into tensor<2x8x16x8xf32>
  return %expanded_7 : tensor<2x8x16x8xf32>
}

// -----

// JAX: jax.nn.dot_product_attention(q, k, v), f32. Heads are the third dimension; softmax is in parts;
// the weights are the transposed right operand of the second contraction, whose result is
// transposed.
// CHECK: #[[QM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d1, d4)>
// CHECK: #[[KM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d5, d1, d4)>
// CHECK: #[[VM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d5, d1, d3)>
// CHECK: #[[NONE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> ()>
// CHECK: #[[OM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d1, d3)>
// CHECK-LABEL: @jax_dot_product_attention
// CHECK-SAME: %[[Q:.*]]: tensor<2x16x4x8xf32>, %[[K:.*]]: tensor<2x24x4x8xf32>, %[[V:.*]]: tensor<2x24x4x8xf32>
// CHECK-NOT: linalg.generic
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x16x4x8xf32>)
// CHECK: %[[SCALE:.*]] = arith.constant 0.353553
// CHECK: iree_linalg_ext.attention <indexing_maps = [#[[QM]], #[[KM]], #[[VM]], #[[NONE]], #[[OM]]]>
// CHECK-SAME: ins(%[[Q]], %[[K]], %[[V]], %[[SCALE]] :
// CHECK: return %[[R]]
#map = affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d3, d1, d2)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3, d2)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3, d1)>
func.func @jax_dot_product_attention(%arg0: tensor<2x16x4x8xf32>, %arg1: tensor<2x24x4x8xf32>, %arg2: tensor<2x24x4x8xf32>) -> tensor<2x16x4x8xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 0.353553385 : f32
  %cst_1 = arith.constant 0xFF800000 : f32
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
  %collapsed = tensor.collapse_shape %1 [[0, 1], [2], [3]] : tensor<2x4x16x8xf32> into tensor<8x16x8xf32>
  %collapsed_2 = tensor.collapse_shape %3 [[0, 1], [2], [3]] : tensor<2x4x8x24xf32> into tensor<8x8x24xf32>
  %4 = tensor.empty() : tensor<8x16x24xf32>
  %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %6 = linalg.batch_matmul ins(%collapsed, %collapsed_2 : tensor<8x16x8xf32>, tensor<8x8x24xf32>) outs(%5 : tensor<8x16x24xf32>) -> tensor<8x16x24xf32>
  %expanded = tensor.expand_shape %6 [[0, 1], [2], [3]] output_shape [2, 4, 16, 24] : tensor<8x16x24xf32> into tensor<2x4x16x24xf32>
  %7 = tensor.empty() : tensor<2x4x16x24xf32>
  %8 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded : tensor<2x4x16x24xf32>) outs(%7 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    %26 = arith.mulf %in, %cst_0 : f32
    linalg.yield %26 : f32
  } -> tensor<2x4x16x24xf32>
  %9 = tensor.empty() : tensor<2x4x16xf32>
  %10 = linalg.fill ins(%cst_1 : f32) outs(%9 : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %11 = linalg.generic {indexing_maps = [#map1, #map3], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%8 : tensor<2x4x16x24xf32>) outs(%10 : tensor<2x4x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %26 = arith.maximumf %out, %in : f32
    linalg.yield %26 : f32
  } -> tensor<2x4x16xf32>
  %12 = linalg.generic {indexing_maps = [#map3, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%11 : tensor<2x4x16xf32>) outs(%7 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x16x24xf32>
  %13 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%8, %12 : tensor<2x4x16x24xf32>, tensor<2x4x16x24xf32>) outs(%7 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: f32, %in_6: f32, %out: f32):
    %26 = arith.subf %in, %in_6 : f32
    linalg.yield %26 : f32
  } -> tensor<2x4x16x24xf32>
  %14 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%13 : tensor<2x4x16x24xf32>) outs(%7 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    %26 = math.exp %in : f32
    linalg.yield %26 : f32
  } -> tensor<2x4x16x24xf32>
  %15 = linalg.fill ins(%cst : f32) outs(%9 : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %16 = linalg.generic {indexing_maps = [#map1, #map3], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%14 : tensor<2x4x16x24xf32>) outs(%15 : tensor<2x4x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %26 = arith.addf %out, %in : f32
    linalg.yield %26 : f32
  } -> tensor<2x4x16xf32>
  %17 = linalg.generic {indexing_maps = [#map3, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%16 : tensor<2x4x16xf32>) outs(%7 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x16x24xf32>
  %18 = linalg.generic {indexing_maps = [#map2, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg2 : tensor<2x24x4x8xf32>) outs(%2 : tensor<2x4x8x24xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x8x24xf32>
  %19 = tensor.empty() : tensor<2x4x24x16xf32>
  %20 = linalg.generic {indexing_maps = [#map4, #map4, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%14, %17 : tensor<2x4x16x24xf32>, tensor<2x4x16x24xf32>) outs(%19 : tensor<2x4x24x16xf32>) {
  ^bb0(%in: f32, %in_6: f32, %out: f32):
    %26 = arith.divf %in, %in_6 : f32
    linalg.yield %26 : f32
  } -> tensor<2x4x24x16xf32>
  %collapsed_3 = tensor.collapse_shape %18 [[0, 1], [2], [3]] : tensor<2x4x8x24xf32> into tensor<8x8x24xf32>
  %collapsed_4 = tensor.collapse_shape %20 [[0, 1], [2], [3]] : tensor<2x4x24x16xf32> into tensor<8x24x16xf32>
  %21 = tensor.empty() : tensor<8x8x16xf32>
  %22 = linalg.fill ins(%cst : f32) outs(%21 : tensor<8x8x16xf32>) -> tensor<8x8x16xf32>
  %23 = linalg.batch_matmul ins(%collapsed_3, %collapsed_4 : tensor<8x8x24xf32>, tensor<8x24x16xf32>) outs(%22 : tensor<8x8x16xf32>) -> tensor<8x8x16xf32>
  %expanded_5 = tensor.expand_shape %23 [[0, 1], [2], [3]] output_shape [2, 4, 8, 16] : tensor<8x8x16xf32> into tensor<2x4x8x16xf32>
  %24 = tensor.empty() : tensor<2x16x4x8xf32>
  %25 = linalg.generic {indexing_maps = [#map5, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_5 : tensor<2x4x8x16xf32>) outs(%24 : tensor<2x16x4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x16x4x8xf32>
  return %25 : tensor<2x16x4x8xf32>
}

// -----

// ONNX: Reshape, Transpose, MatMul, Mul by 2.5, Softmax, MatMul, Transpose, Reshape, opset 17, through
// iree-import-onnx. q, k and v are one tensor; the scale is far from the root of the head size.
// CHECK: #[[QM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d1, d4)>
// CHECK: #[[KM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d5, d1, d4)>
// CHECK: #[[VM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d5, d1, d3)>
// CHECK: #[[NONE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> ()>
// CHECK: #[[OM:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d1, d3)>
// CHECK-LABEL: @onnx_self_attention
// CHECK-SAME: %[[X:.*]]: tensor<2x16x32xf32>
// CHECK: %[[H:.*]] = tensor.expand_shape %[[X]] {{\[}}[0], [1], [2, 3]{{\]}}
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x16x4x8xf32>)
// CHECK: %[[SCALE:.*]] = arith.constant 2.500000e+00
// CHECK: iree_linalg_ext.attention <indexing_maps = [#[[QM]], #[[KM]], #[[VM]], #[[NONE]], #[[OM]]]>
// CHECK-SAME: ins(%[[H]], %[[H]], %[[H]], %[[SCALE]] :
// CHECK: %[[OUT:.*]] = tensor.collapse_shape %[[R]]
// CHECK: return %[[OUT]]
#map = affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d3, d1, d2)>
#map3 = affine_map<(d0, d1, d2, d3) -> ()>
func.func @onnx_self_attention(%arg0: tensor<2x16x32xf32>) -> tensor<2x16x32xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant dense<2.500000e+00> : tensor<f32>
  %expanded = tensor.expand_shape %arg0 [[0], [1], [2, 3]] output_shape [2, 16, 4, 8] : tensor<2x16x32xf32> into tensor<2x16x4x8xf32>
  %0 = tensor.empty() : tensor<2x4x16x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded : tensor<2x16x4x8xf32>) outs(%0 : tensor<2x4x16x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x16x8xf32>
  %2 = tensor.empty() : tensor<2x4x8x16xf32>
  %3 = linalg.generic {indexing_maps = [#map2, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded : tensor<2x16x4x8xf32>) outs(%2 : tensor<2x4x8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x8x16xf32>
  %collapsed = tensor.collapse_shape %1 [[0, 1], [2], [3]] : tensor<2x4x16x8xf32> into tensor<8x16x8xf32>
  %collapsed_1 = tensor.collapse_shape %3 [[0, 1], [2], [3]] : tensor<2x4x8x16xf32> into tensor<8x8x16xf32>
  %4 = tensor.empty() : tensor<8x16x16xf32>
  %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<8x16x16xf32>) -> tensor<8x16x16xf32>
  %6 = linalg.batch_matmul ins(%collapsed, %collapsed_1 : tensor<8x16x8xf32>, tensor<8x8x16xf32>) outs(%5 : tensor<8x16x16xf32>) -> tensor<8x16x16xf32>
  %expanded_2 = tensor.expand_shape %6 [[0, 1], [2], [3]] output_shape [2, 4, 16, 16] : tensor<8x16x16xf32> into tensor<2x4x16x16xf32>
  %7 = tensor.empty() : tensor<2x4x16x16xf32>
  %8 = linalg.generic {indexing_maps = [#map1, #map3, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_2, %cst_0 : tensor<2x4x16x16xf32>, tensor<f32>) outs(%7 : tensor<2x4x16x16xf32>) {
  ^bb0(%in: f32, %in_6: f32, %out: f32):
    %15 = arith.mulf %in, %in_6 : f32
    linalg.yield %15 : f32
  } -> tensor<2x4x16x16xf32>
  %9 = linalg.softmax dimension(3) ins(%8 : tensor<2x4x16x16xf32>) outs(%7 : tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %collapsed_3 = tensor.collapse_shape %9 [[0, 1], [2], [3]] : tensor<2x4x16x16xf32> into tensor<8x16x16xf32>
  %10 = tensor.empty() : tensor<8x16x8xf32>
  %11 = linalg.fill ins(%cst : f32) outs(%10 : tensor<8x16x8xf32>) -> tensor<8x16x8xf32>
  %12 = linalg.batch_matmul ins(%collapsed_3, %collapsed : tensor<8x16x16xf32>, tensor<8x16x8xf32>) outs(%11 : tensor<8x16x8xf32>) -> tensor<8x16x8xf32>
  %expanded_4 = tensor.expand_shape %12 [[0, 1], [2], [3]] output_shape [2, 4, 16, 8] : tensor<8x16x8xf32> into tensor<2x4x16x8xf32>
  %13 = tensor.empty() : tensor<2x16x4x8xf32>
  %14 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_4 : tensor<2x4x16x8xf32>) outs(%13 : tensor<2x16x4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x16x4x8xf32>
  %collapsed_5 = tensor.collapse_shape %14 [[0], [1], [2, 3]] : tensor<2x16x4x8xf32> into tensor<2x16x32xf32>
  return %collapsed_5 : tensor<2x16x32xf32>
}

// -----

#qk = affine_map<(b, m, n, k) -> (b, m, k)>
#kk = affine_map<(b, m, n, k) -> (b, n, k)>
#vk = affine_map<(b, m, n, k) -> (b, k, n)>
#mn = affine_map<(b, m, n, k) -> (b, m, n)>
#id = affine_map<(b, m, n) -> (b, m, n)>

// A constant that is added to all scores changes nothing; the number of queries may be dynamic. The graph
// keeps the weights and the result in f32, so v is read in f32, and q and k with it.
// CHECK: #[[QM:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>
// CHECK: #[[KM:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>
// CHECK: #[[VM:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d2)>
// CHECK-LABEL: @constant_added_dynamic_queries_wide_weights
// CHECK-SAME: %[[M:arg3]]: index
// CHECK: %[[Q:.*]] = linalg.generic {{.*}} ins(%arg0 :
// CHECK: %[[K:.*]] = linalg.generic {{.*}} ins(%arg1 :
// CHECK: %[[V:.*]] = linalg.generic {{.*}} ins(%arg2 :
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<8x?x16xf32>{%[[M]]})
// CHECK: %[[SCALE:.*]] = arith.constant -2.000000e+00 : f32
// CHECK: iree_linalg_ext.attention <indexing_maps = [#[[QM]], #[[KM]], #[[VM]],
// CHECK-SAME: ins(%[[Q]], %[[K]], %[[V]], %[[SCALE]] :
// CHECK: return %[[R]]
func.func @constant_added_dynamic_queries_wide_weights(%q16: tensor<8x?x16xf16>, %k16: tensor<8x24x16xf16>, %v16: tensor<8x24x16xf16>, %m: index) -> tensor<8x?x16xf32> {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant -5.000000e-01 : f32
  %four = arith.constant 4.0 : f32
  %ten = arith.constant dense<10.0> : tensor<f32>
  %qe = tensor.empty(%m) : tensor<8x?x16xf32>
  %q = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%q16 : tensor<8x?x16xf16>) outs(%qe : tensor<8x?x16xf32>) {
  ^bb0(%a: f16, %o: f32):
    %w = arith.extf %a : f16 to f32
    linalg.yield %w : f32
  } -> tensor<8x?x16xf32>
  %ke = tensor.empty() : tensor<8x24x16xf32>
  %k = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%k16 : tensor<8x24x16xf16>) outs(%ke : tensor<8x24x16xf32>) {
  ^bb0(%a: f16, %o: f32):
    %w = arith.extf %a : f16 to f32
    linalg.yield %w : f32
  } -> tensor<8x24x16xf32>
  %ve = tensor.empty() : tensor<8x24x16xf32>
  %v = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v16 : tensor<8x24x16xf16>) outs(%ve : tensor<8x24x16xf32>) {
  ^bb0(%a: f16, %o: f32):
    %w = arith.extf %a : f16 to f32
    linalg.yield %w : f32
  } -> tensor<8x24x16xf32>
  %se = tensor.empty(%m) : tensor<8x?x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<8x?x24xf32>) -> tensor<8x?x24xf32>
  %qkt = linalg.generic {indexing_maps = [#qk, #kk, #mn], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<8x?x16xf32>, tensor<8x24x16xf32>) outs(%sf : tensor<8x?x24xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<8x?x24xf32>
  %s = linalg.generic {indexing_maps = [#id, affine_map<(b, m, n) -> ()>, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qkt, %ten : tensor<8x?x24xf32>, tensor<f32>) outs(%se : tensor<8x?x24xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %x = arith.mulf %half, %a : f32
    %y = arith.addf %c, %x : f32
    %z = arith.mulf %y, %four : f32
    linalg.yield %z : f32
  } -> tensor<8x?x24xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<8x?x24xf32>) outs(%se : tensor<8x?x24xf32>) -> tensor<8x?x24xf32>
  %oe = tensor.empty(%m) : tensor<8x?x16xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<8x?x16xf32>) -> tensor<8x?x16xf32>
  %o = linalg.generic {indexing_maps = [#qk, #vk, #mn], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%w, %v : tensor<8x?x24xf32>, tensor<8x24x16xf32>) outs(%of : tensor<8x?x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %p, %c : f32
    linalg.yield %t : f32
  } -> tensor<8x?x16xf32>
  return %o : tensor<8x?x16xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>
#mrow = affine_map<(b, m, n) -> (b, m)>

// Parts of a softmax; the scale is a divisor on k.
// CHECK-LABEL: @softmax_in_parts_with_a_reciprocal
// CHECK-SAME: %[[Q:.*]]: tensor<4x16x8xf32>, %[[K:.*]]: tensor<4x8x24xf32>, %[[V:.*]]: tensor<4x24x8xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[SCALE:.*]] = arith.constant 2.500000e-01
// CHECK: iree_linalg_ext.attention
// CHECK-SAME: ins(%[[Q]], %[[K]], %[[V]], %[[SCALE]] :
// CHECK: return %[[R]]
func.func @softmax_in_parts_with_a_reciprocal(%q: tensor<4x16x8xf32>, %k0: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %four = arith.constant 4.0 : f32
  %ke = tensor.empty() : tensor<4x8x24xf32>
  %k = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%k0 : tensor<4x8x24xf32>) outs(%ke : tensor<4x8x24xf32>) {
  ^bb0(%b0: f32, %out: f32):
    %x = arith.divf %b0, %four : f32
    linalg.yield %x : f32
  } -> tensor<4x8x24xf32>
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %low = arith.constant 0xFF800000 : f32
  %re = tensor.empty() : tensor<4x16xf32>
  %lf = linalg.fill ins(%low : f32) outs(%re : tensor<4x16xf32>) -> tensor<4x16xf32>
  %max = linalg.generic {indexing_maps = [#id, #mrow], iterator_types = ["parallel", "parallel", "reduction"]} ins(%qk : tensor<4x16x24xf32>) outs(%lf : tensor<4x16xf32>) {
  ^bb0(%x: f32, %out: f32):
    %t = arith.maximumf %x, %out : f32
    linalg.yield %t : f32
  } -> tensor<4x16xf32>
  %e = linalg.generic {indexing_maps = [#id, #mrow, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk, %max : tensor<4x16x24xf32>, tensor<4x16xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%x: f32, %h: f32, %out: f32):
    %d = arith.subf %x, %h : f32
    %t = math.exp %d : f32
    linalg.yield %t : f32
  } -> tensor<4x16x24xf32>
  %zf = linalg.fill ins(%zero : f32) outs(%re : tensor<4x16xf32>) -> tensor<4x16xf32>
  %sum = linalg.generic {indexing_maps = [#id, #mrow], iterator_types = ["parallel", "parallel", "reduction"]} ins(%e : tensor<4x16x24xf32>) outs(%zf : tensor<4x16xf32>) {
  ^bb0(%x: f32, %out: f32):
    %t = arith.addf %x, %out : f32
    linalg.yield %t : f32
  } -> tensor<4x16xf32>
  %p = linalg.generic {indexing_maps = [#id, #mrow, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%e, %sum : tensor<4x16x24xf32>, tensor<4x16xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%x: f32, %h: f32, %out: f32):
    %one = arith.constant 1.0 : f32
    %i = arith.divf %one, %h : f32
    %t = arith.mulf %i, %x : f32
    linalg.yield %t : f32
  } -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, n, m) -> (b, n, m)>
#t = affine_map<(b, n, m) -> (b, m, n)>

// The result would not be contiguous in the dimension of v: the transpose is left alone.
// CHECK-LABEL: @transpose_of_the_head_stays_out
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4x16x8xf32>)
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[R]] :
// CHECK: return %[[T]]
func.func @transpose_of_the_head_stays_out(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%qk : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %te = tensor.empty() : tensor<4x8x16xf32>
  %t = linalg.generic {indexing_maps = [#t, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%o : tensor<4x16x8xf32>) outs(%te : tensor<4x8x16xf32>) {
  ^bb0(%x: f32, %out: f32):
    linalg.yield %x : f32
  } -> tensor<4x8x16xf32>
  return %t : tensor<4x8x16xf32>
}

// -----

#all = affine_map<(i, b, m, n) -> (i, b, m, n)>
#one = affine_map<(i, b, m, n) -> (b, m, n)>

// The result is not computed again for each repetition.
// CHECK-LABEL: @broadcast_of_the_result_stays_out
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4x16x8xf32>)
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[R]] :
// CHECK: return %[[T]]
func.func @broadcast_of_the_result_stays_out(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<3x4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%qk : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %te = tensor.empty() : tensor<3x4x16x8xf32>
  %t = linalg.generic {indexing_maps = [#one, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%o : tensor<4x16x8xf32>) outs(%te : tensor<3x4x16x8xf32>) {
  ^bb0(%x: f32, %out: f32):
    linalg.yield %x : f32
  } -> tensor<3x4x16x8xf32>
  return %t : tensor<3x4x16x8xf32>
}

// -----

// IREE compiles an attention with a dynamic number of keys slowly, to code without matrix
// instructions: only by option.
// CHECK-LABEL: @dynamic_keys
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @dynamic_keys
// WHY: not_profitable
// WHY: the number of keys is dynamic; see dynamic_keys
// OPTION-LABEL: @dynamic_keys
// OPTION-SAME: %[[Q:.*]]: tensor<4x16x8xf32>, %[[K:.*]]: tensor<4x8x?xf32>, %[[V:.*]]: tensor<4x?x8xf32>
// OPTION: flow.dispatch.region -> (tensor<4x16x8xf32>)
// OPTION: iree_linalg_ext.attention
// OPTION-SAME: ins(%[[Q]], %[[K]], %[[V]],
// KERNEL-LABEL: @dynamic_keys(
// KERNEL: flow.dispatch.region -> (tensor<4x16x8xf32>)
// KERNEL: iree_linalg_ext.attention
func.func @dynamic_keys(%q: tensor<4x16x8xf32>, %k: tensor<4x8x?xf32>, %v: tensor<4x?x8xf32>, %n: index) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty(%n) : tensor<4x16x?xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x?xf32>) -> tensor<4x16x?xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x?xf32>) outs(%sf : tensor<4x16x?xf32>) -> tensor<4x16x?xf32>
  %p = linalg.softmax dimension(2) ins(%qk : tensor<4x16x?xf32>) outs(%se : tensor<4x16x?xf32>) -> tensor<4x16x?xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x?xf32>, tensor<4x?x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

// Batch, queries and keys are dynamic, f16: a kernel may take it.
// CHECK-LABEL: @dynamic_keys_f16
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// KERNEL-LABEL: @dynamic_keys_f16
// KERNEL-SAME: %[[Q:.*]]: tensor<?x?x16xf16>, %[[K:.*]]: tensor<?x16x?xf16>, %[[V:.*]]: tensor<?x?x16xf16>
// KERNEL: flow.dispatch.region -> (tensor<?x?x16xf16>
// KERNEL: iree_linalg_ext.attention
// KERNEL-SAME: ins(%[[Q]], %[[K]], %[[V]],
func.func @dynamic_keys_f16(%q: tensor<?x?x16xf16>, %k: tensor<?x16x?xf16>, %v: tensor<?x?x16xf16>, %b: index, %m: index, %n: index) -> tensor<?x?x16xf16> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty(%b, %m, %n) : tensor<?x?x?xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<?x?x16xf16>, tensor<?x16x?xf16>) outs(%sf : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %p = linalg.softmax dimension(2) ins(%qk : tensor<?x?x?xf32>) outs(%se : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %he = tensor.empty(%b, %m, %n) : tensor<?x?x?xf16>
  %h = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : tensor<?x?x?xf32>) outs(%he : tensor<?x?x?xf16>) {
  ^bb0(%in: f32, %out: f16):
    %t = arith.truncf %in : f32 to f16
    linalg.yield %t : f16
  } -> tensor<?x?x?xf16>
  %oe = tensor.empty(%b, %m) : tensor<?x?x16xf16>
  %z16 = arith.constant 0.0 : f16
  %of = linalg.fill ins(%z16 : f16) outs(%oe : tensor<?x?x16xf16>) -> tensor<?x?x16xf16>
  %o = linalg.batch_matmul ins(%h, %v : tensor<?x?x?xf16>, tensor<?x?x16xf16>) outs(%of : tensor<?x?x16xf16>) -> tensor<?x?x16xf16>
  return %o : tensor<?x?x16xf16>
}

// -----

// The weights are a result of the function too.
// CHECK-LABEL: @no_fusion_probabilities_are_read_too
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_probabilities_are_read_too
// WHY: extra_users
// WHY: linalg.softmax is also used by func.return
func.func @no_fusion_probabilities_are_read_too(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> (tensor<4x16x8xf32>, tensor<4x16x24xf32>) {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%qk : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o, %p : tensor<4x16x8xf32>, tensor<4x16x24xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>
#c = affine_map<(b, m, n) -> ()>

// The scale must be known: an attention op takes a number.
// CHECK-LABEL: @no_fusion_scale_is_an_argument
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_scale_is_an_argument
// WHY: constant_unverified
// WHY: the scale of the scores is no finite constant
func.func @no_fusion_scale_is_an_argument(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %c: tensor<f32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #c, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk, %c : tensor<4x16x24xf32>, tensor<f32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %b1: f32, %out: f32):
    %x = arith.mulf %b0, %b1 : f32
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

// 1e8 added in f32 rounds the scores to multiples of 8: the softmax is another one.
// CHECK-LABEL: @no_fusion_large_constant_swallows_the_scores
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_large_constant_swallows_the_scores
// WHY: constant_unverified
// WHY: 1e+08 is added to all scores; only 1024 or less is ignored
func.func @no_fusion_large_constant_swallows_the_scores(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant 1.0e+08 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %out: f32):
    %x = arith.addf %b0, %c : f32
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

// Every row is masked: the result is NaN, not attention.
// CHECK-LABEL: @no_fusion_minus_infinity_added
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_minus_infinity_added
// WHY: constant_unverified
// WHY: -inf is added to all scores
func.func @no_fusion_minus_infinity_added(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant dense<0xFF800000> : tensor<4x16x24xf32>
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk, %c : tensor<4x16x24xf32>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
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

// Gemma's soft cap is between the matmul and the softmax: kernels compute it.
// CHECK-LABEL: @scores_are_capped
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @scores_are_capped
// WHY: target_unsupported
// WHY: no kernel computes a soft cap of the scores
// KERNEL-LABEL: @scores_are_capped
// KERNEL: %[[LN2:.*]] = arith.constant 0.693147182 : f32
// KERNEL: iree_linalg_ext.attention
// KERNEL-SAME: %[[LN2]]
// KERNEL: ^bb0(%[[S:.*]]: f32):
// KERNEL: %[[IN:.*]] = arith.constant 2.500000e-01 : f32
// KERNEL: %[[X:.*]] = arith.mulf %[[S]], %[[IN]] : f32
// KERNEL: %[[T:.*]] = math.tanh %[[X]] : f32
// 20 / ln(2)
// KERNEL: %[[OUT:.*]] = arith.constant 2.885390e+01
// KERNEL: %[[Y:.*]] = arith.mulf %[[T]], %[[OUT]] : f32
// KERNEL: iree_linalg_ext.yield %[[Y]]
func.func @scores_are_capped(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %out: f32):
    %in = arith.constant 0.25 : f32
    %cap = arith.constant 20.0 : f32
    %x = arith.mulf %b0, %in : f32
    %y = math.tanh %x : f32
    %z = arith.mulf %y, %cap : f32
    linalg.yield %z : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// A tanh of a tanh is no soft cap.
// CHECK-LABEL: @no_fusion_scores_are_capped_twice
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_scores_are_capped_twice
// WHY: structure
// WHY: math.tanh between q k^T and the softmax
// KERNEL-LABEL: @no_fusion_scores_are_capped_twice
// KERNEL-NOT: flow.dispatch.region
// KERNEL: return
func.func @no_fusion_scores_are_capped_twice(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %out: f32):
    %x = math.tanh %b0 : f32
    %r = math.tanh %x : f32
    linalg.yield %r : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// A constant inside the tanh changes the softmax.
// CHECK-LABEL: @no_fusion_cap_of_shifted_scores
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_cap_of_shifted_scores
// WHY: structure
// WHY: math.tanh between q k^T and the softmax
// KERNEL-LABEL: @no_fusion_cap_of_shifted_scores
// KERNEL-NOT: flow.dispatch.region
// KERNEL: return
func.func @no_fusion_cap_of_shifted_scores(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %out: f32):
    %c = arith.constant 1.0 : f32
    %x = arith.addf %b0, %c : f32
    %r = math.tanh %x : f32
    linalg.yield %r : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// Another function of the scores.
// CHECK-LABEL: @no_fusion_magnitude_of_the_scores
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_magnitude_of_the_scores
// WHY: structure
// WHY: math.absf between q k^T and the softmax
// KERNEL-LABEL: @no_fusion_magnitude_of_the_scores
// KERNEL-NOT: flow.dispatch.region
// KERNEL: return
func.func @no_fusion_magnitude_of_the_scores(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %out: f32):
    %r = math.absf %b0 : f32
    linalg.yield %r : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

// Not the axis that is contracted with v: not the pattern at all.
// CHECK-LABEL: @no_fusion_softmax_over_the_queries
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_softmax_over_the_queries(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(1) ins(%qk : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

// The contraction adds to something: not the pattern at all.
// CHECK-LABEL: @no_fusion_init_is_not_zero
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_init_is_not_zero(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%one : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%qk : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>
#mrow = affine_map<(b, m, n) -> (b, m)>

// The rows that become zero are not those of -inf, as PyTorch's are.
// CHECK-LABEL: @no_fusion_zeroed_on_other_rows
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_zeroed_on_other_rows
// WHY: structure
// WHY: the softmax is zeroed on other rows than those of -inf
func.func @no_fusion_zeroed_on_other_rows(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant -1.0e+09 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%qk : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %re = tensor.empty() : tensor<4x16xi1>
  %true = arith.constant true
  %rf = linalg.fill ins(%true : i1) outs(%re : tensor<4x16xi1>) -> tensor<4x16xi1>
  %closed = linalg.generic {indexing_maps = [#id, #mrow], iterator_types = ["parallel", "parallel", "reduction"]} ins(%qk : tensor<4x16x24xf32>) outs(%rf : tensor<4x16xi1>) {
  ^bb0(%x: f32, %out: i1):
    %c = arith.cmpf oeq, %x, %low : f32
    %t = arith.andi %c, %out : i1
    linalg.yield %t : i1
  } -> tensor<4x16xi1>
  %z = linalg.generic {indexing_maps = [#mrow, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%closed, %p : tensor<4x16xi1>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: i1, %b1: f32, %out: f32):
    %x = arith.select %b0, %zero, %b1 : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%z, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>
#mrow = affine_map<(b, m, n) -> (b, m)>

// The weights are divided by the sum of the scores: not the pattern at all.
// CHECK-LABEL: @no_fusion_sum_of_other_values
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_sum_of_other_values(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %low = arith.constant 0xFF800000 : f32
  %re = tensor.empty() : tensor<4x16xf32>
  %lf = linalg.fill ins(%low : f32) outs(%re : tensor<4x16xf32>) -> tensor<4x16xf32>
  %max = linalg.generic {indexing_maps = [#id, #mrow], iterator_types = ["parallel", "parallel", "reduction"]} ins(%qk : tensor<4x16x24xf32>) outs(%lf : tensor<4x16xf32>) {
  ^bb0(%x: f32, %out: f32):
    %t = arith.maximumf %x, %out : f32
    linalg.yield %t : f32
  } -> tensor<4x16xf32>
  %e = linalg.generic {indexing_maps = [#id, #mrow, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk, %max : tensor<4x16x24xf32>, tensor<4x16xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%x: f32, %h: f32, %out: f32):
    %d = arith.subf %x, %h : f32
    %t = math.exp %d : f32
    linalg.yield %t : f32
  } -> tensor<4x16x24xf32>
  %zf = linalg.fill ins(%zero : f32) outs(%re : tensor<4x16xf32>) -> tensor<4x16xf32>
  %sum = linalg.generic {indexing_maps = [#id, #mrow], iterator_types = ["parallel", "parallel", "reduction"]} ins(%qk : tensor<4x16x24xf32>) outs(%zf : tensor<4x16xf32>) {
  ^bb0(%x: f32, %out: f32):
    %t = arith.addf %x, %out : f32
    linalg.yield %t : f32
  } -> tensor<4x16xf32>
  %p = linalg.generic {indexing_maps = [#id, #mrow, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%e, %sum : tensor<4x16x24xf32>, tensor<4x16xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%x: f32, %h: f32, %out: f32):
    %one = arith.constant 1.0 : f32
    %i = arith.divf %one, %h : f32
    %t = arith.mulf %i, %x : f32
    linalg.yield %t : f32
  } -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>
#mrow = affine_map<(b, m, n) -> (b, m)>

// The maximum is that of another tensor: the graph overflows where attention does not.
// CHECK-LABEL: @no_fusion_maximum_of_other_values
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_maximum_of_other_values(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %other: tensor<4x16x24xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %low = arith.constant 0xFF800000 : f32
  %re = tensor.empty() : tensor<4x16xf32>
  %lf = linalg.fill ins(%low : f32) outs(%re : tensor<4x16xf32>) -> tensor<4x16xf32>
  %max = linalg.generic {indexing_maps = [#id, #mrow], iterator_types = ["parallel", "parallel", "reduction"]} ins(%other : tensor<4x16x24xf32>) outs(%lf : tensor<4x16xf32>) {
  ^bb0(%x: f32, %out: f32):
    %t = arith.maximumf %x, %out : f32
    linalg.yield %t : f32
  } -> tensor<4x16xf32>
  %e = linalg.generic {indexing_maps = [#id, #mrow, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk, %max : tensor<4x16x24xf32>, tensor<4x16xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%x: f32, %h: f32, %out: f32):
    %d = arith.subf %x, %h : f32
    %t = math.exp %d : f32
    linalg.yield %t : f32
  } -> tensor<4x16x24xf32>
  %zf = linalg.fill ins(%zero : f32) outs(%re : tensor<4x16xf32>) -> tensor<4x16xf32>
  %sum = linalg.generic {indexing_maps = [#id, #mrow], iterator_types = ["parallel", "parallel", "reduction"]} ins(%e : tensor<4x16x24xf32>) outs(%zf : tensor<4x16xf32>) {
  ^bb0(%x: f32, %out: f32):
    %t = arith.addf %x, %out : f32
    linalg.yield %t : f32
  } -> tensor<4x16xf32>
  %p = linalg.generic {indexing_maps = [#id, #mrow, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%e, %sum : tensor<4x16x24xf32>, tensor<4x16xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%x: f32, %h: f32, %out: f32):
    %one = arith.constant 1.0 : f32
    %i = arith.divf %one, %h : f32
    %t = arith.mulf %i, %x : f32
    linalg.yield %t : f32
  } -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_f64
// WHY: element_type
// WHY: f64
func.func @no_fusion_f64(%q: tensor<4x16x8xf64>, %k: tensor<4x8x24xf64>, %v: tensor<4x24x8xf64>) -> tensor<4x16x8xf64> {
  %zero = arith.constant 0.0 : f64
  %se = tensor.empty() : tensor<4x16x24xf64>
  %sf = linalg.fill ins(%zero : f64) outs(%se : tensor<4x16x24xf64>) -> tensor<4x16x24xf64>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf64>, tensor<4x8x24xf64>) outs(%sf : tensor<4x16x24xf64>) -> tensor<4x16x24xf64>
  %p = linalg.softmax dimension(2) ins(%qk : tensor<4x16x24xf64>) outs(%se : tensor<4x16x24xf64>) -> tensor<4x16x24xf64>
  %oe = tensor.empty() : tensor<4x16x8xf64>
  %of = linalg.fill ins(%zero : f64) outs(%oe : tensor<4x16x8xf64>) -> tensor<4x16x8xf64>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf64>, tensor<4x24x8xf64>) outs(%of : tensor<4x16x8xf64>) -> tensor<4x16x8xf64>
  return %o : tensor<4x16x8xf64>
}

// -----

// IREE needs the head size to choose tiles.
// CHECK-LABEL: @no_fusion_head_size_is_dynamic
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_head_size_is_dynamic
// WHY: dynamic_shape
// WHY: the head size
func.func @no_fusion_head_size_is_dynamic(%q: tensor<4x16x?xf32>, %k: tensor<4x?x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x?xf32>, tensor<4x?x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%qk : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

// One query a head: there is no tile of queries to share the keys. A kernel splits them.
// CHECK-LABEL: @single_query_without_a_kernel
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// KERNEL-LABEL: @single_query_without_a_kernel
// KERNEL: tensor.expand_shape %{{.*}} {{\[\[}}0], [1, 2{{\]\]}} output_shape [4, 1, 8]
// KERNEL: iree_linalg_ext.attention
// KERNEL: return
// WHY-LABEL: @single_query_without_a_kernel
// WHY: target_unsupported
// WHY: no kernel for a single query
func.func @single_query_without_a_kernel(%q: tensor<4x1x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x1x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x1x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x1x24xf32>) -> tensor<4x1x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x1x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x1x24xf32>) -> tensor<4x1x24xf32>
  %p = linalg.softmax dimension(2) ins(%qk : tensor<4x1x24xf32>) outs(%se : tensor<4x1x24xf32>) -> tensor<4x1x24xf32>
  %oe = tensor.empty() : tensor<4x1x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x1x8xf32>) -> tensor<4x1x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x1x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x1x8xf32>) -> tensor<4x1x8xf32>
  return %o : tensor<4x1x8xf32>
}

// -----

#w = affine_map<(b, m, n, k) -> (b, m, k)>
#v = affine_map<(b, m, n, k) -> (k, n)>
#o = affine_map<(b, m, n, k) -> (b, m, n)>

// q and k are per head, v is one for all: an attention op has no such dimension.
// CHECK-LABEL: @no_fusion_one_v_for_all_heads_of_k
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_one_v_for_all_heads_of_k
// WHY: indexing_map
// WHY: a dimension of q, k, o alone
func.func @no_fusion_one_v_for_all_heads_of_k(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%qk : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.generic {indexing_maps = [#w, #v, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%p, %v : tensor<4x16x24xf32>, tensor<24x8xf32>) outs(%of : tensor<4x16x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %x = arith.mulf %a, %b : f32
    %t = arith.addf %c, %x : f32
    linalg.yield %t : f32
  } -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>
#mrow = affine_map<(b, m, n) -> (b, m)>

// The softmax that can attend to nothing: not the pattern at all.
// CHECK-LABEL: @no_fusion_sum_starts_from_one
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_sum_starts_from_one(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %unit = arith.constant 1.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %low = arith.constant 0xFF800000 : f32
  %re = tensor.empty() : tensor<4x16xf32>
  %lf = linalg.fill ins(%low : f32) outs(%re : tensor<4x16xf32>) -> tensor<4x16xf32>
  %max = linalg.generic {indexing_maps = [#id, #mrow], iterator_types = ["parallel", "parallel", "reduction"]} ins(%qk : tensor<4x16x24xf32>) outs(%lf : tensor<4x16xf32>) {
  ^bb0(%x: f32, %out: f32):
    %t = arith.maximumf %x, %out : f32
    linalg.yield %t : f32
  } -> tensor<4x16xf32>
  %e = linalg.generic {indexing_maps = [#id, #mrow, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk, %max : tensor<4x16x24xf32>, tensor<4x16xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%x: f32, %h: f32, %out: f32):
    %d = arith.subf %x, %h : f32
    %t = math.exp %d : f32
    linalg.yield %t : f32
  } -> tensor<4x16x24xf32>
  %zf = linalg.fill ins(%unit : f32) outs(%re : tensor<4x16xf32>) -> tensor<4x16xf32>
  %sum = linalg.generic {indexing_maps = [#id, #mrow], iterator_types = ["parallel", "parallel", "reduction"]} ins(%e : tensor<4x16x24xf32>) outs(%zf : tensor<4x16xf32>) {
  ^bb0(%x: f32, %out: f32):
    %t = arith.addf %x, %out : f32
    linalg.yield %t : f32
  } -> tensor<4x16xf32>
  %p = linalg.generic {indexing_maps = [#id, #mrow, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%e, %sum : tensor<4x16x24xf32>, tensor<4x16xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%x: f32, %h: f32, %out: f32):
    %one = arith.constant 1.0 : f32
    %i = arith.divf %one, %h : f32
    %t = arith.mulf %i, %x : f32
    linalg.yield %t : f32
  } -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>
#mrow = affine_map<(b, m, n) -> (b, m)>

// Scores below zero are not shifted by their maximum: not the pattern at all.
// CHECK-LABEL: @no_fusion_maximum_starts_from_zero
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_maximum_starts_from_zero(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %low = arith.constant 0.0 : f32
  %re = tensor.empty() : tensor<4x16xf32>
  %lf = linalg.fill ins(%low : f32) outs(%re : tensor<4x16xf32>) -> tensor<4x16xf32>
  %max = linalg.generic {indexing_maps = [#id, #mrow], iterator_types = ["parallel", "parallel", "reduction"]} ins(%qk : tensor<4x16x24xf32>) outs(%lf : tensor<4x16xf32>) {
  ^bb0(%x: f32, %out: f32):
    %t = arith.maximumf %x, %out : f32
    linalg.yield %t : f32
  } -> tensor<4x16xf32>
  %e = linalg.generic {indexing_maps = [#id, #mrow, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk, %max : tensor<4x16x24xf32>, tensor<4x16xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%x: f32, %h: f32, %out: f32):
    %d = arith.subf %x, %h : f32
    %t = math.exp %d : f32
    linalg.yield %t : f32
  } -> tensor<4x16x24xf32>
  %zf = linalg.fill ins(%zero : f32) outs(%re : tensor<4x16xf32>) -> tensor<4x16xf32>
  %sum = linalg.generic {indexing_maps = [#id, #mrow], iterator_types = ["parallel", "parallel", "reduction"]} ins(%e : tensor<4x16x24xf32>) outs(%zf : tensor<4x16xf32>) {
  ^bb0(%x: f32, %out: f32):
    %t = arith.addf %x, %out : f32
    linalg.yield %t : f32
  } -> tensor<4x16xf32>
  %p = linalg.generic {indexing_maps = [#id, #mrow, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%e, %sum : tensor<4x16x24xf32>, tensor<4x16xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%x: f32, %h: f32, %out: f32):
    %one = arith.constant 1.0 : f32
    %i = arith.divf %one, %h : f32
    %t = arith.mulf %i, %x : f32
    linalg.yield %t : f32
  } -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#s = affine_map<(b, m, n, k) -> (b, m, n)>
#q = affine_map<(b, m, n, k) -> (b, m, k)>
#k = affine_map<(b, m, n, k) -> (b, k, n)>

// The generic multiplies an input with itself: not the pattern at all.
// CHECK-LABEL: @no_fusion_squares_of_q
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_squares_of_q(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.generic {indexing_maps = [#q, #k, #s], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %x = arith.mulf %a, %a : f32
    %t = arith.addf %c, %x : f32
    linalg.yield %t : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%qk : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#s = affine_map<(b, m, n, k) -> (b, m, n)>
#q = affine_map<(b, m, n, k) -> (b, m, m, k)>
#k = affine_map<(b, m, n, k) -> (b, k, n)>

// q is read where its second and third index are the same.
// CHECK-LABEL: @no_fusion_diagonal_of_q
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_diagonal_of_q
// WHY: indexing_map
// WHY: an operand reads a diagonal
func.func @no_fusion_diagonal_of_q(%q: tensor<4x16x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.generic {indexing_maps = [#q, #k, #s], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<4x16x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %x = arith.mulf %a, %b : f32
    %t = arith.addf %c, %x : f32
    linalg.yield %t : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%qk : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

// Heads that no kernel has room for are two contractions and a softmax, with a kernel each.
// KERNEL-LABEL: @large_heads(
// KERNEL-NOT: flow.dispatch.region
// KERNEL: return
func.func @large_heads(%q: tensor<4x16x512xf16>, %k: tensor<4x512x32xf16>, %v: tensor<4x32x512xf16>) -> tensor<4x16x512xf16> {
  %zero = arith.constant 0.0 : f16
  %se = tensor.empty() : tensor<4x16x32xf16>
  %sf = linalg.fill ins(%zero : f16) outs(%se : tensor<4x16x32xf16>) -> tensor<4x16x32xf16>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x512xf16>, tensor<4x512x32xf16>) outs(%sf : tensor<4x16x32xf16>) -> tensor<4x16x32xf16>
  %p = linalg.softmax dimension(2) ins(%qk : tensor<4x16x32xf16>) outs(%se : tensor<4x16x32xf16>) -> tensor<4x16x32xf16>
  %oe = tensor.empty() : tensor<4x16x512xf16>
  %of = linalg.fill ins(%zero : f16) outs(%oe : tensor<4x16x512xf16>) -> tensor<4x16x512xf16>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x32xf16>, tensor<4x32x512xf16>) outs(%of : tensor<4x16x512xf16>) -> tensor<4x16x512xf16>
  return %o : tensor<4x16x512xf16>
}
