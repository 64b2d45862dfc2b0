// RUN: %mlirfuse-opt %s --split-input-file --pipeline=decided_condition_rewrite | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/decided_condition_rewrite.mlir
// PyTorch's condition is an operand of the op that selects: the host does not wait for it.

// From torch, x: f32[8, 16]
//   count = torch.tensor(x.shape[1] - 0.5)
//   torch.where(count > torch.zeros(()), x.sum(-1) / count, torch.nan)
// CHECK-LABEL: @torch
// CHECK-NOT: tensor.extract
// CHECK: arith.cmpf ogt
// CHECK-NOT: tensor.extract
// CHECK: arith.select
// CHECK-NOT: tensor.extract
#map = affine_map<() -> ()>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0)>
#map3 = affine_map<(d0) -> (d0)>
#map4 = affine_map<(d0) -> ()>
util.func public @torch(%arg0: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = arith.constant dense<1.550000e+01> : tensor<f32>
  %cst_1 = arith.constant dense<0x7FC00000> : tensor<f32>
  %cst_2 = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x16xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x16xf32> -> tensor<8x16xf32>
  %2 = tensor.empty() : tensor<i1>
  %3 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = []} ins(%cst_0, %cst : tensor<f32>, tensor<f32>) outs(%2 : tensor<i1>) {
  ^bb0(%in: f32, %in_3: f32, %out: i1):
    %11 = arith.cmpf ogt, %in, %in_3 : f32
    linalg.yield %11 : i1
  } -> tensor<i1>
  %4 = tensor.empty() : tensor<8xf32>
  %5 = linalg.fill ins(%cst_2 : f32) outs(%4 : tensor<8xf32>) -> tensor<8xf32>
  %6 = linalg.generic {indexing_maps = [#map1, #map2], iterator_types = ["parallel", "reduction"]} ins(%1 : tensor<8x16xf32>) outs(%5 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %11 = arith.addf %in, %out : f32
    linalg.yield %11 : f32
  } -> tensor<8xf32>
  %7 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel"]} ins(%6, %cst_0 : tensor<8xf32>, tensor<f32>) outs(%4 : tensor<8xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %11 = arith.divf %in, %in_3 : f32
    linalg.yield %11 : f32
  } -> tensor<8xf32>
  %8 = linalg.generic {indexing_maps = [#map4, #map3, #map4, #map3], iterator_types = ["parallel"]} ins(%3, %7, %cst_1 : tensor<i1>, tensor<8xf32>, tensor<f32>) outs(%4 : tensor<8xf32>) {
  ^bb0(%in: i1, %in_3: f32, %in_4: f32, %out: f32):
    %11 = arith.select %in, %in_3, %in_4 : f32
    linalg.yield %11 : f32
  } -> tensor<8xf32>
  %9 = iree_tensor_ext.compute_barrier.end %8 : tensor<8xf32> -> tensor<8xf32>
  %10 = hal.tensor.export %9 "output0" : tensor<8xf32> -> !hal.buffer_view
  util.return %10 : !hal.buffer_view
}
