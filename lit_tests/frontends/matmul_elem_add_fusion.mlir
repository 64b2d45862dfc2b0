// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_elem_add_fusion | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/matmul_elem_add_fusion.mlir

// From onnx 17, x: f32[8, 16], w: f32[16, 32], r: f32[8, 32] -> y: f32[8, 32]
//   c = MatMul(x, w) y = Add(r, c)
// CHECK-LABEL: @onnx
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<16x32xf32>
// CHECK: %[[Z:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x32xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "matmul_elem_add_fusion"
// CHECK: %[[A:.*]] = linalg.matmul {{.*}}ins(%[[X]], %[[Y]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[Z]], %[[A]] :
// CHECK: flow.return %[[B]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1) -> (d0, d1)>
util.func public @onnx(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x16xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x16xf32> -> tensor<8x16xf32>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<16x32xf32>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<16x32xf32> -> tensor<16x32xf32>
  %4 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<8x32xf32>
  %5 = iree_tensor_ext.compute_barrier.start %4 : tensor<8x32xf32> -> tensor<8x32xf32>
  %6 = tensor.empty() : tensor<8x32xf32>
  %7 = linalg.fill ins(%cst : f32) outs(%6 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %8 = linalg.matmul ins(%1, %3 : tensor<8x16xf32>, tensor<16x32xf32>) outs(%7 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %9 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%5, %8 : tensor<8x32xf32>, tensor<8x32xf32>) outs(%6 : tensor<8x32xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %12 = arith.addf %in, %in_0 : f32
    linalg.yield %12 : f32
  } -> tensor<8x32xf32>
  %10 = iree_tensor_ext.compute_barrier.end %9 : tensor<8x32xf32> -> tensor<8x32xf32>
  %11 = hal.tensor.export %10 "output0" : tensor<8x32xf32> -> !hal.buffer_view
  util.return %11 : !hal.buffer_view
}
