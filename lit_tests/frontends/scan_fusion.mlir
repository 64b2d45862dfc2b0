// RUN: %mlirfuse-opt %s --split-input-file --pipeline=scan_fusion | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/scan_fusion.mlir

// From torch, x: bf16[4, 16], z: bf16[4, 16]
//   (x * 2).cumsum(-1) + z
// CHECK-LABEL: @torch
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<4x16xbf16>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<4x16xbf16>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "scan_fusion"
// CHECK: %[[A:.*]] = linalg.generic {{.*}}ins(%[[X]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[A]] :
// CHECK: %[[C:.*]] = linalg.generic {{.*}}ins(%{{.*}} :
// CHECK: %[[D:.*]] = linalg.generic {{.*}}ins(%[[C]], %[[Y]] :
// CHECK: flow.return %[[D]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1) -> (d0, d1)>
util.func public @torch(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 2.000000e+00 : bf16
  %cst_0 = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<4x16xbf16>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<4x16xbf16> -> tensor<4x16xbf16>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<4x16xbf16>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<4x16xbf16> -> tensor<4x16xbf16>
  %4 = tensor.empty() : tensor<4x16xbf16>
  %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<4x16xbf16>) outs(%4 : tensor<4x16xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %16 = arith.mulf %in, %cst : bf16
    linalg.yield %16 : bf16
  } -> tensor<4x16xbf16>
  %6 = tensor.empty() : tensor<4x16xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<4x16xbf16>) outs(%6 : tensor<4x16xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %16 = arith.extf %in : bf16 to f32
    linalg.yield %16 : f32
  } -> tensor<4x16xf32>
  %8 = linalg.fill ins(%cst_0 : f32) outs(%6 : tensor<4x16xf32>) -> tensor<4x16xf32>
  %9 = tensor.empty() : tensor<4xf32>
  %10 = linalg.fill ins(%cst_0 : f32) outs(%9 : tensor<4xf32>) -> tensor<4xf32>
  %11:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(1) inclusive(true) ins(%7 : tensor<4x16xf32>) outs(%8, %10 : tensor<4x16xf32>, tensor<4xf32>) {
  ^bb0(%arg2: f32, %arg3: f32):
    %16 = arith.addf %arg2, %arg3 : f32
    iree_linalg_ext.yield %16 : f32
  } -> tensor<4x16xf32>, tensor<4xf32>
  %12 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%11#0 : tensor<4x16xf32>) outs(%4 : tensor<4x16xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %16 = arith.truncf %in : f32 to bf16
    linalg.yield %16 : bf16
  } -> tensor<4x16xbf16>
  %13 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%12, %3 : tensor<4x16xbf16>, tensor<4x16xbf16>) outs(%4 : tensor<4x16xbf16>) {
  ^bb0(%in: bf16, %in_1: bf16, %out: bf16):
    %16 = arith.addf %in, %in_1 : bf16
    linalg.yield %16 : bf16
  } -> tensor<4x16xbf16>
  %14 = iree_tensor_ext.compute_barrier.end %13 : tensor<4x16xbf16> -> tensor<4x16xbf16>
  %15 = hal.tensor.export %14 "output0" : tensor<4x16xbf16> -> !hal.buffer_view
  util.return %15 : !hal.buffer_view
}
