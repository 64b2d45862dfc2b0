// RUN: %mlirfuse-opt %s --split-input-file --pipeline=expand_dims_hoist_rewrite | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/expand_dims_hoist_rewrite.mlir

// From torch, x: f32[2, 4, 16], w: f32[32, 16], b: f32[32], r: f32[2, 4, 32]
//   F.relu(F.linear(x, w, b) + r)
// CHECK-LABEL: @torch
// CHECK: %[[R0:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<2x4x32xf32>
// CHECK: %[[A:.*]] = linalg.matmul 
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[A]] :
// CHECK: %[[R:.*]] = tensor.collapse_shape %[[R0]] {{.*}} : tensor<2x4x32xf32> into tensor<8x32xf32>
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%[[B]], %[[R]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[E:.*]] = tensor.expand_shape %[[D]] {{.*}} : tensor<8x32xf32> into tensor<2x4x32xf32>
// CHECK: compute_barrier.end %[[E]] :
#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map3 = affine_map<(d0, d1) -> (d1)>
#map4 = affine_map<(d0, d1) -> (d0, d1)>
#map5 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
util.func public @torch(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view, %arg3: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<2x4x16xf32>
  %1 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<32x16xf32>
  %2 = iree_tensor_ext.compute_barrier.start %1 : tensor<32x16xf32> -> tensor<32x16xf32>
  %3 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<32xf32>
  %4 = iree_tensor_ext.compute_barrier.start %3 : tensor<32xf32> -> tensor<32xf32>
  %5 = hal.tensor.import %arg3 "input3" : !hal.buffer_view -> tensor<2x4x32xf32>
  %6 = iree_tensor_ext.compute_barrier.start %5 : tensor<2x4x32xf32> -> tensor<2x4x32xf32>
  %collapsed = tensor.collapse_shape %0 [[0, 1], [2]] : tensor<2x4x16xf32> into tensor<8x16xf32>
  %7 = iree_tensor_ext.compute_barrier.start %collapsed : tensor<8x16xf32> -> tensor<8x16xf32>
  %8 = tensor.empty() : tensor<8x32xf32>
  %9 = linalg.fill ins(%cst : f32) outs(%8 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %10 = linalg.matmul indexing_maps = [#map, #map1, #map2] ins(%7, %2 : tensor<8x16xf32>, tensor<32x16xf32>) outs(%9 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %11 = linalg.generic {indexing_maps = [#map3, #map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%4, %10 : tensor<32xf32>, tensor<8x32xf32>) outs(%8 : tensor<8x32xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %17 = arith.addf %in, %in_0 : f32
    linalg.yield %17 : f32
  } -> tensor<8x32xf32>
  %expanded = tensor.expand_shape %11 [[0, 1], [2]] output_shape [2, 4, 32] : tensor<8x32xf32> into tensor<2x4x32xf32>
  %12 = tensor.empty() : tensor<2x4x32xf32>
  %13 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded, %6 : tensor<2x4x32xf32>, tensor<2x4x32xf32>) outs(%12 : tensor<2x4x32xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %17 = arith.addf %in, %in_0 : f32
    linalg.yield %17 : f32
  } -> tensor<2x4x32xf32>
  %14 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%13 : tensor<2x4x32xf32>) outs(%12 : tensor<2x4x32xf32>) {
  ^bb0(%in: f32, %out: f32):
    %17 = arith.cmpf ugt, %in, %cst : f32
    %18 = arith.select %17, %in, %cst : f32
    linalg.yield %18 : f32
  } -> tensor<2x4x32xf32>
  %15 = iree_tensor_ext.compute_barrier.end %14 : tensor<2x4x32xf32> -> tensor<2x4x32xf32>
  %16 = hal.tensor.export %15 "output0" : tensor<2x4x32xf32> -> !hal.buffer_view
  util.return %16 : !hal.buffer_view
}

// -----

// From jax, x: bf16[2, 4, 16], w: bf16[16, 32], b: bf16[32], r: bf16[2, 4, 32]
//   jax.nn.relu((x.reshape(8, 16) @ w).reshape(2, 4, 32) + b + r)
// CHECK-LABEL: @jax
// CHECK: %[[R0:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<2x4x32xbf16>
// CHECK: %[[A:.*]] = linalg.matmul 
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[A]] :
// CHECK: %[[V:.*]] = linalg.generic {{.*}} ins(%{{.*}} :
// CHECK: %[[B0:.*]] = tensor.collapse_shape %[[V]] {{.*}} : tensor<2x4x32xbf16> into tensor<8x32xbf16>
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[T]], %[[B0]] :
// CHECK: %[[R:.*]] = tensor.collapse_shape %[[R0]] {{.*}} : tensor<2x4x32xbf16> into tensor<8x32xbf16>
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%[[B]], %[[R]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[E:.*]] = tensor.expand_shape %[[D]] {{.*}} : tensor<8x32xbf16> into tensor<2x4x32xbf16>
// CHECK: compute_barrier.end %[[E]] :
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1, d2) -> (d2)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
util.func public @jax(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view, %arg3: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 0.000000e+00 : bf16
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<2x4x16xbf16>
  %1 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<16x32xbf16>
  %2 = iree_tensor_ext.compute_barrier.start %1 : tensor<16x32xbf16> -> tensor<16x32xbf16>
  %3 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<32xbf16>
  %4 = iree_tensor_ext.compute_barrier.start %3 : tensor<32xbf16> -> tensor<32xbf16>
  %5 = hal.tensor.import %arg3 "input3" : !hal.buffer_view -> tensor<2x4x32xbf16>
  %6 = iree_tensor_ext.compute_barrier.start %5 : tensor<2x4x32xbf16> -> tensor<2x4x32xbf16>
  %collapsed = tensor.collapse_shape %0 [[0, 1], [2]] : tensor<2x4x16xbf16> into tensor<8x16xbf16>
  %7 = iree_tensor_ext.compute_barrier.start %collapsed : tensor<8x16xbf16> -> tensor<8x16xbf16>
  %8 = tensor.empty() : tensor<8x32xf32>
  %9 = linalg.fill ins(%cst : f32) outs(%8 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %10 = linalg.matmul ins(%7, %2 : tensor<8x16xbf16>, tensor<16x32xbf16>) outs(%9 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %11 = tensor.empty() : tensor<8x32xbf16>
  %12 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<8x32xf32>) outs(%11 : tensor<8x32xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %20 = arith.truncf %in : f32 to bf16
    linalg.yield %20 : bf16
  } -> tensor<8x32xbf16>
  %expanded = tensor.expand_shape %12 [[0, 1], [2]] output_shape [2, 4, 32] : tensor<8x32xbf16> into tensor<2x4x32xbf16>
  %13 = tensor.empty() : tensor<2x4x32xbf16>
  %14 = linalg.generic {indexing_maps = [#map1, #map2], iterator_types = ["parallel", "parallel", "parallel"]} ins(%4 : tensor<32xbf16>) outs(%13 : tensor<2x4x32xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  } -> tensor<2x4x32xbf16>
  %15 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded, %14 : tensor<2x4x32xbf16>, tensor<2x4x32xbf16>) outs(%13 : tensor<2x4x32xbf16>) {
  ^bb0(%in: bf16, %in_1: bf16, %out: bf16):
    %20 = arith.addf %in, %in_1 : bf16
    linalg.yield %20 : bf16
  } -> tensor<2x4x32xbf16>
  %16 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = ["parallel", "parallel", "parallel"]} ins(%15, %6 : tensor<2x4x32xbf16>, tensor<2x4x32xbf16>) outs(%13 : tensor<2x4x32xbf16>) {
  ^bb0(%in: bf16, %in_1: bf16, %out: bf16):
    %20 = arith.addf %in, %in_1 : bf16
    linalg.yield %20 : bf16
  } -> tensor<2x4x32xbf16>
  %17 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel", "parallel"]} ins(%16 : tensor<2x4x32xbf16>) outs(%13 : tensor<2x4x32xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %20 = arith.maximumf %in, %cst_0 : bf16
    linalg.yield %20 : bf16
  } -> tensor<2x4x32xbf16>
  %18 = iree_tensor_ext.compute_barrier.end %17 : tensor<2x4x32xbf16> -> tensor<2x4x32xbf16>
  %19 = hal.tensor.export %18 "output0" : tensor<2x4x32xbf16> -> !hal.buffer_view
  util.return %19 : !hal.buffer_view
}

// -----

// From onnx 17, x: f32[2, 4, 16], w: f32[16, 32], b: f32[32], r: f32[2, 4, 32] -> y: f32[2, 4, 32]
//   c = MatMul(x, w) d = Add(c, b) e = Add(d, r) y = Relu(e)
// CHECK-LABEL: @onnx
// CHECK: %[[R0:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<2x4x32xf32>
// CHECK: %[[A:.*]] = linalg.matmul 
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[A]], %{{.*}} :
// CHECK: %[[R:.*]] = tensor.collapse_shape %[[R0]] {{.*}} : tensor<2x4x32xf32> into tensor<8x32xf32>
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%[[B]], %[[R]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[E:.*]] = tensor.expand_shape %[[D]] {{.*}} : tensor<8x32xf32> into tensor<2x4x32xf32>
// CHECK: compute_barrier.end %[[E]] :
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d2)>
util.func public @onnx(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view, %arg3: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<2x4x16xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<2x4x16xf32> -> tensor<2x4x16xf32>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<16x32xf32>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<16x32xf32> -> tensor<16x32xf32>
  %4 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<32xf32>
  %5 = iree_tensor_ext.compute_barrier.start %4 : tensor<32xf32> -> tensor<32xf32>
  %6 = hal.tensor.import %arg3 "input3" : !hal.buffer_view -> tensor<2x4x32xf32>
  %7 = iree_tensor_ext.compute_barrier.start %6 : tensor<2x4x32xf32> -> tensor<2x4x32xf32>
  %8 = tensor.empty() : tensor<2x4x32xf32>
  %collapsed = tensor.collapse_shape %1 [[0, 1], [2]] : tensor<2x4x16xf32> into tensor<8x16xf32>
  %9 = tensor.empty() : tensor<8x32xf32>
  %10 = linalg.fill ins(%cst : f32) outs(%9 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %11 = linalg.matmul ins(%collapsed, %3 : tensor<8x16xf32>, tensor<16x32xf32>) outs(%10 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %expanded = tensor.expand_shape %11 [[0, 1], [2]] output_shape [2, 4, 32] : tensor<8x32xf32> into tensor<2x4x32xf32>
  %12 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded, %5 : tensor<2x4x32xf32>, tensor<32xf32>) outs(%8 : tensor<2x4x32xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %17 = arith.addf %in, %in_0 : f32
    linalg.yield %17 : f32
  } -> tensor<2x4x32xf32>
  %13 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%12, %7 : tensor<2x4x32xf32>, tensor<2x4x32xf32>) outs(%8 : tensor<2x4x32xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %17 = arith.addf %in, %in_0 : f32
    linalg.yield %17 : f32
  } -> tensor<2x4x32xf32>
  %14 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%13 : tensor<2x4x32xf32>) outs(%8 : tensor<2x4x32xf32>) {
  ^bb0(%in: f32, %out: f32):
    %17 = arith.cmpf ugt, %in, %cst : f32
    %18 = arith.select %17, %in, %cst : f32
    linalg.yield %18 : f32
  } -> tensor<2x4x32xf32>
  %15 = iree_tensor_ext.compute_barrier.end %14 : tensor<2x4x32xf32> -> tensor<2x4x32xf32>
  %16 = hal.tensor.export %15 "output0" : tensor<2x4x32xf32> -> !hal.buffer_view
  util.return %16 : !hal.buffer_view
}
