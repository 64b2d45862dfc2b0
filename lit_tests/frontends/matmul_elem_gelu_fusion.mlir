// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_elem_gelu_fusion | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/matmul_elem_gelu_fusion.mlir

// From onnx 17, x: f32[?, 16], w: f32[16, 32], b: f32[32] -> y: f32[?, 32]
//   c = MatMul(x, w) d = Add(c, b) one = Constant<value_float=1.0>() half = Constant<value_float=0.5>() root = Constant<value_float=1.4142135>()
//   s = Div(d, root) e = Erf(s) p = Add(e, one) h = Mul(d, p) y = Mul(h, half)
// CHECK-LABEL: @onnx
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<?x16xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<16x32xf32>
// CHECK: %[[Z:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<32xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "matmul_elem_gelu_fusion"
// CHECK: %[[A:.*]] = linalg.matmul {{.*}}ins(%[[X]], %[[Y]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[A]], %[[Z]] :
// CHECK: %[[C:.*]] = linalg.generic {{.*}}ins(%[[B]], %{{.*}} :
// CHECK: %[[D:.*]] = linalg.generic {{.*}}ins(%[[C]] :
// CHECK: %[[E:.*]] = linalg.generic {{.*}}ins(%[[D]], %{{.*}} :
// CHECK: %[[F:.*]] = linalg.generic {{.*}}ins(%[[B]], %[[E]] :
// CHECK: %[[G:.*]] = linalg.generic {{.*}}ins(%[[F]], %{{.*}} :
// CHECK: flow.return %[[G]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d1)>
#map2 = affine_map<(d0, d1) -> ()>
util.func public @onnx(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant dense<1.000000e+00> : tensor<f32>
  %cst_0 = arith.constant dense<5.000000e-01> : tensor<f32>
  %cst_1 = arith.constant dense<1.41421354> : tensor<f32>
  %cst_2 = arith.constant 0.000000e+00 : f32
  %0 = hal.buffer_view.dim<%arg0 : !hal.buffer_view>[0] : index
  %1 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<?x16xf32>{%0}
  %2 = iree_tensor_ext.compute_barrier.start %1 : tensor<?x16xf32>{%0} -> tensor<?x16xf32>
  %3 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<16x32xf32>
  %4 = iree_tensor_ext.compute_barrier.start %3 : tensor<16x32xf32> -> tensor<16x32xf32>
  %5 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<32xf32>
  %6 = iree_tensor_ext.compute_barrier.start %5 : tensor<32xf32> -> tensor<32xf32>
  %7 = tensor.empty(%0) : tensor<?x32xf32>
  %8 = linalg.fill ins(%cst_2 : f32) outs(%7 : tensor<?x32xf32>) -> tensor<?x32xf32>
  %9 = linalg.matmul ins(%2, %4 : tensor<?x16xf32>, tensor<16x32xf32>) outs(%8 : tensor<?x32xf32>) -> tensor<?x32xf32>
  %10 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%9, %6 : tensor<?x32xf32>, tensor<32xf32>) outs(%7 : tensor<?x32xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %18 = arith.addf %in, %in_3 : f32
    linalg.yield %18 : f32
  } -> tensor<?x32xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel"]} ins(%10, %cst_1 : tensor<?x32xf32>, tensor<f32>) outs(%7 : tensor<?x32xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %18 = arith.divf %in, %in_3 : f32
    linalg.yield %18 : f32
  } -> tensor<?x32xf32>
  %12 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<?x32xf32>) outs(%7 : tensor<?x32xf32>) {
  ^bb0(%in: f32, %out: f32):
    %18 = math.erf %in : f32
    linalg.yield %18 : f32
  } -> tensor<?x32xf32>
  %13 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel"]} ins(%12, %cst : tensor<?x32xf32>, tensor<f32>) outs(%7 : tensor<?x32xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %18 = arith.addf %in, %in_3 : f32
    linalg.yield %18 : f32
  } -> tensor<?x32xf32>
  %14 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%10, %13 : tensor<?x32xf32>, tensor<?x32xf32>) outs(%7 : tensor<?x32xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %18 = arith.mulf %in, %in_3 : f32
    linalg.yield %18 : f32
  } -> tensor<?x32xf32>
  %15 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel"]} ins(%14, %cst_0 : tensor<?x32xf32>, tensor<f32>) outs(%7 : tensor<?x32xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %18 = arith.mulf %in, %in_3 : f32
    linalg.yield %18 : f32
  } -> tensor<?x32xf32>
  %16 = iree_tensor_ext.compute_barrier.end %15 : tensor<?x32xf32>{%0} -> tensor<?x32xf32>
  %17 = hal.tensor.export %16 "output0" : tensor<?x32xf32>{%0} -> !hal.buffer_view
  util.return %17 : !hal.buffer_view
}
