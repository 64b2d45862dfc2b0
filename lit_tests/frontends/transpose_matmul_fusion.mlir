// RUN: %mlirfuse-opt %s --split-input-file --pipeline=transpose_matmul_fusion | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/transpose_matmul_fusion.mlir

// From torch, q: f32[2, 8, 4, 16], k: f32[2, 8, 4, 16]
//   q.transpose(1, 2) @ k.permute(0, 2, 3, 1)
// CHECK: #[[A:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d1, d4)>
// CHECK: #[[B:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d1, d4)>
// CHECK: #[[C:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>
// CHECK-LABEL: @torch
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<2x8x4x16xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<2x8x4x16xf32>
// CHECK: %[[R:.*]] = linalg.generic {indexing_maps = [#[[A]], #[[B]], #[[C]]], {{.*}} ins(%[[X]], %[[Y]] :
// CHECK: %[[M:.*]] = tensor.collapse_shape %[[R]]
// CHECK: compute_barrier.end %[[M]] :
#map = affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d3, d1, d2)>
util.func public @torch(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<2x8x4x16xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<2x8x4x16xf32>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>
  %4 = tensor.empty() : tensor<2x4x8x16xf32>
  %5 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%1 : tensor<2x8x4x16xf32>) outs(%4 : tensor<2x4x8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x8x16xf32>
  %6 = tensor.empty() : tensor<2x4x16x8xf32>
  %7 = linalg.generic {indexing_maps = [#map2, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%3 : tensor<2x8x4x16xf32>) outs(%6 : tensor<2x4x16x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x16x8xf32>
  %collapsed = tensor.collapse_shape %5 [[0, 1], [2], [3]] : tensor<2x4x8x16xf32> into tensor<8x8x16xf32>
  %collapsed_0 = tensor.collapse_shape %7 [[0, 1], [2], [3]] : tensor<2x4x16x8xf32> into tensor<8x16x8xf32>
  %8 = tensor.empty() : tensor<8x8x8xf32>
  %9 = linalg.fill ins(%cst : f32) outs(%8 : tensor<8x8x8xf32>) -> tensor<8x8x8xf32>
  %10 = linalg.batch_matmul ins(%collapsed, %collapsed_0 : tensor<8x8x16xf32>, tensor<8x16x8xf32>) outs(%9 : tensor<8x8x8xf32>) -> tensor<8x8x8xf32>
  %11 = iree_tensor_ext.compute_barrier.end %10 : tensor<8x8x8xf32> -> tensor<8x8x8xf32>
  %expanded = tensor.expand_shape %11 [[0, 1], [2], [3]] output_shape [2, 4, 8, 8] : tensor<8x8x8xf32> into tensor<2x4x8x8xf32>
  %12 = hal.tensor.export %expanded "output0" : tensor<2x4x8x8xf32> -> !hal.buffer_view
  util.return %12 : !hal.buffer_view
}

// -----

// From jax, q: f32[2, 8, 4, 16], k: f32[2, 8, 4, 16]
//   jnp.einsum('bmhd,bnhd->bhmn', q, k)
// CHECK: #[[A:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d1, d4)>
// CHECK: #[[B:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d1, d4)>
// CHECK: #[[C:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>
// CHECK-LABEL: @jax
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<2x8x4x16xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<2x8x4x16xf32>
// CHECK: %[[R:.*]] = linalg.generic {indexing_maps = [#[[A]], #[[B]], #[[C]]], {{.*}} ins(%[[X]], %[[Y]] :
// CHECK: %[[M:.*]] = tensor.collapse_shape %[[R]]
// CHECK: compute_barrier.end %[[M]] :
#map = affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d3, d1, d2)>
util.func public @jax(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<2x8x4x16xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<2x8x4x16xf32>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>
  %4 = tensor.empty() : tensor<2x4x8x16xf32>
  %5 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%1 : tensor<2x8x4x16xf32>) outs(%4 : tensor<2x4x8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x8x16xf32>
  %6 = tensor.empty() : tensor<2x4x16x8xf32>
  %7 = linalg.generic {indexing_maps = [#map2, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%3 : tensor<2x8x4x16xf32>) outs(%6 : tensor<2x4x16x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x16x8xf32>
  %collapsed = tensor.collapse_shape %5 [[0, 1], [2], [3]] : tensor<2x4x8x16xf32> into tensor<8x8x16xf32>
  %collapsed_0 = tensor.collapse_shape %7 [[0, 1], [2], [3]] : tensor<2x4x16x8xf32> into tensor<8x16x8xf32>
  %8 = tensor.empty() : tensor<8x8x8xf32>
  %9 = linalg.fill ins(%cst : f32) outs(%8 : tensor<8x8x8xf32>) -> tensor<8x8x8xf32>
  %10 = linalg.batch_matmul ins(%collapsed, %collapsed_0 : tensor<8x8x16xf32>, tensor<8x16x8xf32>) outs(%9 : tensor<8x8x8xf32>) -> tensor<8x8x8xf32>
  %11 = iree_tensor_ext.compute_barrier.end %10 : tensor<8x8x8xf32> -> tensor<8x8x8xf32>
  %expanded = tensor.expand_shape %11 [[0, 1], [2], [3]] output_shape [2, 4, 8, 8] : tensor<8x8x8xf32> into tensor<2x4x8x8xf32>
  %12 = hal.tensor.export %expanded "output0" : tensor<2x4x8x8xf32> -> !hal.buffer_view
  util.return %12 : !hal.buffer_view
}

// -----

// From onnx 17, q: f32[2, 8, 4, 16], k: f32[2, 8, 4, 16] -> y: f32[2, 4, 8, 8]
//   a = Transpose<perm=[0, 2, 1, 3]>(q) b = Transpose<perm=[0, 2, 3, 1]>(k) y = MatMul(a, b)
// CHECK: #[[A:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d1, d4)>
// CHECK: #[[B:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d1, d4)>
// CHECK: #[[C:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>
// CHECK-LABEL: @onnx
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<2x8x4x16xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<2x8x4x16xf32>
// CHECK: %[[R:.*]] = linalg.generic {indexing_maps = [#[[A]], #[[B]], #[[C]]], {{.*}} ins(%[[X]], %[[Y]] :
// CHECK: %[[M:.*]] = tensor.collapse_shape %[[R]]
// CHECK: compute_barrier.end %[[M]] :
#map = affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d3, d1, d2)>
util.func public @onnx(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<2x8x4x16xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<2x8x4x16xf32>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>
  %4 = tensor.empty() : tensor<2x4x8x16xf32>
  %5 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%1 : tensor<2x8x4x16xf32>) outs(%4 : tensor<2x4x8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x8x16xf32>
  %6 = tensor.empty() : tensor<2x4x16x8xf32>
  %7 = linalg.generic {indexing_maps = [#map2, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%3 : tensor<2x8x4x16xf32>) outs(%6 : tensor<2x4x16x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x16x8xf32>
  %collapsed = tensor.collapse_shape %5 [[0, 1], [2], [3]] : tensor<2x4x8x16xf32> into tensor<8x8x16xf32>
  %collapsed_0 = tensor.collapse_shape %7 [[0, 1], [2], [3]] : tensor<2x4x16x8xf32> into tensor<8x16x8xf32>
  %8 = tensor.empty() : tensor<8x8x8xf32>
  %9 = linalg.fill ins(%cst : f32) outs(%8 : tensor<8x8x8xf32>) -> tensor<8x8x8xf32>
  %10 = linalg.batch_matmul ins(%collapsed, %collapsed_0 : tensor<8x8x16xf32>, tensor<8x16x8xf32>) outs(%9 : tensor<8x8x8xf32>) -> tensor<8x8x8xf32>
  %11 = iree_tensor_ext.compute_barrier.end %10 : tensor<8x8x8xf32> -> tensor<8x8x8xf32>
  %expanded = tensor.expand_shape %11 [[0, 1], [2], [3]] output_shape [2, 4, 8, 8] : tensor<8x8x8xf32> into tensor<2x4x8x8xf32>
  %12 = hal.tensor.export %expanded "output0" : tensor<2x4x8x8xf32> -> !hal.buffer_view
  util.return %12 : !hal.buffer_view
}
