// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_elem_biasadd_fusion | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/matmul_elem_biasadd_fusion.mlir

// From torch, x: f32[?, 16], w: f32[32, 16], b: f32[32]
//   F.linear(x, w, b)
// CHECK-LABEL: @torch
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<?x16xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32x16xf32>
// CHECK: %[[Z:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "matmul_elem_biasadd_fusion"
// CHECK: %[[A:.*]] = linalg.matmul {{.*}}ins(%[[X]], %[[Y]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[Z]], %[[A]] :
// CHECK: flow.return %[[B]] :
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
    %13 = arith.addf %in, %in_0 : f32
    linalg.yield %13 : f32
  } -> tensor<?x32xf32>
  %11 = iree_tensor_ext.compute_barrier.end %10 : tensor<?x32xf32>{%0} -> tensor<?x32xf32>
  %12 = hal.tensor.export %11 "output0" : tensor<?x32xf32>{%0} -> !hal.buffer_view
  util.return %12 : !hal.buffer_view
}

// -----

// From jax, x: bf16[8, 16], w: bf16[16, 32], b: bf16[32]
//   x @ w + b
// CHECK-LABEL: @jax
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xbf16>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<16x32xbf16>
// CHECK: %[[Z:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32xbf16>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "matmul_elem_biasadd_fusion"
// CHECK: %[[A:.*]] = linalg.matmul {{.*}}ins(%[[X]], %[[Y]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[A]] :
// CHECK: %[[C:.*]] = linalg.generic {{.*}}ins(%[[B]], %{{.*}} :
// CHECK: flow.return %[[C]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d1)>
util.func public @jax(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x16xbf16>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x16xbf16> -> tensor<8x16xbf16>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<16x32xbf16>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<16x32xbf16> -> tensor<16x32xbf16>
  %4 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<32xbf16>
  %5 = iree_tensor_ext.compute_barrier.start %4 : tensor<32xbf16> -> tensor<32xbf16>
  %6 = tensor.empty() : tensor<8x32xf32>
  %7 = linalg.fill ins(%cst : f32) outs(%6 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %8 = linalg.matmul ins(%1, %3 : tensor<8x16xbf16>, tensor<16x32xbf16>) outs(%7 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %9 = tensor.empty() : tensor<8x32xbf16>
  %10 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%8 : tensor<8x32xf32>) outs(%9 : tensor<8x32xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %15 = arith.truncf %in : f32 to bf16
    linalg.yield %15 : bf16
  } -> tensor<8x32xbf16>
  %11 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<32xbf16>) outs(%9 : tensor<8x32xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  } -> tensor<8x32xbf16>
  %12 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%10, %11 : tensor<8x32xbf16>, tensor<8x32xbf16>) outs(%9 : tensor<8x32xbf16>) {
  ^bb0(%in: bf16, %in_0: bf16, %out: bf16):
    %15 = arith.addf %in, %in_0 : bf16
    linalg.yield %15 : bf16
  } -> tensor<8x32xbf16>
  %13 = iree_tensor_ext.compute_barrier.end %12 : tensor<8x32xbf16> -> tensor<8x32xbf16>
  %14 = hal.tensor.export %13 "output0" : tensor<8x32xbf16> -> !hal.buffer_view
  util.return %14 : !hal.buffer_view
}

// -----

// From onnx 17, x: f32[8, 16], w: f32[32, 16], b: f32[32] -> y: f32[8, 32]
//   y = Gemm<transB=1>(x, w, b)
// CHECK-LABEL: @onnx
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32x16xf32>
// CHECK: %[[Z:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "matmul_elem_biasadd_fusion"
// CHECK: %[[A:.*]] = linalg.matmul {{.*}}ins(%[[X]], %[[Y]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[A]], %[[Z]] :
// CHECK: flow.return %[[B]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map3 = affine_map<(d0, d1) -> (d0, d1)>
#map4 = affine_map<(d0, d1) -> (d1)>
util.func public @onnx(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x16xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x16xf32> -> tensor<8x16xf32>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<32x16xf32>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<32x16xf32> -> tensor<32x16xf32>
  %4 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<32xf32>
  %5 = iree_tensor_ext.compute_barrier.start %4 : tensor<32xf32> -> tensor<32xf32>
  %6 = tensor.empty() : tensor<8x32xf32>
  %7 = linalg.fill ins(%cst : f32) outs(%6 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %8 = linalg.matmul indexing_maps = [#map, #map1, #map2] ins(%1, %3 : tensor<8x16xf32>, tensor<32x16xf32>) outs(%7 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %9 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%8, %5 : tensor<8x32xf32>, tensor<32xf32>) outs(%6 : tensor<8x32xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %12 = arith.addf %in, %in_0 : f32
    linalg.yield %12 : f32
  } -> tensor<8x32xf32>
  %10 = iree_tensor_ext.compute_barrier.end %9 : tensor<8x32xf32> -> tensor<8x32xf32>
  %11 = hal.tensor.export %10 "output0" : tensor<8x32xf32> -> !hal.buffer_view
  util.return %11 : !hal.buffer_view
}
