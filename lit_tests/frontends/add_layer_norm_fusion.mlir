// RUN: %mlirfuse-opt %s --split-input-file --pipeline=add_layer_norm_fusion | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/add_layer_norm_fusion.mlir

// From onnx 17, x: bf16[8, 16], r: bf16[8, 16], g: bf16[16], b: bf16[16] -> y: bf16[8, 16]
//   h = Add(x, r) y = LayerNormalization(h, g, b)
// CHECK-LABEL: @onnx
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xbf16>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xbf16>
// CHECK: %[[Z:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<16xbf16>
// CHECK: %[[W:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<16xbf16>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "add_layer_norm_fusion"
// CHECK: %[[A:.*]] = linalg.generic {{.*}}ins(%[[X]], %[[Y]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[A]] :
// CHECK: %[[C:.*]] = linalg.generic {{.*}}ins(%[[B]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}}ins(%[[C]] :
// CHECK: %[[E:.*]] = linalg.generic {{.*}}ins(%[[D]] :
// CHECK: %[[F:.*]] = linalg.generic {{.*}}ins(%[[B]], %[[E]] :
// CHECK: %[[G:.*]] = linalg.generic {{.*}}ins(%[[F]] :
// CHECK: %[[H:.*]] = linalg.generic {{.*}}ins(%[[G]] :
// CHECK: %[[I:.*]] = linalg.generic {{.*}}ins(%[[H]] :
// CHECK: %[[J:.*]] = linalg.generic {{.*}}ins(%[[I]] :
// CHECK: %[[K:.*]] = linalg.generic {{.*}}ins(%[[J]] :
// CHECK: %[[L:.*]] = linalg.generic {{.*}}ins(%[[K]] :
// CHECK: %[[M:.*]] = linalg.generic {{.*}}ins(%[[F]], %[[L]] :
// CHECK: %[[N:.*]] = linalg.generic {{.*}}ins(%[[M]] :
// CHECK: %[[O:.*]] = linalg.generic {{.*}}ins(%[[N]], %[[Z]] :
// CHECK: %[[P:.*]] = linalg.generic {{.*}}ins(%[[O]], %[[W]] :
// CHECK: flow.return %[[P]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d1)>
util.func public @onnx(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view, %arg3: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 9.99999974E-6 : f32
  %cst_0 = arith.constant 1.600000e+01 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x16xbf16>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x16xbf16> -> tensor<8x16xbf16>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<8x16xbf16>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<8x16xbf16> -> tensor<8x16xbf16>
  %4 = hal.tensor.import %arg2 "input2" : !hal.buffer_view -> tensor<16xbf16>
  %5 = iree_tensor_ext.compute_barrier.start %4 : tensor<16xbf16> -> tensor<16xbf16>
  %6 = hal.tensor.import %arg3 "input3" : !hal.buffer_view -> tensor<16xbf16>
  %7 = iree_tensor_ext.compute_barrier.start %6 : tensor<16xbf16> -> tensor<16xbf16>
  %8 = tensor.empty() : tensor<8x16xbf16>
  %9 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%1, %3 : tensor<8x16xbf16>, tensor<8x16xbf16>) outs(%8 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %in_2: bf16, %out: bf16):
    %30 = arith.addf %in, %in_2 : bf16
    linalg.yield %30 : bf16
  } -> tensor<8x16xbf16>
  %10 = tensor.empty() : tensor<8x16xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%9 : tensor<8x16xbf16>) outs(%10 : tensor<8x16xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %30 = arith.extf %in : bf16 to f32
    linalg.yield %30 : f32
  } -> tensor<8x16xf32>
  %12 = tensor.empty() : tensor<8xf32>
  %13 = linalg.fill ins(%cst_1 : f32) outs(%12 : tensor<8xf32>) -> tensor<8xf32>
  %14 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%11 : tensor<8x16xf32>) outs(%13 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %30 = arith.addf %in, %out : f32
    linalg.yield %30 : f32
  } -> tensor<8xf32>
  %15 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%14 : tensor<8xf32>) outs(%12 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %30 = arith.divf %in, %cst_0 : f32
    linalg.yield %30 : f32
  } -> tensor<8xf32>
  %16 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<8xf32>) outs(%10 : tensor<8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<8x16xf32>
  %17 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%11, %16 : tensor<8x16xf32>, tensor<8x16xf32>) outs(%10 : tensor<8x16xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %30 = arith.subf %in, %in_2 : f32
    linalg.yield %30 : f32
  } -> tensor<8x16xf32>
  %18 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%17 : tensor<8x16xf32>) outs(%10 : tensor<8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %30 = arith.mulf %in, %in : f32
    linalg.yield %30 : f32
  } -> tensor<8x16xf32>
  %19 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%18 : tensor<8x16xf32>) outs(%13 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %30 = arith.addf %in, %out : f32
    linalg.yield %30 : f32
  } -> tensor<8xf32>
  %20 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%19 : tensor<8xf32>) outs(%12 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %30 = arith.divf %in, %cst_0 : f32
    linalg.yield %30 : f32
  } -> tensor<8xf32>
  %21 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%20 : tensor<8xf32>) outs(%12 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %30 = arith.addf %in, %cst : f32
    linalg.yield %30 : f32
  } -> tensor<8xf32>
  %22 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%21 : tensor<8xf32>) outs(%12 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %30 = math.rsqrt %in : f32
    linalg.yield %30 : f32
  } -> tensor<8xf32>
  %23 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%22 : tensor<8xf32>) outs(%10 : tensor<8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<8x16xf32>
  %24 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%17, %23 : tensor<8x16xf32>, tensor<8x16xf32>) outs(%10 : tensor<8x16xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %30 = arith.mulf %in, %in_2 : f32
    linalg.yield %30 : f32
  } -> tensor<8x16xf32>
  %25 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%24 : tensor<8x16xf32>) outs(%8 : tensor<8x16xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %30 = arith.truncf %in : f32 to bf16
    linalg.yield %30 : bf16
  } -> tensor<8x16xbf16>
  %26 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%25, %5 : tensor<8x16xbf16>, tensor<16xbf16>) outs(%8 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %in_2: bf16, %out: bf16):
    %30 = arith.mulf %in, %in_2 : bf16
    linalg.yield %30 : bf16
  } -> tensor<8x16xbf16>
  %27 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%26, %7 : tensor<8x16xbf16>, tensor<16xbf16>) outs(%8 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %in_2: bf16, %out: bf16):
    %30 = arith.addf %in, %in_2 : bf16
    linalg.yield %30 : bf16
  } -> tensor<8x16xbf16>
  %28 = iree_tensor_ext.compute_barrier.end %27 : tensor<8x16xbf16> -> tensor<8x16xbf16>
  %29 = hal.tensor.export %28 "output0" : tensor<8x16xbf16> -> !hal.buffer_view
  util.return %29 : !hal.buffer_view
}
