// RUN: %mlirfuse-opt %s --split-input-file --pipeline=elementwise_fusion | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/elementwise_fusion.mlir

// From torch, x: f32[?, 16], z: f32[?, 16], b: f32[16]
//   F.silu(x + b) * z
// CHECK-LABEL: @torch
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<?x16xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<?x16xf32>{%3}
// CHECK: %[[Z:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<16xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "elementwise_fusion"
// CHECK: %[[A:.*]] = linalg.generic {{.*}}ins(%[[X]], %[[Z]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[A]] :
// CHECK: %[[C:.*]] = linalg.generic {{.*}}ins(%[[A]], %[[B]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}}ins(%[[C]], %[[Y]] :
// CHECK: flow.return %[[D]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d1)>
util.func public @torch(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 1.000000e+00 : f32
  %0 = hal.buffer_view.dim<%arg0 : !hal.buffer_view>[0] : index
  %1 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<?x16xf32>{%0}
  %2 = iree_tensor_ext.compute_barrier.start %1 : tensor<?x16xf32>{%0} -> tensor<?x16xf32>
  %3 = hal.buffer_view.dim<%arg1 : !hal.buffer_view>[0] : index
  %4 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<?x16xf32>{%3}
  %5 = iree_tensor_ext.compute_barrier.start %4 : tensor<?x16xf32>{%3} -> tensor<?x16xf32>
  %6 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<16xf32>
  %7 = iree_tensor_ext.compute_barrier.start %6 : tensor<16xf32> -> tensor<16xf32>
  %8 = tensor.empty(%0) : tensor<?x16xf32>
  %9 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%2, %7 : tensor<?x16xf32>, tensor<16xf32>) outs(%8 : tensor<?x16xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %15 = arith.addf %in, %in_0 : f32
    linalg.yield %15 : f32
  } -> tensor<?x16xf32>
  %10 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%9 : tensor<?x16xf32>) outs(%8 : tensor<?x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = arith.negf %in : f32
    %16 = math.exp %15 : f32
    %17 = arith.addf %16, %cst : f32
    %18 = arith.divf %cst, %17 : f32
    linalg.yield %18 : f32
  } -> tensor<?x16xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%9, %10 : tensor<?x16xf32>, tensor<?x16xf32>) outs(%8 : tensor<?x16xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %15 = arith.mulf %in, %in_0 : f32
    linalg.yield %15 : f32
  } -> tensor<?x16xf32>
  %12 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%11, %5 : tensor<?x16xf32>, tensor<?x16xf32>) outs(%8 : tensor<?x16xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %15 = arith.mulf %in, %in_0 : f32
    linalg.yield %15 : f32
  } -> tensor<?x16xf32>
  %13 = iree_tensor_ext.compute_barrier.end %12 : tensor<?x16xf32>{%0} -> tensor<?x16xf32>
  %14 = hal.tensor.export %13 "output0" : tensor<?x16xf32>{%0} -> !hal.buffer_view
  util.return %14 : !hal.buffer_view
}

// -----

// From jax, x: bf16[8, 16], z: bf16[8, 16], b: bf16[16]
//   jax.nn.gelu(x + b) * z
// CHECK-LABEL: @jax
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xbf16>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xbf16>
// CHECK: %[[Z:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<16xbf16>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "elementwise_fusion"
// CHECK: %[[A:.*]] = linalg.generic {{.*}}ins(%[[Z]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[X]], %[[A]] :
// CHECK: %[[C:.*]] = linalg.generic {{.*}}ins(%[[B]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}}ins(%[[C]], %[[B]] :
// CHECK: %[[E:.*]] = linalg.generic {{.*}}ins(%[[D]] :
// CHECK: %[[F:.*]] = linalg.generic {{.*}}ins(%[[B]], %[[E]] :
// CHECK: %[[G:.*]] = linalg.generic {{.*}}ins(%[[F]] :
// CHECK: %[[H:.*]] = linalg.generic {{.*}}ins(%[[G]] :
// CHECK: %[[I:.*]] = linalg.generic {{.*}}ins(%[[H]] :
// CHECK: %[[J:.*]] = linalg.generic {{.*}}ins(%[[I]] :
// CHECK: %[[K:.*]] = linalg.generic {{.*}}ins(%[[B]], %[[J]] :
// CHECK: %[[L:.*]] = linalg.generic {{.*}}ins(%[[K]], %[[Y]] :
// CHECK: flow.return %[[L]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1) -> (d1)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
util.func public @jax(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 4.467770e-02 : bf16
  %cst_0 = arith.constant 7.968750e-01 : bf16
  %cst_1 = arith.constant 1.000000e+00 : bf16
  %cst_2 = arith.constant 5.000000e-01 : bf16
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x16xbf16>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x16xbf16> -> tensor<8x16xbf16>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<8x16xbf16>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<8x16xbf16> -> tensor<8x16xbf16>
  %4 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<16xbf16>
  %5 = iree_tensor_ext.compute_barrier.start %4 : tensor<16xbf16> -> tensor<16xbf16>
  %6 = tensor.empty() : tensor<8x16xbf16>
  %7 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<16xbf16>) outs(%6 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  } -> tensor<8x16xbf16>
  %8 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%1, %7 : tensor<8x16xbf16>, tensor<8x16xbf16>) outs(%6 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %in_3: bf16, %out: bf16):
    %21 = arith.addf %in, %in_3 : bf16
    linalg.yield %21 : bf16
  } -> tensor<8x16xbf16>
  %9 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%8 : tensor<8x16xbf16>) outs(%6 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %21 = arith.mulf %in, %in : bf16
    linalg.yield %21 : bf16
  } -> tensor<8x16xbf16>
  %10 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%9, %8 : tensor<8x16xbf16>, tensor<8x16xbf16>) outs(%6 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %in_3: bf16, %out: bf16):
    %21 = arith.mulf %in, %in_3 : bf16
    linalg.yield %21 : bf16
  } -> tensor<8x16xbf16>
  %11 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<8x16xbf16>) outs(%6 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %21 = arith.mulf %in, %cst : bf16
    linalg.yield %21 : bf16
  } -> tensor<8x16xbf16>
  %12 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%8, %11 : tensor<8x16xbf16>, tensor<8x16xbf16>) outs(%6 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %in_3: bf16, %out: bf16):
    %21 = arith.addf %in, %in_3 : bf16
    linalg.yield %21 : bf16
  } -> tensor<8x16xbf16>
  %13 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%12 : tensor<8x16xbf16>) outs(%6 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %21 = arith.mulf %in, %cst_0 : bf16
    linalg.yield %21 : bf16
  } -> tensor<8x16xbf16>
  %14 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%13 : tensor<8x16xbf16>) outs(%6 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %21 = math.tanh %in : bf16
    linalg.yield %21 : bf16
  } -> tensor<8x16xbf16>
  %15 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%14 : tensor<8x16xbf16>) outs(%6 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %21 = arith.addf %in, %cst_1 : bf16
    linalg.yield %21 : bf16
  } -> tensor<8x16xbf16>
  %16 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<8x16xbf16>) outs(%6 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %21 = arith.mulf %in, %cst_2 : bf16
    linalg.yield %21 : bf16
  } -> tensor<8x16xbf16>
  %17 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%8, %16 : tensor<8x16xbf16>, tensor<8x16xbf16>) outs(%6 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %in_3: bf16, %out: bf16):
    %21 = arith.mulf %in, %in_3 : bf16
    linalg.yield %21 : bf16
  } -> tensor<8x16xbf16>
  %18 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%17, %3 : tensor<8x16xbf16>, tensor<8x16xbf16>) outs(%6 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %in_3: bf16, %out: bf16):
    %21 = arith.mulf %in, %in_3 : bf16
    linalg.yield %21 : bf16
  } -> tensor<8x16xbf16>
  %19 = iree_tensor_ext.compute_barrier.end %18 : tensor<8x16xbf16> -> tensor<8x16xbf16>
  %20 = hal.tensor.export %19 "output0" : tensor<8x16xbf16> -> !hal.buffer_view
  util.return %20 : !hal.buffer_view
}

// -----

// From onnx 17, x: f32[8, 16], z: f32[8, 16], b: f32[16] -> y: f32[8, 16]
//   a = Add(x, b) s = Sigmoid(a) t = Mul(a, s) y = Mul(t, z)
// CHECK-LABEL: @onnx
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xf32>
// CHECK: %[[Z:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<16xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "elementwise_fusion"
// CHECK: %[[A:.*]] = linalg.generic {{.*}}ins(%[[X]], %[[Z]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[A]] :
// CHECK: %[[C:.*]] = linalg.generic {{.*}}ins(%[[A]], %[[B]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}}ins(%[[C]], %[[Y]] :
// CHECK: flow.return %[[D]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d1)>
util.func public @onnx(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 1.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x16xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x16xf32> -> tensor<8x16xf32>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<8x16xf32>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<8x16xf32> -> tensor<8x16xf32>
  %4 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<16xf32>
  %5 = iree_tensor_ext.compute_barrier.start %4 : tensor<16xf32> -> tensor<16xf32>
  %6 = tensor.empty() : tensor<8x16xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%1, %5 : tensor<8x16xf32>, tensor<16xf32>) outs(%6 : tensor<8x16xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %13 = arith.addf %in, %in_0 : f32
    linalg.yield %13 : f32
  } -> tensor<8x16xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%7 : tensor<8x16xf32>) outs(%6 : tensor<8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %13 = arith.negf %in : f32
    %14 = math.exp %13 : f32
    %15 = arith.addf %14, %cst : f32
    %16 = arith.divf %cst, %15 : f32
    linalg.yield %16 : f32
  } -> tensor<8x16xf32>
  %9 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%7, %8 : tensor<8x16xf32>, tensor<8x16xf32>) outs(%6 : tensor<8x16xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %13 = arith.mulf %in, %in_0 : f32
    linalg.yield %13 : f32
  } -> tensor<8x16xf32>
  %10 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%9, %3 : tensor<8x16xf32>, tensor<8x16xf32>) outs(%6 : tensor<8x16xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %13 = arith.mulf %in, %in_0 : f32
    linalg.yield %13 : f32
  } -> tensor<8x16xf32>
  %11 = iree_tensor_ext.compute_barrier.end %10 : tensor<8x16xf32> -> tensor<8x16xf32>
  %12 = hal.tensor.export %11 "output0" : tensor<8x16xf32> -> !hal.buffer_view
  util.return %12 : !hal.buffer_view
}
