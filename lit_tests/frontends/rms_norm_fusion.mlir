// RUN: %mlirfuse-opt %s --split-input-file --pipeline=rms_norm_fusion | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/rms_norm_fusion.mlir

// From torch, x: f32[?, 16], g: f32[16]
//   F.rms_norm(x, (16,), g, 1e-5)
// CHECK-LABEL: @torch
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<?x16xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<16xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "rms_norm_fusion"
// CHECK: %[[A:.*]] = linalg.generic {{.*}}ins(%[[X]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[A]] :
// CHECK: %[[C:.*]] = linalg.generic {{.*}}ins(%[[B]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}}ins(%[[C]] :
// CHECK: %[[E:.*]] = linalg.generic {{.*}}ins(%[[D]] :
// CHECK: %[[F:.*]] = linalg.generic {{.*}}ins(%[[X]], %[[E]] :
// CHECK: %[[G:.*]] = linalg.generic {{.*}}ins(%[[F]], %[[Y]] :
// CHECK: flow.return %[[G]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d1)>
util.func public @torch(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 1.600000e+01 : f32
  %cst_0 = arith.constant 9.99999974E-6 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %c2_i64 = arith.constant 2 : i64
  %0 = hal.buffer_view.dim<%arg0 : !hal.buffer_view>[0] : index
  %1 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<?x16xf32>{%0}
  %2 = iree_tensor_ext.compute_barrier.start %1 : tensor<?x16xf32>{%0} -> tensor<?x16xf32>
  %3 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<16xf32>
  %4 = iree_tensor_ext.compute_barrier.start %3 : tensor<16xf32> -> tensor<16xf32>
  %5 = tensor.empty(%0) : tensor<?x16xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<?x16xf32>) outs(%5 : tensor<?x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %17 = math.fpowi %in, %c2_i64 : f32, i64
    linalg.yield %17 : f32
  } -> tensor<?x16xf32>
  %7 = tensor.empty(%0) : tensor<?xf32>
  %8 = linalg.fill ins(%cst_1 : f32) outs(%7 : tensor<?xf32>) -> tensor<?xf32>
  %9 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%6 : tensor<?x16xf32>) outs(%8 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %17 = arith.addf %in, %out : f32
    linalg.yield %17 : f32
  } -> tensor<?xf32>
  %10 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%9 : tensor<?xf32>) outs(%7 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %17 = arith.divf %in, %cst : f32
    linalg.yield %17 : f32
  } -> tensor<?xf32>
  %11 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%10 : tensor<?xf32>) outs(%7 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %17 = arith.addf %in, %cst_0 : f32
    linalg.yield %17 : f32
  } -> tensor<?xf32>
  %12 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%11 : tensor<?xf32>) outs(%7 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %17 = math.rsqrt %in : f32
    linalg.yield %17 : f32
  } -> tensor<?xf32>
  %13 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%2, %12 : tensor<?x16xf32>, tensor<?xf32>) outs(%5 : tensor<?x16xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %17 = arith.mulf %in, %in_2 : f32
    linalg.yield %17 : f32
  } -> tensor<?x16xf32>
  %14 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%13, %4 : tensor<?x16xf32>, tensor<16xf32>) outs(%5 : tensor<?x16xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %17 = arith.mulf %in, %in_2 : f32
    linalg.yield %17 : f32
  } -> tensor<?x16xf32>
  %15 = iree_tensor_ext.compute_barrier.end %14 : tensor<?x16xf32>{%0} -> tensor<?x16xf32>
  %16 = hal.tensor.export %15 "output0" : tensor<?x16xf32>{%0} -> !hal.buffer_view
  util.return %16 : !hal.buffer_view
}
