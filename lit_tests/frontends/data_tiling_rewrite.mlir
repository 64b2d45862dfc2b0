// RUN: %mlirfuse-opt %s --split-input-file --pipeline=data_tiling_rewrite --target=cpu:znver4 | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/data_tiling_rewrite.mlir

// From torch, x: f32[?, 16], w: f32[32, 16]
//   F.linear(x, w)
// CHECK-LABEL: @torch
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<?x16xf32>
// CHECK: linalg.matmul{{.*}} {iree.opt.data_tiling} ins(%[[X]],
#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
util.func public @torch(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.buffer_view.dim<%arg0 : !hal.buffer_view>[0] : index
  %1 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<?x16xf32>{%0}
  %2 = iree_tensor_ext.compute_barrier.start %1 : tensor<?x16xf32>{%0} -> tensor<?x16xf32>
  %3 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<32x16xf32>
  %4 = iree_tensor_ext.compute_barrier.start %3 : tensor<32x16xf32> -> tensor<32x16xf32>
  %5 = tensor.empty(%0) : tensor<?x32xf32>
  %6 = linalg.fill ins(%cst : f32) outs(%5 : tensor<?x32xf32>) -> tensor<?x32xf32>
  %7 = linalg.matmul indexing_maps = [#map, #map1, #map2] ins(%2, %4 : tensor<?x16xf32>, tensor<32x16xf32>) outs(%6 : tensor<?x32xf32>) -> tensor<?x32xf32>
  %8 = iree_tensor_ext.compute_barrier.end %7 : tensor<?x32xf32>{%0} -> tensor<?x32xf32>
  %9 = hal.tensor.export %8 "output0" : tensor<?x32xf32>{%0} -> !hal.buffer_view
  util.return %9 : !hal.buffer_view
}

// -----

// From jax, x: bf16[8, 16], w: bf16[16, 32]
//   x @ w
// CHECK-LABEL: @jax
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xbf16>
// CHECK: linalg.matmul{{.*}} {iree.opt.data_tiling} ins(%[[X]],
#map = affine_map<(d0, d1) -> (d0, d1)>
util.func public @jax(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x16xbf16>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x16xbf16> -> tensor<8x16xbf16>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<16x32xbf16>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<16x32xbf16> -> tensor<16x32xbf16>
  %4 = tensor.empty() : tensor<8x32xf32>
  %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %6 = linalg.matmul ins(%1, %3 : tensor<8x16xbf16>, tensor<16x32xbf16>) outs(%5 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %7 = tensor.empty() : tensor<8x32xbf16>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%6 : tensor<8x32xf32>) outs(%7 : tensor<8x32xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %11 = arith.truncf %in : f32 to bf16
    linalg.yield %11 : bf16
  } -> tensor<8x32xbf16>
  %9 = iree_tensor_ext.compute_barrier.end %8 : tensor<8x32xbf16> -> tensor<8x32xbf16>
  %10 = hal.tensor.export %9 "output0" : tensor<8x32xbf16> -> !hal.buffer_view
  util.return %10 : !hal.buffer_view
}

// -----

// From onnx 17, x: f32[8, 16], w: f32[16, 32] -> y: f32[8, 32]
//   y = MatMul(x, w)
// CHECK-LABEL: @onnx
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xf32>
// CHECK: linalg.matmul{{.*}} {iree.opt.data_tiling} ins(%[[X]],
util.func public @onnx(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x16xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x16xf32> -> tensor<8x16xf32>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<16x32xf32>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<16x32xf32> -> tensor<16x32xf32>
  %4 = tensor.empty() : tensor<8x32xf32>
  %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %6 = linalg.matmul ins(%1, %3 : tensor<8x16xf32>, tensor<16x32xf32>) outs(%5 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %7 = iree_tensor_ext.compute_barrier.end %6 : tensor<8x32xf32> -> tensor<8x32xf32>
  %8 = hal.tensor.export %7 "output0" : tensor<8x32xf32> -> !hal.buffer_view
  util.return %8 : !hal.buffer_view
}
