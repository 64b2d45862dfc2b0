// RUN: %mlirfuse-opt %s --split-input-file --pipeline=horizontal_fusion | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/horizontal_fusion.mlir

// From torch, x: f32[8, 16], z: f32[8, 16]
//   x.exp(), x * z
// CHECK-LABEL: @torch
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xf32>
// CHECK: %[[R:.*]]:2 = flow.dispatch.region {{.*}}mlirfuse.pass = "horizontal_fusion"
// CHECK: %[[A:.*]]:2 = linalg.generic {{.*}}ins(%[[X]], %[[Y]] :
// CHECK: flow.return %[[A]]#0, %[[A]]#1 :
// CHECK: compute_barrier.end %[[R]]#0 :
// CHECK: compute_barrier.end %[[R]]#1 :
#map = affine_map<(d0, d1) -> (d0, d1)>
util.func public @torch(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> (!hal.buffer_view, !hal.buffer_view) {
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x16xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x16xf32> -> tensor<8x16xf32>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<8x16xf32>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<8x16xf32> -> tensor<8x16xf32>
  %4 = tensor.empty() : tensor<8x16xf32>
  %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<8x16xf32>) outs(%4 : tensor<8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %11 = math.exp %in : f32
    linalg.yield %11 : f32
  } -> tensor<8x16xf32>
  %6 = iree_tensor_ext.compute_barrier.end %5 : tensor<8x16xf32> -> tensor<8x16xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%1, %3 : tensor<8x16xf32>, tensor<8x16xf32>) outs(%4 : tensor<8x16xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %11 = arith.mulf %in, %in_0 : f32
    linalg.yield %11 : f32
  } -> tensor<8x16xf32>
  %8 = iree_tensor_ext.compute_barrier.end %7 : tensor<8x16xf32> -> tensor<8x16xf32>
  %9 = hal.tensor.export %6 "output0" : tensor<8x16xf32> -> !hal.buffer_view
  %10 = hal.tensor.export %8 "output1" : tensor<8x16xf32> -> !hal.buffer_view
  util.return %9, %10 : !hal.buffer_view, !hal.buffer_view
}

// -----

// From jax, x: f32[8, 16]
//   jnp.sum(x, -1), jnp.max(x, -1)
// CHECK-LABEL: @jax
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xf32>
// CHECK: %[[R:.*]]:2 = flow.dispatch.region {{.*}}mlirfuse.pass = "horizontal_fusion"
// CHECK: %[[A:.*]]:2 = linalg.generic {{.*}}ins(%[[X]] :
// CHECK: flow.return %[[A]]#0, %[[A]]#1 :
// CHECK: compute_barrier.end %[[R]]#0 :
// CHECK: compute_barrier.end %[[R]]#1 :
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
util.func public @jax(%arg0: !hal.buffer_view) -> (!hal.buffer_view, !hal.buffer_view) {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 0xFF800000 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x16xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x16xf32> -> tensor<8x16xf32>
  %2 = tensor.empty() : tensor<8xf32>
  %3 = linalg.fill ins(%cst : f32) outs(%2 : tensor<8xf32>) -> tensor<8xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%1 : tensor<8x16xf32>) outs(%3 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %11 = arith.addf %out, %in : f32
    linalg.yield %11 : f32
  } -> tensor<8xf32>
  %5 = iree_tensor_ext.compute_barrier.end %4 : tensor<8xf32> -> tensor<8xf32>
  %6 = linalg.fill ins(%cst_0 : f32) outs(%2 : tensor<8xf32>) -> tensor<8xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%1 : tensor<8x16xf32>) outs(%6 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %11 = arith.maximumf %out, %in : f32
    linalg.yield %11 : f32
  } -> tensor<8xf32>
  %8 = iree_tensor_ext.compute_barrier.end %7 : tensor<8xf32> -> tensor<8xf32>
  %9 = hal.tensor.export %5 "output0" : tensor<8xf32> -> !hal.buffer_view
  %10 = hal.tensor.export %8 "output1" : tensor<8xf32> -> !hal.buffer_view
  util.return %9, %10 : !hal.buffer_view, !hal.buffer_view
}

// -----

// From onnx 17, x: f32[8, 16] -> y: f32[8, 16], z: f32[8, 16]
//   y = Exp(x) z = Tanh(x)
// CHECK-LABEL: @onnx
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xf32>
// CHECK: %[[R:.*]]:2 = flow.dispatch.region {{.*}}mlirfuse.pass = "horizontal_fusion"
// CHECK: %[[A:.*]]:2 = linalg.generic {{.*}}ins(%[[X]] :
// CHECK: flow.return %[[A]]#0, %[[A]]#1 :
// CHECK: compute_barrier.end %[[R]]#0 :
// CHECK: compute_barrier.end %[[R]]#1 :
#map = affine_map<(d0, d1) -> (d0, d1)>
util.func public @onnx(%arg0: !hal.buffer_view) -> (!hal.buffer_view, !hal.buffer_view) {
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x16xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x16xf32> -> tensor<8x16xf32>
  %2 = tensor.empty() : tensor<8x16xf32>
  %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<8x16xf32>) outs(%2 : tensor<8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %9 = math.exp %in : f32
    linalg.yield %9 : f32
  } -> tensor<8x16xf32>
  %4 = iree_tensor_ext.compute_barrier.end %3 : tensor<8x16xf32> -> tensor<8x16xf32>
  %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<8x16xf32>) outs(%2 : tensor<8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %9 = math.tanh %in : f32
    linalg.yield %9 : f32
  } -> tensor<8x16xf32>
  %6 = iree_tensor_ext.compute_barrier.end %5 : tensor<8x16xf32> -> tensor<8x16xf32>
  %7 = hal.tensor.export %4 "output0" : tensor<8x16xf32> -> !hal.buffer_view
  %8 = hal.tensor.export %6 "output1" : tensor<8x16xf32> -> !hal.buffer_view
  util.return %7, %8 : !hal.buffer_view, !hal.buffer_view
}
