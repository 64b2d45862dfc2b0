// RUN: %mlirfuse-opt %s --split-input-file --target=cuda --pipeline=dequant_matmul_fusion | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/dequant_matmul_fusion.mlir

// From onnx 17, x: f32[8, 64], w: i8[64, 32], s: f32[32], z: i8[32] -> y: f32[8, 32]
//   i = Sub(w, z) f = Cast<to=1>(i) d = Mul(f, s) y = MatMul(x, d)
// CHECK-LABEL: @onnx
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x64xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<64x32xi8>
// CHECK: %[[Z:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32xf32>
// CHECK: %[[W:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32xi8>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "dequant_matmul_fusion"
// CHECK: %[[A:.*]] = linalg.generic {{.*}}ins(%{{.*}} :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[A]], %[[Z]] :
// CHECK: %[[C:.*]] = linalg.matmul {{.*}}ins(%[[X]], %[[B]] :
// CHECK: flow.return %[[C]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d1)>
util.func public @onnx(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view, %arg3: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x64xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x64xf32> -> tensor<8x64xf32>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<64x32xi8>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<64x32xi8> -> tensor<64x32xi8>
  %4 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<32xf32>
  %5 = iree_tensor_ext.compute_barrier.start %4 : tensor<32xf32> -> tensor<32xf32>
  %6 = hal.tensor.import %arg3 "input3" : !hal.buffer_view -> tensor<32xi8>
  %7 = iree_tensor_ext.compute_barrier.start %6 : tensor<32xi8> -> tensor<32xi8>
  %8 = tensor.empty() : tensor<64x32xi8>
  %9 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%3, %7 : tensor<64x32xi8>, tensor<32xi8>) outs(%8 : tensor<64x32xi8>) {
  ^bb0(%in: i8, %in_0: i8, %out: i8):
    %18 = arith.subi %in, %in_0 : i8
    linalg.yield %18 : i8
  } -> tensor<64x32xi8>
  %10 = tensor.empty() : tensor<64x32xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%9 : tensor<64x32xi8>) outs(%10 : tensor<64x32xf32>) {
  ^bb0(%in: i8, %out: f32):
    %18 = arith.sitofp %in : i8 to f32
    linalg.yield %18 : f32
  } -> tensor<64x32xf32>
  %12 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%11, %5 : tensor<64x32xf32>, tensor<32xf32>) outs(%10 : tensor<64x32xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %18 = arith.mulf %in, %in_0 : f32
    linalg.yield %18 : f32
  } -> tensor<64x32xf32>
  %13 = tensor.empty() : tensor<8x32xf32>
  %14 = linalg.fill ins(%cst : f32) outs(%13 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %15 = linalg.matmul ins(%1, %12 : tensor<8x64xf32>, tensor<64x32xf32>) outs(%14 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %16 = iree_tensor_ext.compute_barrier.end %15 : tensor<8x32xf32> -> tensor<8x32xf32>
  %17 = hal.tensor.export %16 "output0" : tensor<8x32xf32> -> !hal.buffer_view
  util.return %17 : !hal.buffer_view
}
