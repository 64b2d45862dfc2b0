// RUN: %mlirfuse-opt %s --split-input-file --target=rocm --pipeline=matmul_horizontal_fusion | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/matmul_horizontal_fusion.mlir

// From torch, x: f16[16, 32], q: f16[32, 32], k: f16[32, 32], v: f16[32, 32]
//   F.linear(x, q), F.linear(x, k), F.linear(x, v)
// CHECK-LABEL: @torch
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<16x32xf16>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32x32xf16>
// CHECK: %[[Z:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32x32xf16>
// CHECK: %[[W:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32x32xf16>
// CHECK: %[[R:.*]]:3 = flow.dispatch.region {{.*}}mlirfuse.pass = "matmul_horizontal_fusion"
// CHECK: %[[A:.*]]:3 = linalg.generic {{.*}}ins(%[[X]], %[[Y]], %[[Z]], %[[W]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%{{.*}} :
// CHECK: %[[C:.*]] = linalg.generic {{.*}}ins(%{{.*}} :
// CHECK: %[[D:.*]] = linalg.generic {{.*}}ins(%{{.*}} :
// CHECK: flow.return %[[B]], %[[C]], %[[D]] :
// CHECK: compute_barrier.end %[[R]]#0 :
// CHECK: compute_barrier.end %[[R]]#1 :
// CHECK: compute_barrier.end %[[R]]#2 :
#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map3 = affine_map<(d0, d1) -> (d0, d1)>
util.func public @torch(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view, %arg3: !hal.buffer_view) -> (!hal.buffer_view, !hal.buffer_view, !hal.buffer_view) {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<16x32xf16>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<16x32xf16> -> tensor<16x32xf16>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<32x32xf16>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<32x32xf16> -> tensor<32x32xf16>
  %4 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<32x32xf16>
  %5 = iree_tensor_ext.compute_barrier.start %4 : tensor<32x32xf16> -> tensor<32x32xf16>
  %6 = hal.tensor.import %arg3 "input3" : !hal.buffer_view -> tensor<32x32xf16>
  %7 = iree_tensor_ext.compute_barrier.start %6 : tensor<32x32xf16> -> tensor<32x32xf16>
  %8 = tensor.empty() : tensor<16x32xf32>
  %9 = linalg.fill ins(%cst : f32) outs(%8 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %10 = linalg.matmul indexing_maps = [#map, #map1, #map2] ins(%1, %3 : tensor<16x32xf16>, tensor<32x32xf16>) outs(%9 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %11 = tensor.empty() : tensor<16x32xf16>
  %12 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<16x32xf32>) outs(%11 : tensor<16x32xf16>) {
  ^bb0(%in: f32, %out: f16):
    %23 = arith.truncf %in : f32 to f16
    linalg.yield %23 : f16
  } -> tensor<16x32xf16>
  %13 = iree_tensor_ext.compute_barrier.end %12 : tensor<16x32xf16> -> tensor<16x32xf16>
  %14 = linalg.matmul indexing_maps = [#map, #map1, #map2] ins(%1, %5 : tensor<16x32xf16>, tensor<32x32xf16>) outs(%9 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %15 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%14 : tensor<16x32xf32>) outs(%11 : tensor<16x32xf16>) {
  ^bb0(%in: f32, %out: f16):
    %23 = arith.truncf %in : f32 to f16
    linalg.yield %23 : f16
  } -> tensor<16x32xf16>
  %16 = iree_tensor_ext.compute_barrier.end %15 : tensor<16x32xf16> -> tensor<16x32xf16>
  %17 = linalg.matmul indexing_maps = [#map, #map1, #map2] ins(%1, %7 : tensor<16x32xf16>, tensor<32x32xf16>) outs(%9 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %18 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%17 : tensor<16x32xf32>) outs(%11 : tensor<16x32xf16>) {
  ^bb0(%in: f32, %out: f16):
    %23 = arith.truncf %in : f32 to f16
    linalg.yield %23 : f16
  } -> tensor<16x32xf16>
  %19 = iree_tensor_ext.compute_barrier.end %18 : tensor<16x32xf16> -> tensor<16x32xf16>
  %20 = hal.tensor.export %13 "output0" : tensor<16x32xf16> -> !hal.buffer_view
  %21 = hal.tensor.export %16 "output1" : tensor<16x32xf16> -> !hal.buffer_view
  %22 = hal.tensor.export %19 "output2" : tensor<16x32xf16> -> !hal.buffer_view
  util.return %20, %21, %22 : !hal.buffer_view, !hal.buffer_view, !hal.buffer_view
}

// -----

// From jax, x: f32[16, 32], g: f32[32, 64], u: f32[32, 64]
//   x @ g, x @ u
// CHECK-LABEL: @jax
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<16x32xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32x64xf32>
// CHECK: %[[Z:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32x64xf32>
// CHECK: %[[R:.*]]:2 = flow.dispatch.region {{.*}}mlirfuse.pass = "matmul_horizontal_fusion"
// CHECK: %[[A:.*]]:2 = linalg.generic {{.*}}ins(%[[X]], %[[Y]], %[[Z]] :
// CHECK: flow.return %[[A]]#0, %[[A]]#1 :
// CHECK: compute_barrier.end %[[R]]#0 :
// CHECK: compute_barrier.end %[[R]]#1 :
util.func public @jax(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view) -> (!hal.buffer_view, !hal.buffer_view) {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<16x32xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<16x32xf32> -> tensor<16x32xf32>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<32x64xf32>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<32x64xf32> -> tensor<32x64xf32>
  %4 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<32x64xf32>
  %5 = iree_tensor_ext.compute_barrier.start %4 : tensor<32x64xf32> -> tensor<32x64xf32>
  %6 = tensor.empty() : tensor<16x64xf32>
  %7 = linalg.fill ins(%cst : f32) outs(%6 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %8 = linalg.matmul ins(%1, %3 : tensor<16x32xf32>, tensor<32x64xf32>) outs(%7 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %9 = iree_tensor_ext.compute_barrier.end %8 : tensor<16x64xf32> -> tensor<16x64xf32>
  %10 = linalg.matmul ins(%1, %5 : tensor<16x32xf32>, tensor<32x64xf32>) outs(%7 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %11 = iree_tensor_ext.compute_barrier.end %10 : tensor<16x64xf32> -> tensor<16x64xf32>
  %12 = hal.tensor.export %9 "output0" : tensor<16x64xf32> -> !hal.buffer_view
  %13 = hal.tensor.export %11 "output1" : tensor<16x64xf32> -> !hal.buffer_view
  util.return %12, %13 : !hal.buffer_view, !hal.buffer_view
}

// -----

// From onnx 17, x: f16[16, 32], q: f16[32, 32], k: f16[32, 32] -> y: f16[16, 16]
//   a = MatMul(x, q) b = MatMul(x, k) t = Transpose<perm=[1, 0]>(b) y = MatMul(a, t)
// CHECK-LABEL: @onnx
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<16x32xf16>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32x32xf16>
// CHECK: %[[Z:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32x32xf16>
// CHECK: %[[R:.*]]:2 = flow.dispatch.region {{.*}}mlirfuse.pass = "matmul_horizontal_fusion"
// CHECK: %[[A:.*]]:2 = linalg.generic {{.*}}ins(%[[X]], %[[Y]], %[[Z]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%{{.*}} :
// CHECK: %[[C:.*]] = linalg.generic {{.*}}ins(%{{.*}} :
// CHECK: flow.return %[[B]], %[[C]] :
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d2)>
#map2 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map3 = affine_map<(d0, d1, d2) -> (d0, d1)>
util.func public @onnx(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<16x32xf16>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<16x32xf16> -> tensor<16x32xf16>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<32x32xf16>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<32x32xf16> -> tensor<32x32xf16>
  %4 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<32x32xf16>
  %5 = iree_tensor_ext.compute_barrier.start %4 : tensor<32x32xf16> -> tensor<32x32xf16>
  %6 = tensor.empty() : tensor<16x32xf32>
  %7 = linalg.fill ins(%cst : f32) outs(%6 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %8 = linalg.matmul ins(%1, %3 : tensor<16x32xf16>, tensor<32x32xf16>) outs(%7 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %9 = tensor.empty() : tensor<16x32xf16>
  %10 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%8 : tensor<16x32xf32>) outs(%9 : tensor<16x32xf16>) {
  ^bb0(%in: f32, %out: f16):
    %20 = arith.truncf %in : f32 to f16
    linalg.yield %20 : f16
  } -> tensor<16x32xf16>
  %11 = linalg.matmul ins(%1, %5 : tensor<16x32xf16>, tensor<32x32xf16>) outs(%7 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %12 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<16x32xf32>) outs(%9 : tensor<16x32xf16>) {
  ^bb0(%in: f32, %out: f16):
    %20 = arith.truncf %in : f32 to f16
    linalg.yield %20 : f16
  } -> tensor<16x32xf16>
  %13 = tensor.empty() : tensor<16x16xf32>
  %14 = linalg.fill ins(%cst : f32) outs(%13 : tensor<16x16xf32>) -> tensor<16x16xf32>
  %15 = linalg.matmul indexing_maps = [#map1, #map2, #map3] ins(%10, %12 : tensor<16x32xf16>, tensor<16x32xf16>) outs(%14 : tensor<16x16xf32>) -> tensor<16x16xf32>
  %16 = tensor.empty() : tensor<16x16xf16>
  %17 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<16x16xf32>) outs(%16 : tensor<16x16xf16>) {
  ^bb0(%in: f32, %out: f16):
    %20 = arith.truncf %in : f32 to f16
    linalg.yield %20 : f16
  } -> tensor<16x16xf16>
  %18 = iree_tensor_ext.compute_barrier.end %17 : tensor<16x16xf16> -> tensor<16x16xf16>
  %19 = hal.tensor.export %18 "output0" : tensor<16x16xf16> -> !hal.buffer_view
  util.return %19 : !hal.buffer_view
}
