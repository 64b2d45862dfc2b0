// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_elem_relu_fusion | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/matmul_elem_relu_fusion.mlir

// From torch, x: f32[?, 16], w: f32[32, 16], b: f32[32]
//   F.relu(F.linear(x, w, b))
// CHECK-LABEL: @torch
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<?x16xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32x16xf32>
// CHECK: %[[Z:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "matmul_elem_relu_fusion"
// CHECK: %[[A:.*]] = linalg.matmul {{.*}}ins(%[[X]], %[[Y]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[Z]], %[[A]] :
// CHECK: %[[C:.*]] = linalg.generic {{.*}}ins(%[[B]] :
// CHECK: flow.return %[[C]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map3 = affine_map<(d0, d1) -> (d1)>
#map4 = affine_map<(d0, d1) -> (d0, d1)>
util.func public @torch(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.buffer_view.dim<%arg0 : !hal.buffer_view>[0] : index
  %1 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<?x16xf32>{%0}
  %2 = iree_tensor_ext.compute_barrier.start %1 : tensor<?x16xf32>{%0} -> tensor<?x16xf32>
  %3 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<32x16xf32>
  %4 = iree_tensor_ext.compute_barrier.start %3 : tensor<32x16xf32> -> tensor<32x16xf32>
  %5 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<32xf32>
  %6 = iree_tensor_ext.compute_barrier.start %5 : tensor<32xf32> -> tensor<32xf32>
  %7 = tensor.empty(%0) : tensor<?x32xf32>
  %8 = linalg.fill ins(%cst : f32) outs(%7 : tensor<?x32xf32>) -> tensor<?x32xf32>
  %9 = linalg.matmul indexing_maps = [#map, #map1, #map2] ins(%2, %4 : tensor<?x16xf32>, tensor<32x16xf32>) outs(%8 : tensor<?x32xf32>) -> tensor<?x32xf32>
  %10 = linalg.generic {indexing_maps = [#map3, #map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%6, %9 : tensor<32xf32>, tensor<?x32xf32>) outs(%7 : tensor<?x32xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %14 = arith.addf %in, %in_0 : f32
    linalg.yield %14 : f32
  } -> tensor<?x32xf32>
  %11 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<?x32xf32>) outs(%7 : tensor<?x32xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.cmpf ugt, %in, %cst : f32
    %15 = arith.select %14, %in, %cst : f32
    linalg.yield %15 : f32
  } -> tensor<?x32xf32>
  %12 = iree_tensor_ext.compute_barrier.end %11 : tensor<?x32xf32>{%0} -> tensor<?x32xf32>
  %13 = hal.tensor.export %12 "output0" : tensor<?x32xf32>{%0} -> !hal.buffer_view
  util.return %13 : !hal.buffer_view
}
