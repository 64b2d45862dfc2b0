// RUN: %mlirfuse-opt %s --split-input-file --pipeline=group_norm_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=group_norm_fusion --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=none > %t.none
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=group_norm_fusion --disable-pass=group_norm_fusion > %t.off
// RUN: diff %t.none %t.off

#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d1)>

// From: torch.nn.functional.group_norm(x, 4, w, b), exported by mlirfuse.frontends.import_model, and
//       iree-compile --compile-to=global-optimization --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// CHECK-LABEL: @pytorch_group_norm
// CHECK-SAME: %[[A0:.*]]: tensor<2x8x2x3xf32>, %[[A1:.*]]: tensor<8xf32>, %[[A2:.*]]: tensor<8xf32>
// CHECK: %[[V0:.*]] = tensor.collapse_shape %[[A0]] {{.*}} : tensor<2x8x2x3xf32> into tensor<2x48xf32>
// CHECK: %[[V1:.*]] = tensor.expand_shape %[[V0]] {{.*}} : tensor<2x48xf32> into tensor<2x4x12xf32>
// CHECK: %[[V2:.*]] = tensor.expand_shape %[[V1]] {{.*}} : tensor<2x4x12xf32> into tensor<2x4x2x6xf32>
// CHECK: %[[V3:.*]] = tensor.expand_shape %[[A1]] {{.*}} : tensor<8xf32> into tensor<4x2xf32>
// CHECK: %[[V4:.*]] = tensor.expand_shape %[[A2]] {{.*}} : tensor<8xf32> into tensor<4x2xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x4x2x6xf32>) attributes {mlirfuse.match = 0 : i64, mlirfuse.pass = "group_norm_fusion"}
// CHECK: %[[V5:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V2]] :
// CHECK: %[[V6:.*]] = linalg.generic {{.*}} ins(%[[V5]] :
// CHECK: %[[V7:.*]] = linalg.generic {{.*}} ins(%[[V2]], %[[V6]] :
// CHECK: %[[V8:.*]] = linalg.generic {{.*}} ins(%[[V7]] :
// CHECK: %[[V9:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V8]] :
// CHECK: %[[V10:.*]] = linalg.generic {{.*}} ins(%[[V9]] :
// CHECK: %[[V11:.*]] = linalg.generic {{.*}} ins(%[[V10]] :
// CHECK: %[[V12:.*]] = linalg.generic {{.*}} ins(%[[V11]] :
// CHECK: %[[V13:.*]] = linalg.generic {{.*}} ins(%[[V7]], %[[V12]] :
// CHECK: %[[V14:.*]] = linalg.generic {{.*}} ins(%[[V13]], %[[V3]] :
// CHECK: %[[V15:.*]] = linalg.generic {{.*}} ins(%[[V14]], %[[V4]] :
// CHECK: flow.return %[[V15]] :
// CHECK: %[[V16:.*]] = tensor.collapse_shape %[[R]] {{.*}} : tensor<2x4x2x6xf32> into tensor<2x8x6xf32>
// CHECK: %[[V17:.*]] = tensor.expand_shape %[[V16]] {{.*}} : tensor<2x8x6xf32> into tensor<2x8x2x3xf32>
// CHECK: return %[[V17]] :
func.func @pytorch_group_norm(%arg0: tensor<2x8x2x3xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>) -> tensor<2x8x2x3xf32> {
  %cst = arith.constant 1.200000e+01 : f32
  %cst_0 = arith.constant 9.99999974E-6 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %collapsed = tensor.collapse_shape %arg0 [[0], [1, 2, 3]] : tensor<2x8x2x3xf32> into tensor<2x48xf32>
  %expanded = tensor.expand_shape %collapsed [[0], [1, 2]] output_shape [2, 4, 12] : tensor<2x48xf32> into tensor<2x4x12xf32>
  %0 = tensor.empty() : tensor<2x4xf32>
  %1 = linalg.fill ins(%cst_1 : f32) outs(%0 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%expanded : tensor<2x4x12xf32>) outs(%1 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = arith.addf %in, %out : f32
    linalg.yield %15 : f32
  } -> tensor<2x4xf32>
  %3 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = arith.divf %in, %cst : f32
    linalg.yield %15 : f32
  } -> tensor<2x4xf32>
  %4 = tensor.empty() : tensor<2x4x12xf32>
  %5 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded, %3 : tensor<2x4x12xf32>, tensor<2x4xf32>) outs(%4 : tensor<2x4x12xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %15 = arith.subf %in, %in_4 : f32
    linalg.yield %15 : f32
  } -> tensor<2x4x12xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%5 : tensor<2x4x12xf32>) outs(%4 : tensor<2x4x12xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = arith.mulf %in, %in : f32
    linalg.yield %15 : f32
  } -> tensor<2x4x12xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%6 : tensor<2x4x12xf32>) outs(%1 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = arith.addf %in, %out : f32
    linalg.yield %15 : f32
  } -> tensor<2x4xf32>
  %8 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%7 : tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = arith.divf %in, %cst : f32
    linalg.yield %15 : f32
  } -> tensor<2x4xf32>
  %9 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%8 : tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = arith.addf %in, %cst_0 : f32
    linalg.yield %15 : f32
  } -> tensor<2x4xf32>
  %10 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%9 : tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = math.rsqrt %in : f32
    linalg.yield %15 : f32
  } -> tensor<2x4xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%5, %10 : tensor<2x4x12xf32>, tensor<2x4xf32>) outs(%4 : tensor<2x4x12xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %15 = arith.mulf %in, %in_4 : f32
    linalg.yield %15 : f32
  } -> tensor<2x4x12xf32>
  %collapsed_2 = tensor.collapse_shape %11 [[0], [1, 2]] : tensor<2x4x12xf32> into tensor<2x48xf32>
  %expanded_3 = tensor.expand_shape %collapsed_2 [[0], [1, 2, 3]] output_shape [2, 8, 2, 3] : tensor<2x48xf32> into tensor<2x8x2x3xf32>
  %12 = tensor.empty() : tensor<2x8x2x3xf32>
  %13 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_3, %arg1 : tensor<2x8x2x3xf32>, tensor<8xf32>) outs(%12 : tensor<2x8x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %15 = arith.mulf %in, %in_4 : f32
    linalg.yield %15 : f32
  } -> tensor<2x8x2x3xf32>
  %14 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%13, %arg2 : tensor<2x8x2x3xf32>, tensor<8xf32>) outs(%12 : tensor<2x8x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %15 = arith.addf %in, %in_4 : f32
    linalg.yield %15 : f32
  } -> tensor<2x8x2x3xf32>
  return %14 : tensor<2x8x2x3xf32>
}

// -----

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0) -> (d0)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map3 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map4 = affine_map<(d0, d1) -> (d0, d1)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d1)>

// The casts are taken in: no f32 tensor is written. From: the same in f16.
// CHECK-LABEL: @pytorch_f16
// CHECK-SAME: %[[A0:.*]]: tensor<2x8x2x3xf16>, %[[A1:.*]]: tensor<8xf16>, %[[A2:.*]]: tensor<8xf16>
// CHECK: %[[V0:.*]] = tensor.collapse_shape %[[A0]] {{.*}} : tensor<2x8x2x3xf16> into tensor<2x8x6xf16>
// CHECK: %[[V1:.*]] = tensor.expand_shape %[[V0]] {{.*}} : tensor<2x8x6xf16> into tensor<2x4x2x6xf16>
// CHECK: %[[V2:.*]] = tensor.expand_shape %[[A1]] {{.*}} : tensor<8xf16> into tensor<4x2xf16>
// CHECK: %[[V3:.*]] = tensor.expand_shape %[[A2]] {{.*}} : tensor<8xf16> into tensor<4x2xf16>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x4x2x6xf16>) attributes {mlirfuse.match = 0 : i64, mlirfuse.pass = "group_norm_fusion"}
// CHECK: %[[V4:.*]] = linalg.generic {{.*}} ins(%[[V1]] :
// CHECK: %[[V5:.*]] = linalg.generic {{.*}} ins(%[[V2]] :
// CHECK: %[[V6:.*]] = linalg.generic {{.*}} ins(%[[V3]] :
// CHECK: %[[V7:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V4]] :
// CHECK: %[[V8:.*]] = linalg.generic {{.*}} ins(%[[V7]] :
// CHECK: %[[V9:.*]] = linalg.generic {{.*}} ins(%[[V4]], %[[V8]] :
// CHECK: %[[V10:.*]] = linalg.generic {{.*}} ins(%[[V9]] :
// CHECK: %[[V11:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V10]] :
// CHECK: %[[V12:.*]] = linalg.generic {{.*}} ins(%[[V11]] :
// CHECK: %[[V13:.*]] = linalg.generic {{.*}} ins(%[[V12]] :
// CHECK: %[[V14:.*]] = linalg.generic {{.*}} ins(%[[V13]] :
// CHECK: %[[V15:.*]] = linalg.generic {{.*}} ins(%[[V9]], %[[V14]] :
// CHECK: %[[V16:.*]] = linalg.generic {{.*}} ins(%[[V15]], %[[V5]] :
// CHECK: %[[V17:.*]] = linalg.generic {{.*}} ins(%[[V16]], %[[V6]] :
// CHECK: %[[V18:.*]] = linalg.generic {{.*}} ins(%[[V17]] :
// CHECK: flow.return %[[V18]] :
// CHECK: %[[V19:.*]] = tensor.collapse_shape %[[R]] {{.*}} : tensor<2x4x2x6xf16> into tensor<2x8x6xf16>
// CHECK: %[[V20:.*]] = tensor.expand_shape %[[V19]] {{.*}} : tensor<2x8x6xf16> into tensor<2x8x2x3xf16>
// CHECK: return %[[V20]] :
func.func @pytorch_f16(%arg0: tensor<2x8x2x3xf16>, %arg1: tensor<8xf16>, %arg2: tensor<8xf16>) -> tensor<2x8x2x3xf16> {
  %cst = arith.constant 1.200000e+01 : f32
  %cst_0 = arith.constant 9.99999974E-6 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x8x2x3xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<2x8x2x3xf16>) outs(%0 : tensor<2x8x2x3xf32>) {
  ^bb0(%in: f16, %out: f32):
    %21 = arith.extf %in : f16 to f32
    linalg.yield %21 : f32
  } -> tensor<2x8x2x3xf32>
  %2 = tensor.empty() : tensor<8xf32>
  %3 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%arg1 : tensor<8xf16>) outs(%2 : tensor<8xf32>) {
  ^bb0(%in: f16, %out: f32):
    %21 = arith.extf %in : f16 to f32
    linalg.yield %21 : f32
  } -> tensor<8xf32>
  %4 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%arg2 : tensor<8xf16>) outs(%2 : tensor<8xf32>) {
  ^bb0(%in: f16, %out: f32):
    %21 = arith.extf %in : f16 to f32
    linalg.yield %21 : f32
  } -> tensor<8xf32>
  %collapsed = tensor.collapse_shape %1 [[0], [1, 2, 3]] : tensor<2x8x2x3xf32> into tensor<2x48xf32>
  %expanded = tensor.expand_shape %collapsed [[0], [1, 2]] output_shape [2, 4, 12] : tensor<2x48xf32> into tensor<2x4x12xf32>
  %5 = tensor.empty() : tensor<2x4xf32>
  %6 = linalg.fill ins(%cst_1 : f32) outs(%5 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %7 = linalg.generic {indexing_maps = [#map2, #map3], iterator_types = ["parallel", "parallel", "reduction"]} ins(%expanded : tensor<2x4x12xf32>) outs(%6 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.addf %in, %out : f32
    linalg.yield %21 : f32
  } -> tensor<2x4xf32>
  %8 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%7 : tensor<2x4xf32>) outs(%5 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.divf %in, %cst : f32
    linalg.yield %21 : f32
  } -> tensor<2x4xf32>
  %9 = tensor.empty() : tensor<2x4x12xf32>
  %10 = linalg.generic {indexing_maps = [#map2, #map3, #map2], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded, %8 : tensor<2x4x12xf32>, tensor<2x4xf32>) outs(%9 : tensor<2x4x12xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %21 = arith.subf %in, %in_4 : f32
    linalg.yield %21 : f32
  } -> tensor<2x4x12xf32>
  %11 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel", "parallel"]} ins(%10 : tensor<2x4x12xf32>) outs(%9 : tensor<2x4x12xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.mulf %in, %in : f32
    linalg.yield %21 : f32
  } -> tensor<2x4x12xf32>
  %12 = linalg.generic {indexing_maps = [#map2, #map3], iterator_types = ["parallel", "parallel", "reduction"]} ins(%11 : tensor<2x4x12xf32>) outs(%6 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.addf %in, %out : f32
    linalg.yield %21 : f32
  } -> tensor<2x4xf32>
  %13 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%12 : tensor<2x4xf32>) outs(%5 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.divf %in, %cst : f32
    linalg.yield %21 : f32
  } -> tensor<2x4xf32>
  %14 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%13 : tensor<2x4xf32>) outs(%5 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.addf %in, %cst_0 : f32
    linalg.yield %21 : f32
  } -> tensor<2x4xf32>
  %15 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%14 : tensor<2x4xf32>) outs(%5 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = math.rsqrt %in : f32
    linalg.yield %21 : f32
  } -> tensor<2x4xf32>
  %16 = linalg.generic {indexing_maps = [#map2, #map3, #map2], iterator_types = ["parallel", "parallel", "parallel"]} ins(%10, %15 : tensor<2x4x12xf32>, tensor<2x4xf32>) outs(%9 : tensor<2x4x12xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %21 = arith.mulf %in, %in_4 : f32
    linalg.yield %21 : f32
  } -> tensor<2x4x12xf32>
  %collapsed_2 = tensor.collapse_shape %16 [[0], [1, 2]] : tensor<2x4x12xf32> into tensor<2x48xf32>
  %expanded_3 = tensor.expand_shape %collapsed_2 [[0], [1, 2, 3]] output_shape [2, 8, 2, 3] : tensor<2x48xf32> into tensor<2x8x2x3xf32>
  %17 = linalg.generic {indexing_maps = [#map, #map5, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_3, %3 : tensor<2x8x2x3xf32>, tensor<8xf32>) outs(%0 : tensor<2x8x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %21 = arith.mulf %in, %in_4 : f32
    linalg.yield %21 : f32
  } -> tensor<2x8x2x3xf32>
  %18 = linalg.generic {indexing_maps = [#map, #map5, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%17, %4 : tensor<2x8x2x3xf32>, tensor<8xf32>) outs(%0 : tensor<2x8x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %21 = arith.addf %in, %in_4 : f32
    linalg.yield %21 : f32
  } -> tensor<2x8x2x3xf32>
  %19 = tensor.empty() : tensor<2x8x2x3xf16>
  %20 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%18 : tensor<2x8x2x3xf32>) outs(%19 : tensor<2x8x2x3xf16>) {
  ^bb0(%in: f32, %out: f16):
    %21 = arith.truncf %in : f32 to f16
    linalg.yield %21 : f16
  } -> tensor<2x8x2x3xf16>
  return %20 : tensor<2x8x2x3xf16>
}

// -----

#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d1)>

// From: the same with a dynamic batch.
// CHECK-LABEL: @pytorch_dynamic_batch
// CHECK-SAME: %[[A0:.*]]: tensor<?x8x2x3xf32>, %[[A1:.*]]: tensor<8xf32>, %[[A2:.*]]: tensor<8xf32>
// CHECK: %[[V0:.*]] = tensor.dim %[[A0]],
// CHECK: %[[V1:.*]] = tensor.dim %{{.*}},
// CHECK: %[[V2:.*]] = tensor.expand_shape %{{.*}} {{.*}} : tensor<?x4x12xf32> into tensor<?x4x2x6xf32>
// CHECK: %[[V3:.*]] = tensor.expand_shape %[[A1]] {{.*}} : tensor<8xf32> into tensor<4x2xf32>
// CHECK: %[[V4:.*]] = tensor.expand_shape %[[A2]] {{.*}} : tensor<8xf32> into tensor<4x2xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<?x4x2x6xf32>{%[[V0]]}) attributes {mlirfuse.match = 0 : i64, mlirfuse.pass = "group_norm_fusion"}
// CHECK: %[[V5:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V2]] :
// CHECK: %[[V6:.*]] = linalg.generic {{.*}} ins(%[[V5]] :
// CHECK: %[[V7:.*]] = linalg.generic {{.*}} ins(%[[V2]], %[[V6]] :
// CHECK: %[[V8:.*]] = linalg.generic {{.*}} ins(%[[V7]] :
// CHECK: %[[V9:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V8]] :
// CHECK: %[[V10:.*]] = linalg.generic {{.*}} ins(%[[V9]] :
// CHECK: %[[V11:.*]] = linalg.generic {{.*}} ins(%[[V10]] :
// CHECK: %[[V12:.*]] = linalg.generic {{.*}} ins(%[[V11]] :
// CHECK: %[[V13:.*]] = linalg.generic {{.*}} ins(%[[V7]], %[[V12]] :
// CHECK: %[[V14:.*]] = linalg.generic {{.*}} ins(%[[V13]], %[[V3]] :
// CHECK: %[[V15:.*]] = linalg.generic {{.*}} ins(%[[V14]], %[[V4]] :
// CHECK: flow.return %[[V15]] :
// CHECK: %[[V16:.*]] = tensor.collapse_shape %[[R]] {{.*}} : tensor<?x4x2x6xf32> into tensor<?x8x6xf32>
// CHECK: %[[V17:.*]] = tensor.expand_shape %[[V16]] {{.*}} : tensor<?x8x6xf32> into tensor<?x8x2x3xf32>
// CHECK: return %[[V17]] :
func.func @pytorch_dynamic_batch(%arg0: tensor<?x8x2x3xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>) -> tensor<?x8x2x3xf32> {
  %cst = arith.constant 1.200000e+01 : f32
  %c48_i64 = arith.constant 48 : i64
  %cst_0 = arith.constant 9.99999974E-6 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %c4_i64 = arith.constant 4 : i64
  %c0 = arith.constant 0 : index
  %dim = tensor.dim %arg0, %c0 : tensor<?x8x2x3xf32>
  %0 = arith.index_cast %dim : index to i64
  %1 = arith.muli %0, %c4_i64 : i64
  %2 = arith.muli %0, %c48_i64 : i64
  %3 = arith.divui %2, %1 : i64
  %from_elements = tensor.from_elements %0, %c4_i64, %3 : tensor<3xi64>
  %reshape = tensor.reshape %arg0(%from_elements) : (tensor<?x8x2x3xf32>, tensor<3xi64>) -> tensor<?x4x12xf32>
  %4 = tensor.empty(%dim) : tensor<?x4xf32>
  %5 = linalg.fill ins(%cst_1 : f32) outs(%4 : tensor<?x4xf32>) -> tensor<?x4xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%reshape : tensor<?x4x12xf32>) outs(%5 : tensor<?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %19 = arith.addf %in, %out : f32
    linalg.yield %19 : f32
  } -> tensor<?x4xf32>
  %7 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%6 : tensor<?x4xf32>) outs(%4 : tensor<?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %19 = arith.divf %in, %cst : f32
    linalg.yield %19 : f32
  } -> tensor<?x4xf32>
  %8 = tensor.empty(%dim) : tensor<?x4x12xf32>
  %9 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%reshape, %7 : tensor<?x4x12xf32>, tensor<?x4xf32>) outs(%8 : tensor<?x4x12xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %19 = arith.subf %in, %in_2 : f32
    linalg.yield %19 : f32
  } -> tensor<?x4x12xf32>
  %10 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%9 : tensor<?x4x12xf32>) outs(%8 : tensor<?x4x12xf32>) {
  ^bb0(%in: f32, %out: f32):
    %19 = arith.mulf %in, %in : f32
    linalg.yield %19 : f32
  } -> tensor<?x4x12xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%10 : tensor<?x4x12xf32>) outs(%5 : tensor<?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %19 = arith.addf %in, %out : f32
    linalg.yield %19 : f32
  } -> tensor<?x4xf32>
  %12 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<?x4xf32>) outs(%4 : tensor<?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %19 = arith.divf %in, %cst : f32
    linalg.yield %19 : f32
  } -> tensor<?x4xf32>
  %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%12 : tensor<?x4xf32>) outs(%4 : tensor<?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %19 = arith.addf %in, %cst_0 : f32
    linalg.yield %19 : f32
  } -> tensor<?x4xf32>
  %14 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%13 : tensor<?x4xf32>) outs(%4 : tensor<?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %19 = math.rsqrt %in : f32
    linalg.yield %19 : f32
  } -> tensor<?x4xf32>
  %15 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%9, %14 : tensor<?x4x12xf32>, tensor<?x4xf32>) outs(%8 : tensor<?x4x12xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %19 = arith.mulf %in, %in_2 : f32
    linalg.yield %19 : f32
  } -> tensor<?x4x12xf32>
  %collapsed = tensor.collapse_shape %15 [[0], [1, 2]] : tensor<?x4x12xf32> into tensor<?x48xf32>
  %expanded = tensor.expand_shape %collapsed [[0], [1, 2, 3]] output_shape [%dim, 8, 2, 3] : tensor<?x48xf32> into tensor<?x8x2x3xf32>
  %16 = tensor.empty(%dim) : tensor<?x8x2x3xf32>
  %17 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded, %arg1 : tensor<?x8x2x3xf32>, tensor<8xf32>) outs(%16 : tensor<?x8x2x3xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %19 = arith.mulf %in, %in_2 : f32
    linalg.yield %19 : f32
  } -> tensor<?x8x2x3xf32>
  %18 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%17, %arg2 : tensor<?x8x2x3xf32>, tensor<8xf32>) outs(%16 : tensor<?x8x2x3xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %19 = arith.addf %in, %in_2 : f32
    linalg.yield %19 : f32
  } -> tensor<?x8x2x3xf32>
  return %18 : tensor<?x8x2x3xf32>
}

// -----

#map = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d3, d1, d4)>
#map1 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#map4 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d3)>
#map6 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>

// Channels after space. From: jax.jit of a group norm over y = x.reshape(n, h, w, groups, c // groups),
// .lower(...).as_text() and
//       iree-compile --compile-to=global-optimization --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// CHECK-LABEL: @jax_channels_last
// CHECK-SAME: %[[A0:.*]]: tensor<2x2x3x8xf32>, %[[A1:.*]]: tensor<8xf32>, %[[A2:.*]]: tensor<8xf32>
// CHECK: %[[V0:.*]] = tensor.expand_shape %[[A0]] {{.*}} : tensor<2x2x3x8xf32> into tensor<2x2x3x4x2xf32>
// CHECK: %[[V1:.*]] = tensor.collapse_shape %[[V0]] {{.*}} : tensor<2x2x3x4x2xf32> into tensor<2x6x4x2xf32>
// CHECK: %[[V2:.*]] = tensor.expand_shape %[[A1]] {{.*}} : tensor<8xf32> into tensor<4x2xf32>
// CHECK: %[[V3:.*]] = tensor.expand_shape %[[A2]] {{.*}} : tensor<8xf32> into tensor<4x2xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x6x4x2xf32>) attributes {mlirfuse.match = 0 : i64, mlirfuse.pass = "group_norm_fusion"}
// CHECK: %[[V4:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V1]] :
// CHECK: %[[V5:.*]] = linalg.generic {{.*}} ins(%[[V4]] :
// CHECK: %[[V6:.*]] = linalg.generic {{.*}} ins(%[[V1]] :
// CHECK: %[[V7:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V6]] :
// CHECK: %[[V8:.*]] = linalg.generic {{.*}} ins(%[[V7]] :
// CHECK: %[[V9:.*]] = linalg.generic {{.*}} ins(%[[V5]] :
// CHECK: %[[V10:.*]] = linalg.generic {{.*}} ins(%[[V8]], %[[V9]] :
// CHECK: %[[V11:.*]] = linalg.generic {{.*}} ins(%[[V5]] :
// CHECK: %[[V12:.*]] = linalg.generic {{.*}} ins(%[[V1]], %[[V11]] :
// CHECK: %[[V13:.*]] = linalg.generic {{.*}} ins(%[[V10]] :
// CHECK: %[[V14:.*]] = linalg.generic {{.*}} ins(%[[V13]] :
// CHECK: %[[V15:.*]] = linalg.generic {{.*}} ins(%[[V14]] :
// CHECK: %[[V16:.*]] = linalg.generic {{.*}} ins(%[[V12]], %[[V15]] :
// CHECK: %[[V17:.*]] = linalg.generic {{.*}} ins(%[[V2]] :
// CHECK: %[[V18:.*]] = linalg.generic {{.*}} ins(%[[V16]], %[[V17]] :
// CHECK: %[[V19:.*]] = linalg.generic {{.*}} ins(%[[V3]] :
// CHECK: %[[V20:.*]] = linalg.generic {{.*}} ins(%[[V18]], %[[V19]] :
// CHECK: flow.return %[[V20]] :
// CHECK: %[[V21:.*]] = tensor.collapse_shape %[[R]] {{.*}} : tensor<2x6x4x2xf32> into tensor<2x6x8xf32>
// CHECK: %[[V22:.*]] = tensor.expand_shape %[[V21]] {{.*}} : tensor<2x6x8xf32> into tensor<2x2x3x8xf32>
// CHECK: return %[[V22]] :
func.func @jax_channels_last(%arg0: tensor<2x2x3x8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>) -> tensor<2x2x3x8xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 1.200000e+01 : f32
  %cst_1 = arith.constant 9.99999974E-6 : f32
  %expanded = tensor.expand_shape %arg0 [[0], [1], [2], [3, 4]] output_shape [2, 2, 3, 4, 2] : tensor<2x2x3x8xf32> into tensor<2x2x3x4x2xf32>
  %0 = tensor.empty() : tensor<2x4xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%expanded : tensor<2x2x3x4x2xf32>) outs(%1 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.addf %out, %in : f32
    linalg.yield %21 : f32
  } -> tensor<2x4xf32>
  %3 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.divf %in, %cst_0 : f32
    linalg.yield %21 : f32
  } -> tensor<2x4xf32>
  %4 = tensor.empty() : tensor<2x2x3x4x2xf32>
  %5 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%expanded : tensor<2x2x3x4x2xf32>) outs(%4 : tensor<2x2x3x4x2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.mulf %in, %in : f32
    linalg.yield %21 : f32
  } -> tensor<2x2x3x4x2xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%5 : tensor<2x2x3x4x2xf32>) outs(%1 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.addf %out, %in : f32
    linalg.yield %21 : f32
  } -> tensor<2x4xf32>
  %7 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%6 : tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.divf %in, %cst_0 : f32
    linalg.yield %21 : f32
  } -> tensor<2x4xf32>
  %8 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.mulf %in, %in : f32
    linalg.yield %21 : f32
  } -> tensor<2x4xf32>
  %9 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%7, %8 : tensor<2x4xf32>, tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %21 = arith.subf %in, %in_2 : f32
    linalg.yield %21 : f32
  } -> tensor<2x4xf32>
  %10 = linalg.generic {indexing_maps = [#map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%3 : tensor<2x4xf32>) outs(%4 : tensor<2x2x3x4x2xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x2x3x4x2xf32>
  %11 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%expanded, %10 : tensor<2x2x3x4x2xf32>, tensor<2x2x3x4x2xf32>) outs(%4 : tensor<2x2x3x4x2xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %21 = arith.subf %in, %in_2 : f32
    linalg.yield %21 : f32
  } -> tensor<2x2x3x4x2xf32>
  %12 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%9 : tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.addf %in, %cst_1 : f32
    linalg.yield %21 : f32
  } -> tensor<2x4xf32>
  %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%12 : tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = math.rsqrt %in : f32
    linalg.yield %21 : f32
  } -> tensor<2x4xf32>
  %14 = linalg.generic {indexing_maps = [#map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%13 : tensor<2x4xf32>) outs(%4 : tensor<2x2x3x4x2xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x2x3x4x2xf32>
  %15 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%11, %14 : tensor<2x2x3x4x2xf32>, tensor<2x2x3x4x2xf32>) outs(%4 : tensor<2x2x3x4x2xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %21 = arith.mulf %in, %in_2 : f32
    linalg.yield %21 : f32
  } -> tensor<2x2x3x4x2xf32>
  %collapsed = tensor.collapse_shape %15 [[0], [1], [2], [3, 4]] : tensor<2x2x3x4x2xf32> into tensor<2x2x3x8xf32>
  %16 = tensor.empty() : tensor<2x2x3x8xf32>
  %17 = linalg.generic {indexing_maps = [#map5, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg1 : tensor<8xf32>) outs(%16 : tensor<2x2x3x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x2x3x8xf32>
  %18 = linalg.generic {indexing_maps = [#map6, #map6, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%collapsed, %17 : tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>) outs(%16 : tensor<2x2x3x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %21 = arith.mulf %in, %in_2 : f32
    linalg.yield %21 : f32
  } -> tensor<2x2x3x8xf32>
  %19 = linalg.generic {indexing_maps = [#map5, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg2 : tensor<8xf32>) outs(%16 : tensor<2x2x3x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x2x3x8xf32>
  %20 = linalg.generic {indexing_maps = [#map6, #map6, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%18, %19 : tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>) outs(%16 : tensor<2x2x3x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %21 = arith.addf %in, %in_2 : f32
    linalg.yield %21 : f32
  } -> tensor<2x2x3x8xf32>
  return %20 : tensor<2x2x3x8xf32>
}

// -----

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d1)>

// From: ONNX InstanceNormalization, iree-import-onnx and
//       iree-compile --compile-to=global-optimization --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// CHECK-LABEL: @onnx_instance_norm
// CHECK-SAME: %[[A0:.*]]: tensor<2x4x2x3xf32>, %[[A1:.*]]: tensor<4xf32>, %[[A2:.*]]: tensor<4xf32>
// CHECK: %[[V0:.*]] = tensor.collapse_shape %[[A0]] {{.*}} : tensor<2x4x2x3xf32> into tensor<2x4x6xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x4x6xf32>) attributes {mlirfuse.match = 0 : i64, mlirfuse.pass = "group_norm_fusion"}
// CHECK: %[[V1:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}} ins(%[[V1]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}} ins(%[[V2]] :
// CHECK: %[[V4:.*]] = linalg.generic {{.*}} ins(%[[V0]], %[[V3]] :
// CHECK: %[[V5:.*]] = linalg.generic {{.*}} ins(%[[V4]] :
// CHECK: %[[V6:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V5]] :
// CHECK: %[[V7:.*]] = linalg.generic {{.*}} ins(%[[V6]] :
// CHECK: %[[V8:.*]] = linalg.generic {{.*}} ins(%[[V7]] :
// CHECK: %[[V9:.*]] = linalg.generic {{.*}} ins(%[[V8]] :
// CHECK: %[[V10:.*]] = linalg.generic {{.*}} ins(%[[V9]] :
// CHECK: %[[V11:.*]] = linalg.generic {{.*}} ins(%[[V4]], %[[V10]] :
// CHECK: %[[V12:.*]] = linalg.generic {{.*}} ins(%[[A1]] :
// CHECK: %[[V13:.*]] = linalg.generic {{.*}} ins(%[[A2]] :
// CHECK: %[[V14:.*]] = linalg.generic {{.*}} ins(%[[V11]], %[[V12]] :
// CHECK: %[[V15:.*]] = linalg.generic {{.*}} ins(%[[V14]], %[[V13]] :
// CHECK: flow.return %[[V15]] :
// CHECK: %[[V16:.*]] = tensor.expand_shape %[[R]] {{.*}} : tensor<2x4x6xf32> into tensor<2x4x2x3xf32>
// CHECK: return %[[V16]] :
func.func @onnx_instance_norm(%arg0: tensor<2x4x2x3xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>) -> tensor<2x4x2x3xf32> {
  %cst = arith.constant 9.99999974E-6 : f32
  %cst_0 = arith.constant 6.000000e+00 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x4xf32>
  %1 = linalg.fill ins(%cst_1 : f32) outs(%0 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%arg0 : tensor<2x4x2x3xf32>) outs(%1 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %18 = arith.addf %in, %out : f32
    linalg.yield %18 : f32
  } -> tensor<2x4xf32>
  %3 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %18 = arith.divf %in, %cst_0 : f32
    linalg.yield %18 : f32
  } -> tensor<2x4xf32>
  %4 = tensor.empty() : tensor<2x4x2x3xf32>
  %5 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%3 : tensor<2x4xf32>) outs(%4 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x2x3xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %5 : tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>) outs(%4 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %18 = arith.subf %in, %in_2 : f32
    linalg.yield %18 : f32
  } -> tensor<2x4x2x3xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6 : tensor<2x4x2x3xf32>) outs(%4 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %18 = arith.mulf %in, %in : f32
    linalg.yield %18 : f32
  } -> tensor<2x4x2x3xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%7 : tensor<2x4x2x3xf32>) outs(%1 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %18 = arith.addf %in, %out : f32
    linalg.yield %18 : f32
  } -> tensor<2x4xf32>
  %9 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%8 : tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %18 = arith.divf %in, %cst_0 : f32
    linalg.yield %18 : f32
  } -> tensor<2x4xf32>
  %10 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%9 : tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %18 = arith.addf %in, %cst : f32
    linalg.yield %18 : f32
  } -> tensor<2x4xf32>
  %11 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<2x4xf32>) outs(%0 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %18 = math.rsqrt %in : f32
    linalg.yield %18 : f32
  } -> tensor<2x4xf32>
  %12 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%11 : tensor<2x4xf32>) outs(%4 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x2x3xf32>
  %13 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6, %12 : tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>) outs(%4 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %18 = arith.mulf %in, %in_2 : f32
    linalg.yield %18 : f32
  } -> tensor<2x4x2x3xf32>
  %14 = linalg.generic {indexing_maps = [#map3, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg1 : tensor<4xf32>) outs(%4 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x2x3xf32>
  %15 = linalg.generic {indexing_maps = [#map3, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg2 : tensor<4xf32>) outs(%4 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x2x3xf32>
  %16 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%13, %14 : tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>) outs(%4 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %18 = arith.mulf %in, %in_2 : f32
    linalg.yield %18 : f32
  } -> tensor<2x4x2x3xf32>
  %17 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%16, %15 : tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>) outs(%4 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %18 = arith.addf %in, %in_2 : f32
    linalg.yield %18 : f32
  } -> tensor<2x4x2x3xf32>
  return %17 : tensor<2x4x2x3xf32>
}

// -----

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1) -> (d1)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d1)>

// An instance norm; height and width become one dimension.
// CHECK-LABEL: @scale_joins_the_deviation
// CHECK-SAME: %[[A0:.*]]: tensor<2x4x2x3xf32>, %[[A1:.*]]: tensor<4xf32>, %[[A2:.*]]: tensor<4xf32>
// CHECK: %[[V0:.*]] = tensor.collapse_shape %[[A0]] {{.*}} : tensor<2x4x2x3xf32> into tensor<2x4x6xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x4x6xf32>) attributes {mlirfuse.match = 0 : i64, mlirfuse.pass = "group_norm_fusion"}
// CHECK: %[[V1:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}} ins(%[[V1]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}} ins(%[[V0]], %[[V2]] :
// CHECK: %[[V4:.*]] = linalg.generic {{.*}} ins(%[[V3]] :
// CHECK: %[[V5:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V4]] :
// CHECK: %[[V6:.*]] = linalg.generic {{.*}} ins(%[[V5]] :
// CHECK: %[[V7:.*]] = linalg.generic {{.*}} ins(%[[V6]] :
// CHECK: %[[V8:.*]] = linalg.generic {{.*}} ins(%[[V7]] :
// CHECK: %[[V9:.*]] = linalg.generic {{.*}} ins(%[[V8]], %[[A1]] :
// CHECK: %[[V10:.*]] = linalg.generic {{.*}} ins(%[[V3]], %[[V9]] :
// CHECK: %[[V11:.*]] = linalg.generic {{.*}} ins(%[[V10]], %[[A2]] :
// CHECK: flow.return %[[V11]] :
// CHECK: %[[V12:.*]] = tensor.expand_shape %[[R]] {{.*}} : tensor<2x4x6xf32> into tensor<2x4x2x3xf32>
// CHECK: return %[[V12]] :
func.func @scale_joins_the_deviation(%arg0: tensor<2x4x2x3xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>) -> tensor<2x4x2x3xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x4xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%arg0 : tensor<2x4x2x3xf32>) outs(%1 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.addf %in, %out : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %cst_0 = arith.constant 6.000000e+00 : f32
  %3 = tensor.empty() : tensor<2x4xf32>
  %4 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<2x4xf32>) outs(%3 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.divf %in, %cst_0 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %5 = tensor.empty() : tensor<2x4x2x3xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %4 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%5 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %24 = arith.subf %in, %in_4 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4x2x3xf32>
  %7 = tensor.empty() : tensor<2x4x2x3xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6 : tensor<2x4x2x3xf32>) outs(%7 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.mulf %in, %in : f32
    linalg.yield %24 : f32
  } -> tensor<2x4x2x3xf32>
  %cst_1 = arith.constant 0.000000e+00 : f32
  %9 = tensor.empty() : tensor<2x4xf32>
  %10 = linalg.fill ins(%cst_1 : f32) outs(%9 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%8 : tensor<2x4x2x3xf32>) outs(%10 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.addf %in, %out : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %cst_2 = arith.constant 6.000000e+00 : f32
  %12 = tensor.empty() : tensor<2x4xf32>
  %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<2x4xf32>) outs(%12 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.divf %in, %cst_2 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %cst_3 = arith.constant 9.99999974E-6 : f32
  %14 = tensor.empty() : tensor<2x4xf32>
  %15 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%13 : tensor<2x4xf32>) outs(%14 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.addf %in, %cst_3 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %16 = tensor.empty() : tensor<2x4xf32>
  %17 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<2x4xf32>) outs(%16 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = math.rsqrt %in : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %18 = tensor.empty() : tensor<2x4xf32>
  %19 = linalg.generic {indexing_maps = [#map2, #map3, #map2], iterator_types = ["parallel", "parallel"]} ins(%17, %arg1 : tensor<2x4xf32>, tensor<4xf32>) outs(%18 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %24 = arith.mulf %in, %in_4 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %20 = tensor.empty() : tensor<2x4x2x3xf32>
  %21 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6, %19 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%20 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %24 = arith.mulf %in, %in_4 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4x2x3xf32>
  %22 = tensor.empty() : tensor<2x4x2x3xf32>
  %23 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%21, %arg2 : tensor<2x4x2x3xf32>, tensor<4xf32>) outs(%22 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %24 = arith.addf %in, %in_4 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4x2x3xf32>
  return %23 : tensor<2x4x2x3xf32>
}

// -----

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d1)>

// CHECK-LABEL: @mean_and_deviation_read_elsewhere
// CHECK-SAME: %[[A0:.*]]: tensor<2x4x2x3xf32>, %[[A1:.*]]: tensor<4xf32>, %[[A2:.*]]: tensor<4xf32>
// CHECK: %[[V0:.*]] = tensor.collapse_shape %[[A0]] {{.*}} : tensor<2x4x2x3xf32> into tensor<2x4x6xf32>
// CHECK: %[[R:.*]]:3 = flow.dispatch.region -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4x6xf32>) attributes {mlirfuse.match = 0 : i64, mlirfuse.pass = "group_norm_fusion"}
// CHECK: %[[V1:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}} ins(%[[V1]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}} ins(%[[V0]], %[[V2]] :
// CHECK: %[[V4:.*]] = linalg.generic {{.*}} ins(%[[V3]] :
// CHECK: %[[V5:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V4]] :
// CHECK: %[[V6:.*]] = linalg.generic {{.*}} ins(%[[V5]] :
// CHECK: %[[V7:.*]] = linalg.generic {{.*}} ins(%[[V6]] :
// CHECK: %[[V8:.*]] = linalg.generic {{.*}} ins(%[[V7]] :
// CHECK: %[[V9:.*]] = linalg.generic {{.*}} ins(%[[V3]], %[[V8]] :
// CHECK: %[[V10:.*]] = linalg.generic {{.*}} ins(%[[V9]], %[[A1]] :
// CHECK: %[[V11:.*]] = linalg.generic {{.*}} ins(%[[V10]], %[[A2]] :
// CHECK: flow.return %[[V2]], %[[V8]], %[[V11]] :
// CHECK: %[[V12:.*]] = tensor.expand_shape %[[R]]#2 {{.*}} : tensor<2x4x6xf32> into tensor<2x4x2x3xf32>
// CHECK: return %[[V12]], %[[R]]#0, %[[R]]#1 :
func.func @mean_and_deviation_read_elsewhere(%arg0: tensor<2x4x2x3xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>) -> (tensor<2x4x2x3xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x4xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%arg0 : tensor<2x4x2x3xf32>) outs(%1 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.addf %in, %out : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %cst_0 = arith.constant 6.000000e+00 : f32
  %3 = tensor.empty() : tensor<2x4xf32>
  %4 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<2x4xf32>) outs(%3 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.divf %in, %cst_0 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %5 = tensor.empty() : tensor<2x4x2x3xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %4 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%5 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %24 = arith.subf %in, %in_4 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4x2x3xf32>
  %7 = tensor.empty() : tensor<2x4x2x3xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6 : tensor<2x4x2x3xf32>) outs(%7 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.mulf %in, %in : f32
    linalg.yield %24 : f32
  } -> tensor<2x4x2x3xf32>
  %cst_1 = arith.constant 0.000000e+00 : f32
  %9 = tensor.empty() : tensor<2x4xf32>
  %10 = linalg.fill ins(%cst_1 : f32) outs(%9 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%8 : tensor<2x4x2x3xf32>) outs(%10 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.addf %in, %out : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %cst_2 = arith.constant 6.000000e+00 : f32
  %12 = tensor.empty() : tensor<2x4xf32>
  %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<2x4xf32>) outs(%12 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.divf %in, %cst_2 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %cst_3 = arith.constant 9.99999974E-6 : f32
  %14 = tensor.empty() : tensor<2x4xf32>
  %15 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%13 : tensor<2x4xf32>) outs(%14 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.addf %in, %cst_3 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %16 = tensor.empty() : tensor<2x4xf32>
  %17 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<2x4xf32>) outs(%16 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = math.rsqrt %in : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %18 = tensor.empty() : tensor<2x4x2x3xf32>
  %19 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6, %17 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%18 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %24 = arith.mulf %in, %in_4 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4x2x3xf32>
  %20 = tensor.empty() : tensor<2x4x2x3xf32>
  %21 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%19, %arg1 : tensor<2x4x2x3xf32>, tensor<4xf32>) outs(%20 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %24 = arith.mulf %in, %in_4 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4x2x3xf32>
  %22 = tensor.empty() : tensor<2x4x2x3xf32>
  %23 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%21, %arg2 : tensor<2x4x2x3xf32>, tensor<4xf32>) outs(%22 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %24 = arith.addf %in, %in_4 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4x2x3xf32>
  return %23, %4, %17 : tensor<2x4x2x3xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>

// Adaptive instance norm.
// CHECK-LABEL: @scale_by_batch_and_channel
// CHECK-SAME: %[[A0:.*]]: tensor<2x4x2x3xf32>, %[[A1:.*]]: tensor<2x4xf32>
// CHECK: %[[V0:.*]] = tensor.collapse_shape %[[A0]] {{.*}} : tensor<2x4x2x3xf32> into tensor<8x6xf32>
// CHECK: %[[V1:.*]] = tensor.collapse_shape %[[A1]] {{.*}} : tensor<2x4xf32> into tensor<8xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<8x6xf32>) attributes {mlirfuse.match = 0 : i64, mlirfuse.pass = "group_norm_fusion"}
// CHECK: %[[V2:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}} ins(%[[V2]] :
// CHECK: %[[V4:.*]] = linalg.generic {{.*}} ins(%[[V0]], %[[V3]] :
// CHECK: %[[V5:.*]] = linalg.generic {{.*}} ins(%[[V4]] :
// CHECK: %[[V6:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V5]] :
// CHECK: %[[V7:.*]] = linalg.generic {{.*}} ins(%[[V6]] :
// CHECK: %[[V8:.*]] = linalg.generic {{.*}} ins(%[[V7]] :
// CHECK: %[[V9:.*]] = linalg.generic {{.*}} ins(%[[V8]] :
// CHECK: %[[V10:.*]] = linalg.generic {{.*}} ins(%[[V4]], %[[V9]] :
// CHECK: %[[V11:.*]] = linalg.generic {{.*}} ins(%[[V10]], %[[V1]] :
// CHECK: flow.return %[[V11]] :
// CHECK: %[[V12:.*]] = tensor.expand_shape %[[R]] {{.*}} : tensor<8x6xf32> into tensor<2x4x2x3xf32>
// CHECK: return %[[V12]] :
func.func @scale_by_batch_and_channel(%arg0: tensor<2x4x2x3xf32>, %arg1: tensor<2x4xf32>) -> tensor<2x4x2x3xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x4xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%arg0 : tensor<2x4x2x3xf32>) outs(%1 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %out : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %cst_0 = arith.constant 6.000000e+00 : f32
  %3 = tensor.empty() : tensor<2x4xf32>
  %4 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<2x4xf32>) outs(%3 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.divf %in, %cst_0 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %5 = tensor.empty() : tensor<2x4x2x3xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %4 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%5 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %22 = arith.subf %in, %in_4 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  %7 = tensor.empty() : tensor<2x4x2x3xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6 : tensor<2x4x2x3xf32>) outs(%7 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.mulf %in, %in : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  %cst_1 = arith.constant 0.000000e+00 : f32
  %9 = tensor.empty() : tensor<2x4xf32>
  %10 = linalg.fill ins(%cst_1 : f32) outs(%9 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%8 : tensor<2x4x2x3xf32>) outs(%10 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %out : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %cst_2 = arith.constant 6.000000e+00 : f32
  %12 = tensor.empty() : tensor<2x4xf32>
  %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<2x4xf32>) outs(%12 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.divf %in, %cst_2 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %cst_3 = arith.constant 9.99999974E-6 : f32
  %14 = tensor.empty() : tensor<2x4xf32>
  %15 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%13 : tensor<2x4xf32>) outs(%14 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %cst_3 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %16 = tensor.empty() : tensor<2x4xf32>
  %17 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<2x4xf32>) outs(%16 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = math.rsqrt %in : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %18 = tensor.empty() : tensor<2x4x2x3xf32>
  %19 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6, %17 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%18 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %22 = arith.mulf %in, %in_4 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  %20 = tensor.empty() : tensor<2x4x2x3xf32>
  %21 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%19, %arg1 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%20 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %22 = arith.mulf %in, %in_4 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  return %21 : tensor<2x4x2x3xf32>
}

// -----

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d2, d3)>

// Scaled along the normalized axes: left to layer_norm_fusion.
// CHECK-LABEL: @no_fusion_layer_norm
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_layer_norm
func.func @no_fusion_layer_norm(%arg0: tensor<2x4x2x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<2x3xf32>) -> tensor<2x4x2x3xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x4xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%arg0 : tensor<2x4x2x3xf32>) outs(%1 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.addf %in, %out : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %cst_0 = arith.constant 6.000000e+00 : f32
  %3 = tensor.empty() : tensor<2x4xf32>
  %4 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<2x4xf32>) outs(%3 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.divf %in, %cst_0 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %5 = tensor.empty() : tensor<2x4x2x3xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %4 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%5 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %24 = arith.subf %in, %in_4 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4x2x3xf32>
  %7 = tensor.empty() : tensor<2x4x2x3xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6 : tensor<2x4x2x3xf32>) outs(%7 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.mulf %in, %in : f32
    linalg.yield %24 : f32
  } -> tensor<2x4x2x3xf32>
  %cst_1 = arith.constant 0.000000e+00 : f32
  %9 = tensor.empty() : tensor<2x4xf32>
  %10 = linalg.fill ins(%cst_1 : f32) outs(%9 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%8 : tensor<2x4x2x3xf32>) outs(%10 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.addf %in, %out : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %cst_2 = arith.constant 6.000000e+00 : f32
  %12 = tensor.empty() : tensor<2x4xf32>
  %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<2x4xf32>) outs(%12 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.divf %in, %cst_2 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %cst_3 = arith.constant 9.99999974E-6 : f32
  %14 = tensor.empty() : tensor<2x4xf32>
  %15 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%13 : tensor<2x4xf32>) outs(%14 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.addf %in, %cst_3 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %16 = tensor.empty() : tensor<2x4xf32>
  %17 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<2x4xf32>) outs(%16 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = math.rsqrt %in : f32
    linalg.yield %24 : f32
  } -> tensor<2x4xf32>
  %18 = tensor.empty() : tensor<2x4x2x3xf32>
  %19 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6, %17 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%18 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %24 = arith.mulf %in, %in_4 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4x2x3xf32>
  %20 = tensor.empty() : tensor<2x4x2x3xf32>
  %21 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%19, %arg1 : tensor<2x4x2x3xf32>, tensor<2x3xf32>) outs(%20 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %24 = arith.mulf %in, %in_4 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4x2x3xf32>
  %22 = tensor.empty() : tensor<2x4x2x3xf32>
  %23 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%21, %arg2 : tensor<2x4x2x3xf32>, tensor<2x3xf32>) outs(%22 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %24 = arith.addf %in, %in_4 : f32
    linalg.yield %24 : f32
  } -> tensor<2x4x2x3xf32>
  return %23 : tensor<2x4x2x3xf32>
}

// -----

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>

// Left to layer_norm_fusion.
// CHECK-LABEL: @no_fusion_without_scale_and_shift
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_without_scale_and_shift
func.func @no_fusion_without_scale_and_shift(%arg0: tensor<2x4x2x3xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>) -> tensor<2x4x2x3xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x4xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%arg0 : tensor<2x4x2x3xf32>) outs(%1 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %20 = arith.addf %in, %out : f32
    linalg.yield %20 : f32
  } -> tensor<2x4xf32>
  %cst_0 = arith.constant 6.000000e+00 : f32
  %3 = tensor.empty() : tensor<2x4xf32>
  %4 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<2x4xf32>) outs(%3 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %20 = arith.divf %in, %cst_0 : f32
    linalg.yield %20 : f32
  } -> tensor<2x4xf32>
  %5 = tensor.empty() : tensor<2x4x2x3xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %4 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%5 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %20 = arith.subf %in, %in_4 : f32
    linalg.yield %20 : f32
  } -> tensor<2x4x2x3xf32>
  %7 = tensor.empty() : tensor<2x4x2x3xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6 : tensor<2x4x2x3xf32>) outs(%7 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %20 = arith.mulf %in, %in : f32
    linalg.yield %20 : f32
  } -> tensor<2x4x2x3xf32>
  %cst_1 = arith.constant 0.000000e+00 : f32
  %9 = tensor.empty() : tensor<2x4xf32>
  %10 = linalg.fill ins(%cst_1 : f32) outs(%9 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%8 : tensor<2x4x2x3xf32>) outs(%10 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %20 = arith.addf %in, %out : f32
    linalg.yield %20 : f32
  } -> tensor<2x4xf32>
  %cst_2 = arith.constant 6.000000e+00 : f32
  %12 = tensor.empty() : tensor<2x4xf32>
  %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<2x4xf32>) outs(%12 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %20 = arith.divf %in, %cst_2 : f32
    linalg.yield %20 : f32
  } -> tensor<2x4xf32>
  %cst_3 = arith.constant 9.99999974E-6 : f32
  %14 = tensor.empty() : tensor<2x4xf32>
  %15 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%13 : tensor<2x4xf32>) outs(%14 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %20 = arith.addf %in, %cst_3 : f32
    linalg.yield %20 : f32
  } -> tensor<2x4xf32>
  %16 = tensor.empty() : tensor<2x4xf32>
  %17 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<2x4xf32>) outs(%16 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %20 = math.rsqrt %in : f32
    linalg.yield %20 : f32
  } -> tensor<2x4xf32>
  %18 = tensor.empty() : tensor<2x4x2x3xf32>
  %19 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6, %17 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%18 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %20 = arith.mulf %in, %in_4 : f32
    linalg.yield %20 : f32
  } -> tensor<2x4x2x3xf32>
  return %19 : tensor<2x4x2x3xf32>
}

// -----

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>

// CHECK-LABEL: @no_fusion_scaled_everywhere
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_scaled_everywhere
func.func @no_fusion_scaled_everywhere(%arg0: tensor<2x4x2x3xf32>, %arg1: tensor<2x4x2x3xf32>) -> tensor<2x4x2x3xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x4xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%arg0 : tensor<2x4x2x3xf32>) outs(%1 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %out : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %cst_0 = arith.constant 6.000000e+00 : f32
  %3 = tensor.empty() : tensor<2x4xf32>
  %4 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<2x4xf32>) outs(%3 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.divf %in, %cst_0 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %5 = tensor.empty() : tensor<2x4x2x3xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %4 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%5 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %22 = arith.subf %in, %in_4 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  %7 = tensor.empty() : tensor<2x4x2x3xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6 : tensor<2x4x2x3xf32>) outs(%7 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.mulf %in, %in : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  %cst_1 = arith.constant 0.000000e+00 : f32
  %9 = tensor.empty() : tensor<2x4xf32>
  %10 = linalg.fill ins(%cst_1 : f32) outs(%9 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%8 : tensor<2x4x2x3xf32>) outs(%10 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %out : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %cst_2 = arith.constant 6.000000e+00 : f32
  %12 = tensor.empty() : tensor<2x4xf32>
  %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<2x4xf32>) outs(%12 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.divf %in, %cst_2 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %cst_3 = arith.constant 9.99999974E-6 : f32
  %14 = tensor.empty() : tensor<2x4xf32>
  %15 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%13 : tensor<2x4xf32>) outs(%14 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %cst_3 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %16 = tensor.empty() : tensor<2x4xf32>
  %17 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<2x4xf32>) outs(%16 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = math.rsqrt %in : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %18 = tensor.empty() : tensor<2x4x2x3xf32>
  %19 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6, %17 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%18 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %22 = arith.mulf %in, %in_4 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  %20 = tensor.empty() : tensor<2x4x2x3xf32>
  %21 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%19, %arg1 : tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>) outs(%20 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %22 = arith.mulf %in, %in_4 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  return %21 : tensor<2x4x2x3xf32>
}

// -----

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d2)>

// The scale depends on the batch and on a normalized axis.
// CHECK-LABEL: @no_fusion_layer_norm_scaled_by_batch
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_layer_norm_scaled_by_batch
func.func @no_fusion_layer_norm_scaled_by_batch(%arg0: tensor<2x4x2x3xf32>, %arg1: tensor<2x2xf32>) -> tensor<2x4x2x3xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x4xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%arg0 : tensor<2x4x2x3xf32>) outs(%1 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %out : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %cst_0 = arith.constant 6.000000e+00 : f32
  %3 = tensor.empty() : tensor<2x4xf32>
  %4 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<2x4xf32>) outs(%3 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.divf %in, %cst_0 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %5 = tensor.empty() : tensor<2x4x2x3xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %4 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%5 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %22 = arith.subf %in, %in_4 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  %7 = tensor.empty() : tensor<2x4x2x3xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6 : tensor<2x4x2x3xf32>) outs(%7 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.mulf %in, %in : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  %cst_1 = arith.constant 0.000000e+00 : f32
  %9 = tensor.empty() : tensor<2x4xf32>
  %10 = linalg.fill ins(%cst_1 : f32) outs(%9 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%8 : tensor<2x4x2x3xf32>) outs(%10 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %out : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %cst_2 = arith.constant 6.000000e+00 : f32
  %12 = tensor.empty() : tensor<2x4xf32>
  %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<2x4xf32>) outs(%12 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.divf %in, %cst_2 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %cst_3 = arith.constant 9.99999974E-6 : f32
  %14 = tensor.empty() : tensor<2x4xf32>
  %15 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%13 : tensor<2x4xf32>) outs(%14 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %cst_3 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %16 = tensor.empty() : tensor<2x4xf32>
  %17 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<2x4xf32>) outs(%16 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = math.rsqrt %in : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %18 = tensor.empty() : tensor<2x4x2x3xf32>
  %19 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6, %17 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%18 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %22 = arith.mulf %in, %in_4 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  %20 = tensor.empty() : tensor<2x4x2x3xf32>
  %21 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%19, %arg1 : tensor<2x4x2x3xf32>, tensor<2x2xf32>) outs(%20 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %22 = arith.mulf %in, %in_4 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  return %21 : tensor<2x4x2x3xf32>
}

// -----

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d1)>

// No mean is taken off.
// CHECK-LABEL: @no_fusion_rms
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_rms
func.func @no_fusion_rms(%arg0: tensor<2x4x2x3xf32>, %arg1: tensor<4xf32>) -> tensor<2x4x2x3xf32> {
  %0 = tensor.empty() : tensor<2x4x2x3xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<2x4x2x3xf32>) outs(%0 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = arith.mulf %in, %in : f32
    linalg.yield %15 : f32
  } -> tensor<2x4x2x3xf32>
  %cst = arith.constant 0.000000e+00 : f32
  %2 = tensor.empty() : tensor<2x4xf32>
  %3 = linalg.fill ins(%cst : f32) outs(%2 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%1 : tensor<2x4x2x3xf32>) outs(%3 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = arith.addf %in, %out : f32
    linalg.yield %15 : f32
  } -> tensor<2x4xf32>
  %cst_0 = arith.constant 6.000000e+00 : f32
  %5 = tensor.empty() : tensor<2x4xf32>
  %6 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%4 : tensor<2x4xf32>) outs(%5 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = arith.divf %in, %cst_0 : f32
    linalg.yield %15 : f32
  } -> tensor<2x4xf32>
  %cst_1 = arith.constant 9.99999974E-6 : f32
  %7 = tensor.empty() : tensor<2x4xf32>
  %8 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%6 : tensor<2x4xf32>) outs(%7 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = arith.addf %in, %cst_1 : f32
    linalg.yield %15 : f32
  } -> tensor<2x4xf32>
  %9 = tensor.empty() : tensor<2x4xf32>
  %10 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%8 : tensor<2x4xf32>) outs(%9 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = math.rsqrt %in : f32
    linalg.yield %15 : f32
  } -> tensor<2x4xf32>
  %11 = tensor.empty() : tensor<2x4x2x3xf32>
  %12 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %10 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%11 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %15 = arith.mulf %in, %in_2 : f32
    linalg.yield %15 : f32
  } -> tensor<2x4x2x3xf32>
  %13 = tensor.empty() : tensor<2x4x2x3xf32>
  %14 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%12, %arg1 : tensor<2x4x2x3xf32>, tensor<4xf32>) outs(%13 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %15 = arith.mulf %in, %in_2 : f32
    linalg.yield %15 : f32
  } -> tensor<2x4x2x3xf32>
  return %14 : tensor<2x4x2x3xf32>
}

// -----

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d1)>

// A norm is scaled, not divided.
// CHECK-LABEL: @no_fusion_divided
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_divided
func.func @no_fusion_divided(%arg0: tensor<2x4x2x3xf32>, %arg1: tensor<4xf32>) -> tensor<2x4x2x3xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x4xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%arg0 : tensor<2x4x2x3xf32>) outs(%1 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %out : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %cst_0 = arith.constant 6.000000e+00 : f32
  %3 = tensor.empty() : tensor<2x4xf32>
  %4 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<2x4xf32>) outs(%3 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.divf %in, %cst_0 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %5 = tensor.empty() : tensor<2x4x2x3xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %4 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%5 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %22 = arith.subf %in, %in_4 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  %7 = tensor.empty() : tensor<2x4x2x3xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6 : tensor<2x4x2x3xf32>) outs(%7 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.mulf %in, %in : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  %cst_1 = arith.constant 0.000000e+00 : f32
  %9 = tensor.empty() : tensor<2x4xf32>
  %10 = linalg.fill ins(%cst_1 : f32) outs(%9 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%8 : tensor<2x4x2x3xf32>) outs(%10 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %out : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %cst_2 = arith.constant 6.000000e+00 : f32
  %12 = tensor.empty() : tensor<2x4xf32>
  %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<2x4xf32>) outs(%12 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.divf %in, %cst_2 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %cst_3 = arith.constant 9.99999974E-6 : f32
  %14 = tensor.empty() : tensor<2x4xf32>
  %15 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%13 : tensor<2x4xf32>) outs(%14 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %cst_3 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %16 = tensor.empty() : tensor<2x4xf32>
  %17 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<2x4xf32>) outs(%16 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = math.rsqrt %in : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %18 = tensor.empty() : tensor<2x4x2x3xf32>
  %19 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6, %17 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%18 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %22 = arith.mulf %in, %in_4 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  %20 = tensor.empty() : tensor<2x4x2x3xf32>
  %21 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%19, %arg1 : tensor<2x4x2x3xf32>, tensor<4xf32>) outs(%20 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %22 = arith.divf %in, %in_4 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  return %21 : tensor<2x4x2x3xf32>
}

// -----

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d1)>

// The unbiased variance.
// CHECK-LABEL: @no_fusion_wrong_size
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_wrong_size
func.func @no_fusion_wrong_size(%arg0: tensor<2x4x2x3xf32>, %arg1: tensor<4xf32>) -> tensor<2x4x2x3xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x4xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%arg0 : tensor<2x4x2x3xf32>) outs(%1 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %out : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %cst_0 = arith.constant 6.000000e+00 : f32
  %3 = tensor.empty() : tensor<2x4xf32>
  %4 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<2x4xf32>) outs(%3 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.divf %in, %cst_0 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %5 = tensor.empty() : tensor<2x4x2x3xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %4 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%5 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %22 = arith.subf %in, %in_4 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  %7 = tensor.empty() : tensor<2x4x2x3xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6 : tensor<2x4x2x3xf32>) outs(%7 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.mulf %in, %in : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  %cst_1 = arith.constant 0.000000e+00 : f32
  %9 = tensor.empty() : tensor<2x4xf32>
  %10 = linalg.fill ins(%cst_1 : f32) outs(%9 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%8 : tensor<2x4x2x3xf32>) outs(%10 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %out : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %cst_2 = arith.constant 5.000000e+00 : f32
  %12 = tensor.empty() : tensor<2x4xf32>
  %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<2x4xf32>) outs(%12 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.divf %in, %cst_2 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %cst_3 = arith.constant 9.99999974E-6 : f32
  %14 = tensor.empty() : tensor<2x4xf32>
  %15 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%13 : tensor<2x4xf32>) outs(%14 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %cst_3 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %16 = tensor.empty() : tensor<2x4xf32>
  %17 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<2x4xf32>) outs(%16 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = math.rsqrt %in : f32
    linalg.yield %22 : f32
  } -> tensor<2x4xf32>
  %18 = tensor.empty() : tensor<2x4x2x3xf32>
  %19 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6, %17 : tensor<2x4x2x3xf32>, tensor<2x4xf32>) outs(%18 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %22 = arith.mulf %in, %in_4 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  %20 = tensor.empty() : tensor<2x4x2x3xf32>
  %21 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%19, %arg1 : tensor<2x4x2x3xf32>, tensor<4xf32>) outs(%20 : tensor<2x4x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %22 = arith.mulf %in, %in_4 : f32
    linalg.yield %22 : f32
  } -> tensor<2x4x2x3xf32>
  return %21 : tensor<2x4x2x3xf32>
}

// -----

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d1)>

// CHECK-LABEL: @no_fusion_dynamic_channels
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_dynamic_channels
// WHY: dynamic_shape (
// WHY: a dimension other than the first is dynamic
func.func @no_fusion_dynamic_channels(%arg0: tensor<2x?x2x3xf32>, %arg1: tensor<?xf32>, %arg2: tensor<?xf32>) -> tensor<2x?x2x3xf32> {
  %c1 = arith.constant 1 : index
  %dim = tensor.dim %arg0, %c1 : tensor<2x?x2x3xf32>
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty(%dim) : tensor<2x?xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x?xf32>) -> tensor<2x?xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%arg0 : tensor<2x?x2x3xf32>) outs(%1 : tensor<2x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.addf %in, %out : f32
    linalg.yield %24 : f32
  } -> tensor<2x?xf32>
  %cst_0 = arith.constant 6.000000e+00 : f32
  %3 = tensor.empty(%dim) : tensor<2x?xf32>
  %4 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<2x?xf32>) outs(%3 : tensor<2x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.divf %in, %cst_0 : f32
    linalg.yield %24 : f32
  } -> tensor<2x?xf32>
  %5 = tensor.empty(%dim) : tensor<2x?x2x3xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %4 : tensor<2x?x2x3xf32>, tensor<2x?xf32>) outs(%5 : tensor<2x?x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %24 = arith.subf %in, %in_4 : f32
    linalg.yield %24 : f32
  } -> tensor<2x?x2x3xf32>
  %7 = tensor.empty(%dim) : tensor<2x?x2x3xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6 : tensor<2x?x2x3xf32>) outs(%7 : tensor<2x?x2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.mulf %in, %in : f32
    linalg.yield %24 : f32
  } -> tensor<2x?x2x3xf32>
  %cst_1 = arith.constant 0.000000e+00 : f32
  %9 = tensor.empty(%dim) : tensor<2x?xf32>
  %10 = linalg.fill ins(%cst_1 : f32) outs(%9 : tensor<2x?xf32>) -> tensor<2x?xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%8 : tensor<2x?x2x3xf32>) outs(%10 : tensor<2x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.addf %in, %out : f32
    linalg.yield %24 : f32
  } -> tensor<2x?xf32>
  %cst_2 = arith.constant 6.000000e+00 : f32
  %12 = tensor.empty(%dim) : tensor<2x?xf32>
  %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<2x?xf32>) outs(%12 : tensor<2x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.divf %in, %cst_2 : f32
    linalg.yield %24 : f32
  } -> tensor<2x?xf32>
  %cst_3 = arith.constant 9.99999974E-6 : f32
  %14 = tensor.empty(%dim) : tensor<2x?xf32>
  %15 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%13 : tensor<2x?xf32>) outs(%14 : tensor<2x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = arith.addf %in, %cst_3 : f32
    linalg.yield %24 : f32
  } -> tensor<2x?xf32>
  %16 = tensor.empty(%dim) : tensor<2x?xf32>
  %17 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<2x?xf32>) outs(%16 : tensor<2x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %24 = math.rsqrt %in : f32
    linalg.yield %24 : f32
  } -> tensor<2x?xf32>
  %18 = tensor.empty(%dim) : tensor<2x?x2x3xf32>
  %19 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6, %17 : tensor<2x?x2x3xf32>, tensor<2x?xf32>) outs(%18 : tensor<2x?x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %24 = arith.mulf %in, %in_4 : f32
    linalg.yield %24 : f32
  } -> tensor<2x?x2x3xf32>
  %20 = tensor.empty(%dim) : tensor<2x?x2x3xf32>
  %21 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%19, %arg1 : tensor<2x?x2x3xf32>, tensor<?xf32>) outs(%20 : tensor<2x?x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %24 = arith.mulf %in, %in_4 : f32
    linalg.yield %24 : f32
  } -> tensor<2x?x2x3xf32>
  %22 = tensor.empty(%dim) : tensor<2x?x2x3xf32>
  %23 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%21, %arg2 : tensor<2x?x2x3xf32>, tensor<?xf32>) outs(%22 : tensor<2x?x2x3xf32>) {
  ^bb0(%in: f32, %in_4: f32, %out: f32):
    %24 = arith.addf %in, %in_4 : f32
    linalg.yield %24 : f32
  } -> tensor<2x?x2x3xf32>
  return %23 : tensor<2x?x2x3xf32>
}

// -----

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d1)>

// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_f64
// WHY: element_type (
// WHY: f64
func.func @no_fusion_f64(%arg0: tensor<2x4x2x3xf64>, %arg1: tensor<4xf64>, %arg2: tensor<4xf64>) -> tensor<2x4x2x3xf64> {
  %cst = arith.constant 0.000000e+00 : f64
  %0 = tensor.empty() : tensor<2x4xf64>
  %1 = linalg.fill ins(%cst : f64) outs(%0 : tensor<2x4xf64>) -> tensor<2x4xf64>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%arg0 : tensor<2x4x2x3xf64>) outs(%1 : tensor<2x4xf64>) {
  ^bb0(%in: f64, %out: f64):
    %24 = arith.addf %in, %out : f64
    linalg.yield %24 : f64
  } -> tensor<2x4xf64>
  %cst_0 = arith.constant 6.000000e+00 : f64
  %3 = tensor.empty() : tensor<2x4xf64>
  %4 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<2x4xf64>) outs(%3 : tensor<2x4xf64>) {
  ^bb0(%in: f64, %out: f64):
    %24 = arith.divf %in, %cst_0 : f64
    linalg.yield %24 : f64
  } -> tensor<2x4xf64>
  %5 = tensor.empty() : tensor<2x4x2x3xf64>
  %6 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %4 : tensor<2x4x2x3xf64>, tensor<2x4xf64>) outs(%5 : tensor<2x4x2x3xf64>) {
  ^bb0(%in: f64, %in_4: f64, %out: f64):
    %24 = arith.subf %in, %in_4 : f64
    linalg.yield %24 : f64
  } -> tensor<2x4x2x3xf64>
  %7 = tensor.empty() : tensor<2x4x2x3xf64>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6 : tensor<2x4x2x3xf64>) outs(%7 : tensor<2x4x2x3xf64>) {
  ^bb0(%in: f64, %out: f64):
    %24 = arith.mulf %in, %in : f64
    linalg.yield %24 : f64
  } -> tensor<2x4x2x3xf64>
  %cst_1 = arith.constant 0.000000e+00 : f64
  %9 = tensor.empty() : tensor<2x4xf64>
  %10 = linalg.fill ins(%cst_1 : f64) outs(%9 : tensor<2x4xf64>) -> tensor<2x4xf64>
  %11 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%8 : tensor<2x4x2x3xf64>) outs(%10 : tensor<2x4xf64>) {
  ^bb0(%in: f64, %out: f64):
    %24 = arith.addf %in, %out : f64
    linalg.yield %24 : f64
  } -> tensor<2x4xf64>
  %cst_2 = arith.constant 6.000000e+00 : f64
  %12 = tensor.empty() : tensor<2x4xf64>
  %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<2x4xf64>) outs(%12 : tensor<2x4xf64>) {
  ^bb0(%in: f64, %out: f64):
    %24 = arith.divf %in, %cst_2 : f64
    linalg.yield %24 : f64
  } -> tensor<2x4xf64>
  %cst_3 = arith.constant 1.000000e-05 : f64
  %14 = tensor.empty() : tensor<2x4xf64>
  %15 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%13 : tensor<2x4xf64>) outs(%14 : tensor<2x4xf64>) {
  ^bb0(%in: f64, %out: f64):
    %24 = arith.addf %in, %cst_3 : f64
    linalg.yield %24 : f64
  } -> tensor<2x4xf64>
  %16 = tensor.empty() : tensor<2x4xf64>
  %17 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<2x4xf64>) outs(%16 : tensor<2x4xf64>) {
  ^bb0(%in: f64, %out: f64):
    %24 = math.rsqrt %in : f64
    linalg.yield %24 : f64
  } -> tensor<2x4xf64>
  %18 = tensor.empty() : tensor<2x4x2x3xf64>
  %19 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6, %17 : tensor<2x4x2x3xf64>, tensor<2x4xf64>) outs(%18 : tensor<2x4x2x3xf64>) {
  ^bb0(%in: f64, %in_4: f64, %out: f64):
    %24 = arith.mulf %in, %in_4 : f64
    linalg.yield %24 : f64
  } -> tensor<2x4x2x3xf64>
  %20 = tensor.empty() : tensor<2x4x2x3xf64>
  %21 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%19, %arg1 : tensor<2x4x2x3xf64>, tensor<4xf64>) outs(%20 : tensor<2x4x2x3xf64>) {
  ^bb0(%in: f64, %in_4: f64, %out: f64):
    %24 = arith.mulf %in, %in_4 : f64
    linalg.yield %24 : f64
  } -> tensor<2x4x2x3xf64>
  %22 = tensor.empty() : tensor<2x4x2x3xf64>
  %23 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%21, %arg2 : tensor<2x4x2x3xf64>, tensor<4xf64>) outs(%22 : tensor<2x4x2x3xf64>) {
  ^bb0(%in: f64, %in_4: f64, %out: f64):
    %24 = arith.addf %in, %in_4 : f64
    linalg.yield %24 : f64
  } -> tensor<2x4x2x3xf64>
  return %23 : tensor<2x4x2x3xf64>
}
