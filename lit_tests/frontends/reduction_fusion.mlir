// RUN: %mlirfuse-opt %s --split-input-file --pipeline=reduction_fusion | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/reduction_fusion.mlir

// From torch, x: f32[?, 16], z: f32[?, 16]
//   F.normalize(x * z, dim=-1)
// CHECK-LABEL: @torch
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<?x16xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<?x16xf32>{%3}
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "reduction_fusion"
// CHECK: %[[A:.*]] = linalg.generic {{.*}}ins(%[[X]], %[[Y]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[A]] :
// CHECK: %[[C:.*]] = linalg.generic {{.*}}ins(%[[B]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}}ins(%[[C]] :
// CHECK: %[[E:.*]] = linalg.generic {{.*}}ins(%[[D]] :
// CHECK: %[[F:.*]] = linalg.generic {{.*}}ins(%[[A]], %[[E]] :
// CHECK: flow.return %[[F]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
util.func public @torch(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 5.000000e-01 : f32
  %cst_0 = arith.constant 2.000000e+00 : f32
  %cst_1 = arith.constant 9.99999996E-13 : f32
  %cst_2 = arith.constant 0.000000e+00 : f32
  %0 = hal.buffer_view.dim<%arg0 : !hal.buffer_view>[0] : index
  %1 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<?x16xf32>{%0}
  %2 = iree_tensor_ext.compute_barrier.start %1 : tensor<?x16xf32>{%0} -> tensor<?x16xf32>
  %3 = hal.buffer_view.dim<%arg1 : !hal.buffer_view>[0] : index
  %4 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<?x16xf32>{%3}
  %5 = iree_tensor_ext.compute_barrier.start %4 : tensor<?x16xf32>{%3} -> tensor<?x16xf32>
  %6 = tensor.empty(%0) : tensor<?x16xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%2, %5 : tensor<?x16xf32>, tensor<?x16xf32>) outs(%6 : tensor<?x16xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %17 = arith.mulf %in, %in_3 : f32
    linalg.yield %17 : f32
  } -> tensor<?x16xf32>
  %8 = tensor.empty(%0) : tensor<?xf32>
  %9 = linalg.fill ins(%cst_2 : f32) outs(%8 : tensor<?xf32>) -> tensor<?xf32>
  %10 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<?x16xf32>) outs(%9 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %17 = math.absf %in : f32
    %18 = math.powf %17, %cst_0 : f32
    %19 = arith.addf %18, %out : f32
    linalg.yield %19 : f32
  } -> tensor<?xf32>
  %11 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%10 : tensor<?xf32>) outs(%8 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %17 = math.powf %in, %cst : f32
    linalg.yield %17 : f32
  } -> tensor<?xf32>
  %12 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%11 : tensor<?xf32>) outs(%8 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %17 = arith.cmpf ult, %in, %cst_1 : f32
    %18 = arith.select %17, %cst_1, %in : f32
    linalg.yield %18 : f32
  } -> tensor<?xf32>
  %13 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%12 : tensor<?xf32>) outs(%6 : tensor<?x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?x16xf32>
  %14 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%7, %13 : tensor<?x16xf32>, tensor<?x16xf32>) outs(%6 : tensor<?x16xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %17 = arith.divf %in, %in_3 : f32
    linalg.yield %17 : f32
  } -> tensor<?x16xf32>
  %15 = iree_tensor_ext.compute_barrier.end %14 : tensor<?x16xf32>{%0} -> tensor<?x16xf32>
  %16 = hal.tensor.export %15 "output0" : tensor<?x16xf32>{%0} -> !hal.buffer_view
  util.return %16 : !hal.buffer_view
}

// -----

// From jax, x: bf16[8, 16]
//   jax.nn.logsumexp(x, -1)
// CHECK-LABEL: @jax
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xbf16>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "reduction_fusion"
// CHECK: %[[A:.*]] = linalg.generic {{.*}}ins(%[[X]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[A]] :
// CHECK: %[[C:.*]] = linalg.generic {{.*}}ins(%[[B]], %[[A]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}}ins(%[[C]] :
// CHECK: %[[E:.*]] = linalg.generic {{.*}}ins(%[[X]], %[[D]] :
// CHECK: %[[F:.*]] = linalg.generic {{.*}}ins(%[[E]] :
// CHECK: %[[G:.*]] = linalg.generic {{.*}}ins(%[[F]] :
// CHECK: %[[H:.*]] = linalg.generic {{.*}}ins(%[[G]] :
// CHECK: %[[I:.*]] = linalg.generic {{.*}}ins(%[[H]] :
// CHECK: %[[J:.*]] = linalg.generic {{.*}}ins(%[[I]] :
// CHECK: %[[K:.*]] = linalg.generic {{.*}}ins(%[[J]] :
// CHECK: %[[L:.*]] = linalg.generic {{.*}}ins(%[[K]], %[[C]] :
// CHECK: flow.return %[[L]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
util.func public @jax(%arg0: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0xFF80 : bf16
  %cst_0 = arith.constant 0x7F80 : bf16
  %cst_1 = arith.constant 0.000000e+00 : bf16
  %cst_2 = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x16xbf16>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x16xbf16> -> tensor<8x16xbf16>
  %2 = tensor.empty() : tensor<8xbf16>
  %3 = linalg.fill ins(%cst : bf16) outs(%2 : tensor<8xbf16>) -> tensor<8xbf16>
  %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%1 : tensor<8x16xbf16>) outs(%3 : tensor<8xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %23 = arith.maximumf %out, %in : bf16
    linalg.yield %23 : bf16
  } -> tensor<8xbf16>
  %5 = tensor.empty() : tensor<8xi1>
  %6 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%4 : tensor<8xbf16>) outs(%5 : tensor<8xi1>) {
  ^bb0(%in: bf16, %out: i1):
    %23 = math.absf %in : bf16
    %24 = arith.cmpf one, %23, %cst_0 : bf16
    linalg.yield %24 : i1
  } -> tensor<8xi1>
  %7 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = ["parallel"]} ins(%6, %4 : tensor<8xi1>, tensor<8xbf16>) outs(%2 : tensor<8xbf16>) {
  ^bb0(%in: i1, %in_3: bf16, %out: bf16):
    %23 = arith.select %in, %in_3, %cst_1 : bf16
    linalg.yield %23 : bf16
  } -> tensor<8xbf16>
  %8 = tensor.empty() : tensor<8x16xbf16>
  %9 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%7 : tensor<8xbf16>) outs(%8 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  } -> tensor<8x16xbf16>
  %10 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%1, %9 : tensor<8x16xbf16>, tensor<8x16xbf16>) outs(%8 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %in_3: bf16, %out: bf16):
    %23 = arith.subf %in, %in_3 : bf16
    linalg.yield %23 : bf16
  } -> tensor<8x16xbf16>
  %11 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<8x16xbf16>) outs(%8 : tensor<8x16xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %23 = math.exp %in : bf16
    linalg.yield %23 : bf16
  } -> tensor<8x16xbf16>
  %12 = tensor.empty() : tensor<8x16xf32>
  %13 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<8x16xbf16>) outs(%12 : tensor<8x16xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %23 = arith.extf %in : bf16 to f32
    linalg.yield %23 : f32
  } -> tensor<8x16xf32>
  %14 = tensor.empty() : tensor<8xf32>
  %15 = linalg.fill ins(%cst_2 : f32) outs(%14 : tensor<8xf32>) -> tensor<8xf32>
  %16 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%13 : tensor<8x16xf32>) outs(%15 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %23 = arith.addf %out, %in : f32
    linalg.yield %23 : f32
  } -> tensor<8xf32>
  %17 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%16 : tensor<8xf32>) outs(%2 : tensor<8xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %23 = arith.truncf %in : f32 to bf16
    linalg.yield %23 : bf16
  } -> tensor<8xbf16>
  %18 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%17 : tensor<8xbf16>) outs(%2 : tensor<8xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %23 = math.absf %in : bf16
    linalg.yield %23 : bf16
  } -> tensor<8xbf16>
  %19 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%18 : tensor<8xbf16>) outs(%2 : tensor<8xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %23 = math.log %in : bf16
    linalg.yield %23 : bf16
  } -> tensor<8xbf16>
  %20 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = ["parallel"]} ins(%19, %7 : tensor<8xbf16>, tensor<8xbf16>) outs(%2 : tensor<8xbf16>) {
  ^bb0(%in: bf16, %in_3: bf16, %out: bf16):
    %23 = arith.addf %in, %in_3 : bf16
    linalg.yield %23 : bf16
  } -> tensor<8xbf16>
  %21 = iree_tensor_ext.compute_barrier.end %20 : tensor<8xbf16> -> tensor<8xbf16>
  %22 = hal.tensor.export %21 "output0" : tensor<8xbf16> -> !hal.buffer_view
  util.return %22 : !hal.buffer_view
}

// -----

// From onnx 17, x: f32[8, 16], z: f32[8, 16] -> y: f32[8, 1]
//   d = Sub(x, z) s = Mul(d, d) m = ReduceMean<axes=[-1]>(s) y = Sqrt(m)
// CHECK-LABEL: @onnx
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xf32>
// CHECK: %[[Y:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<8x16xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "reduction_fusion"
// CHECK: %[[A:.*]] = linalg.generic {{.*}}ins(%[[X]], %[[Y]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}}ins(%[[A]] :
// CHECK: %[[C:.*]] = linalg.generic {{.*}}ins(%[[B]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}}ins(%[[C]] :
// CHECK: %[[E:.*]] = linalg.generic {{.*}}ins(%[[D]] :
// CHECK: flow.return %[[E]] :
// CHECK: compute_barrier.end %[[R]] :
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
util.func public @onnx(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 1.600000e+01 : f32
  %cst_0 = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x16xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x16xf32> -> tensor<8x16xf32>
  %2 = hal.tensor.import %arg1 "input1" : !hal.buffer_view -> tensor<8x16xf32>
  %3 = iree_tensor_ext.compute_barrier.start %2 : tensor<8x16xf32> -> tensor<8x16xf32>
  %4 = tensor.empty() : tensor<8x16xf32>
  %5 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%1, %3 : tensor<8x16xf32>, tensor<8x16xf32>) outs(%4 : tensor<8x16xf32>) {
  ^bb0(%in: f32, %in_1: f32, %out: f32):
    %14 = arith.subf %in, %in_1 : f32
    linalg.yield %14 : f32
  } -> tensor<8x16xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<8x16xf32>) outs(%4 : tensor<8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.mulf %in, %in : f32
    linalg.yield %14 : f32
  } -> tensor<8x16xf32>
  %7 = tensor.empty() : tensor<8xf32>
  %8 = linalg.fill ins(%cst_0 : f32) outs(%7 : tensor<8xf32>) -> tensor<8xf32>
  %9 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%6 : tensor<8x16xf32>) outs(%8 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.addf %in, %out : f32
    linalg.yield %14 : f32
  } -> tensor<8xf32>
  %10 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%9 : tensor<8xf32>) outs(%7 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.divf %in, %cst : f32
    linalg.yield %14 : f32
  } -> tensor<8xf32>
  %11 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%10 : tensor<8xf32>) outs(%7 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = math.sqrt %in : f32
    linalg.yield %14 : f32
  } -> tensor<8xf32>
  %12 = iree_tensor_ext.compute_barrier.end %11 : tensor<8xf32> -> tensor<8xf32>
  %expanded = tensor.expand_shape %12 [[0, 1]] output_shape [8, 1] : tensor<8xf32> into tensor<8x1xf32>
  %13 = hal.tensor.export %expanded "output0" : tensor<8x1xf32> -> !hal.buffer_view
  util.return %13 : !hal.buffer_view
}
