// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=contraction_fusion | FileCheck %s %}
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/contraction_fusion.mlir

// From torch, x: f16[16, 32], w: f16[64, 32]
//   F.linear(x, w)
// CHECK-LABEL: @torch
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<16x32xf16>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<64x32xf16>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "contraction_fusion"
// CHECK: %[[A:.*]] = linalg.matmul {{.*}}ins(%[[X]], %[[Y]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[A]] :
// CHECK: flow.return %[[B]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map3 = affine_map<(d0, d1) -> (d0, d1)>
util.func public @torch(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<16x32xf16>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<16x32xf16> -> tensor<16x32xf16>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<64x32xf16>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<64x32xf16> -> tensor<64x32xf16>
  %4 = tensor.empty() : tensor<16x64xf32>
  %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %6 = linalg.matmul indexing_maps = [#map, #map1, #map2] ins(%1, %3 : tensor<16x32xf16>, tensor<64x32xf16>) outs(%5 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %7 = tensor.empty() : tensor<16x64xf16>
  %8 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%6 : tensor<16x64xf32>) outs(%7 : tensor<16x64xf16>) {
  ^bb0(%in: f32, %out: f16):
    %11 = arith.truncf %in : f32 to f16
    linalg.yield %11 : f16
  } -> tensor<16x64xf16>
  %9 = iree_tensor_ext.compute_barrier.end %8 : tensor<16x64xf16> -> tensor<16x64xf16>
  %10 = hal.tensor.export %9 "output0" : tensor<16x64xf16> -> !hal.buffer_view
  util.return %10 : !hal.buffer_view
}

// -----

// From jax, x: bf16[16, 32], w: bf16[32, 64]
//   x @ w
// CHECK-LABEL: @jax
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<16x32xbf16>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32x64xbf16>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "contraction_fusion"
// CHECK: %[[A:.*]] = linalg.matmul {{.*}}ins(%[[X]], %[[Y]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[A]] :
// CHECK: flow.return %[[B]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1) -> (d0, d1)>
util.func public @jax(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<16x32xbf16>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<16x32xbf16> -> tensor<16x32xbf16>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<32x64xbf16>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<32x64xbf16> -> tensor<32x64xbf16>
  %4 = tensor.empty() : tensor<16x64xf32>
  %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %6 = linalg.matmul ins(%1, %3 : tensor<16x32xbf16>, tensor<32x64xbf16>) outs(%5 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %7 = tensor.empty() : tensor<16x64xbf16>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%6 : tensor<16x64xf32>) outs(%7 : tensor<16x64xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %11 = arith.truncf %in : f32 to bf16
    linalg.yield %11 : bf16
  } -> tensor<16x64xbf16>
  %9 = iree_tensor_ext.compute_barrier.end %8 : tensor<16x64xbf16> -> tensor<16x64xbf16>
  %10 = hal.tensor.export %9 "output0" : tensor<16x64xbf16> -> !hal.buffer_view
  util.return %10 : !hal.buffer_view
}

// -----

// From onnx 17, x: f16[16, 32], w: f16[32, 64] -> y: f16[16, 64]
//   y = MatMul(x, w)
// CHECK-LABEL: @onnx
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<16x32xf16>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32x64xf16>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "contraction_fusion"
// CHECK: %[[A:.*]] = linalg.matmul {{.*}}ins(%[[X]], %[[Y]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[A]] :
// CHECK: flow.return %[[B]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1) -> (d0, d1)>
util.func public @onnx(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<16x32xf16>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<16x32xf16> -> tensor<16x32xf16>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<32x64xf16>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<32x64xf16> -> tensor<32x64xf16>
  %4 = tensor.empty() : tensor<16x64xf32>
  %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %6 = linalg.matmul ins(%1, %3 : tensor<16x32xf16>, tensor<32x64xf16>) outs(%5 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %7 = tensor.empty() : tensor<16x64xf16>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%6 : tensor<16x64xf32>) outs(%7 : tensor<16x64xf16>) {
  ^bb0(%in: f32, %out: f16):
    %11 = arith.truncf %in : f32 to f16
    linalg.yield %11 : f16
  } -> tensor<16x64xf16>
  %9 = iree_tensor_ext.compute_barrier.end %8 : tensor<16x64xf16> -> tensor<16x64xf16>
  %10 = hal.tensor.export %9 "output0" : tensor<16x64xf16> -> !hal.buffer_view
  util.return %10 : !hal.buffer_view
}
