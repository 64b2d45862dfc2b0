// RUN: %mlirfuse-opt %s --split-input-file --pipeline=transpose_matmul_fusion,batch_matmul_transpose_fusion | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/batch_matmul_transpose_fusion.mlir

// From torch, p: f32[2, 4, 8, 8], v: f32[2, 8, 4, 16]
//   (p @ v.transpose(1, 2)).transpose(1, 2)
// CHECK-LABEL: @torch
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<2x8x4x16xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x8x8xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "batch_matmul_transpose_fusion"
// CHECK: %[[A:.*]] = linalg.generic {{.*}}ins(%{{.*}}, %[[X]] :
// CHECK: flow.return %[[A]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
util.func public @torch(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<2x4x8x8xf32>
  %1 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<2x8x4x16xf32>
  %2 = iree_tensor_ext.compute_barrier.start %1 : tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>
  %3 = tensor.empty() : tensor<2x4x8x16xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%2 : tensor<2x8x4x16xf32>) outs(%3 : tensor<2x4x8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x8x16xf32>
  %collapsed = tensor.collapse_shape %0 [[0, 1], [2], [3]] : tensor<2x4x8x8xf32> into tensor<8x8x8xf32>
  %5 = iree_tensor_ext.compute_barrier.start %collapsed : tensor<8x8x8xf32> -> tensor<8x8x8xf32>
  %collapsed_0 = tensor.collapse_shape %4 [[0, 1], [2], [3]] : tensor<2x4x8x16xf32> into tensor<8x8x16xf32>
  %6 = tensor.empty() : tensor<8x8x16xf32>
  %7 = linalg.fill ins(%cst : f32) outs(%6 : tensor<8x8x16xf32>) -> tensor<8x8x16xf32>
  %8 = linalg.batch_matmul ins(%5, %collapsed_0 : tensor<8x8x8xf32>, tensor<8x8x16xf32>) outs(%7 : tensor<8x8x16xf32>) -> tensor<8x8x16xf32>
  %expanded = tensor.expand_shape %8 [[0, 1], [2], [3]] output_shape [2, 4, 8, 16] : tensor<8x8x16xf32> into tensor<2x4x8x16xf32>
  %9 = tensor.empty() : tensor<2x8x4x16xf32>
  %10 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded : tensor<2x4x8x16xf32>) outs(%9 : tensor<2x8x4x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x8x4x16xf32>
  %11 = iree_tensor_ext.compute_barrier.end %10 : tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>
  %12 = hal.tensor.export %11 "output0" : tensor<2x8x4x16xf32> -> !hal.buffer_view
  util.return %12 : !hal.buffer_view
}

// -----

// From jax, p: bf16[2, 4, 8, 8], v: bf16[2, 8, 4, 16]
//   jnp.einsum('bhmn,bnhd->bmhd', p, v)
// CHECK-LABEL: @jax
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<2x4x8x8xbf16>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<2x8x4x16xbf16>
#map = affine_map<(d0, d1, d2, d3) -> (d0, d3, d1, d2)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3, d2)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3, d1)>
util.func public @jax(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<2x4x8x8xbf16>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<2x4x8x8xbf16> -> tensor<2x4x8x8xbf16>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<2x8x4x16xbf16>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<2x8x4x16xbf16> -> tensor<2x8x4x16xbf16>
  %4 = tensor.empty() : tensor<2x4x16x8xbf16>
  %5 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%3 : tensor<2x8x4x16xbf16>) outs(%4 : tensor<2x4x16x8xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  } -> tensor<2x4x16x8xbf16>
  %6 = tensor.empty() : tensor<2x4x8x8xbf16>
  %7 = linalg.generic {indexing_maps = [#map2, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%1 : tensor<2x4x8x8xbf16>) outs(%6 : tensor<2x4x8x8xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  } -> tensor<2x4x8x8xbf16>
  %collapsed = tensor.collapse_shape %5 [[0, 1], [2], [3]] : tensor<2x4x16x8xbf16> into tensor<8x16x8xbf16>
  %collapsed_0 = tensor.collapse_shape %7 [[0, 1], [2], [3]] : tensor<2x4x8x8xbf16> into tensor<8x8x8xbf16>
  %8 = tensor.empty() : tensor<8x16x8xf32>
  %9 = linalg.fill ins(%cst : f32) outs(%8 : tensor<8x16x8xf32>) -> tensor<8x16x8xf32>
  %10 = linalg.batch_matmul ins(%collapsed, %collapsed_0 : tensor<8x16x8xbf16>, tensor<8x8x8xbf16>) outs(%9 : tensor<8x16x8xf32>) -> tensor<8x16x8xf32>
  %expanded = tensor.expand_shape %10 [[0, 1], [2], [3]] output_shape [2, 4, 16, 8] : tensor<8x16x8xf32> into tensor<2x4x16x8xf32>
  %11 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded : tensor<2x4x16x8xf32>) outs(%4 : tensor<2x4x16x8xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %16 = arith.truncf %in : f32 to bf16
    linalg.yield %16 : bf16
  } -> tensor<2x4x16x8xbf16>
  %12 = tensor.empty() : tensor<2x8x4x16xbf16>
  %13 = linalg.generic {indexing_maps = [#map3, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%11 : tensor<2x4x16x8xbf16>) outs(%12 : tensor<2x8x4x16xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  } -> tensor<2x8x4x16xbf16>
  %14 = iree_tensor_ext.compute_barrier.end %13 : tensor<2x8x4x16xbf16> -> tensor<2x8x4x16xbf16>
  %15 = hal.tensor.export %14 "output0" : tensor<2x8x4x16xbf16> -> !hal.buffer_view
  util.return %15 : !hal.buffer_view
}

// -----

// From onnx 17, p: f32[2, 4, 8, 8], v: f32[2, 8, 4, 16] -> y: f32[2, 8, 4, 16]
//   t = Transpose<perm=[0, 2, 1, 3]>(v) c = MatMul(p, t) y = Transpose<perm=[0, 2, 1, 3]>(c)
// CHECK-LABEL: @onnx
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<2x8x4x16xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x8x8xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "batch_matmul_transpose_fusion"
// CHECK: %[[A:.*]] = linalg.generic {{.*}}ins(%{{.*}}, %[[X]] :
// CHECK: flow.return %[[A]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
util.func public @onnx(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<2x4x8x8xf32>
  %1 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<2x8x4x16xf32>
  %2 = iree_tensor_ext.compute_barrier.start %1 : tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>
  %3 = tensor.empty() : tensor<2x4x8x16xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%2 : tensor<2x8x4x16xf32>) outs(%3 : tensor<2x4x8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x8x16xf32>
  %collapsed = tensor.collapse_shape %0 [[0, 1], [2], [3]] : tensor<2x4x8x8xf32> into tensor<8x8x8xf32>
  %5 = iree_tensor_ext.compute_barrier.start %collapsed : tensor<8x8x8xf32> -> tensor<8x8x8xf32>
  %collapsed_0 = tensor.collapse_shape %4 [[0, 1], [2], [3]] : tensor<2x4x8x16xf32> into tensor<8x8x16xf32>
  %6 = tensor.empty() : tensor<8x8x16xf32>
  %7 = linalg.fill ins(%cst : f32) outs(%6 : tensor<8x8x16xf32>) -> tensor<8x8x16xf32>
  %8 = linalg.batch_matmul ins(%5, %collapsed_0 : tensor<8x8x8xf32>, tensor<8x8x16xf32>) outs(%7 : tensor<8x8x16xf32>) -> tensor<8x8x16xf32>
  %expanded = tensor.expand_shape %8 [[0, 1], [2], [3]] output_shape [2, 4, 8, 16] : tensor<8x8x16xf32> into tensor<2x4x8x16xf32>
  %9 = tensor.empty() : tensor<2x8x4x16xf32>
  %10 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded : tensor<2x4x8x16xf32>) outs(%9 : tensor<2x8x4x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x8x4x16xf32>
  %11 = iree_tensor_ext.compute_barrier.end %10 : tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>
  %12 = hal.tensor.export %11 "output0" : tensor<2x8x4x16xf32> -> !hal.buffer_view
  util.return %12 : !hal.buffer_view
}
