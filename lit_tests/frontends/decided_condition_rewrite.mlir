// RUN: %mlirfuse-opt %s --split-input-file --pipeline=decided_condition_rewrite | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/decided_condition_rewrite.mlir

// The condition is an operand of the op that selects: the host does not wait for it.
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

// -----

// From jax, x: f32[?, 16]
//   jnp.var(x, -1)
// CHECK-LABEL: @jax
// CHECK-NOT: tensor.extract
// CHECK: %[[C:.*]] = arith.constant true
// CHECK: arith.select %[[C]], %{{.*}}, %{{.*}} : f32
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> ()>
#map3 = affine_map<(d0) -> (d0)>
#map4 = affine_map<() -> ()>
util.global private @__hoisted_tensor_f32 = dense<1.600000e+01> : tensor<f32>
util.func public @jax(%arg0: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant dense<0x7FC00000> : tensor<f32>
  %cst_0 = arith.constant dense<1.600000e+01> : tensor<f32>
  %cst_1 = arith.constant 0.000000e+00 : f32
  %0 = hal.buffer_view.dim<%arg0 : !hal.buffer_view>[0] : index
  %1 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<?x16xf32>{%0}
  %2 = iree_tensor_ext.compute_barrier.start %1 : tensor<?x16xf32>{%0} -> tensor<?x16xf32>
  %3 = arith.index_cast %0 : index to i32
  %4 = tensor.empty(%0) : tensor<?xf32>
  %5 = linalg.fill ins(%cst_1 : f32) outs(%4 : tensor<?xf32>) -> tensor<?xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%2 : tensor<?x16xf32>) outs(%5 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %25 = arith.addf %out, %in : f32
    linalg.yield %25 : f32
  } -> tensor<?xf32>
  %7 = arith.index_cast %3 : i32 to index
  %8 = tensor.empty(%7) : tensor<?xf32>
  %9 = linalg.generic {indexing_maps = [#map2, #map3], iterator_types = ["parallel"]} ins(%cst_0 : tensor<f32>) outs(%8 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?xf32>
  %10 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel"]} ins(%6, %9 : tensor<?xf32>, tensor<?xf32>) outs(%8 : tensor<?xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %25 = arith.divf %in, %in_2 : f32
    linalg.yield %25 : f32
  } -> tensor<?xf32>
  %11 = tensor.empty(%7) : tensor<?x16xf32>
  %12 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<?xf32>) outs(%11 : tensor<?x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?x16xf32>
  %13 = tensor.empty(%0) : tensor<?x16xf32>
  %14 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%2, %12 : tensor<?x16xf32>, tensor<?x16xf32>) outs(%13 : tensor<?x16xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %25 = arith.subf %in, %in_2 : f32
    linalg.yield %25 : f32
  } -> tensor<?x16xf32>
  %15 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%14 : tensor<?x16xf32>) outs(%13 : tensor<?x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %25 = arith.mulf %in, %in : f32
    linalg.yield %25 : f32
  } -> tensor<?x16xf32>
  %__hoisted_tensor_f32 = util.global.load immutable @__hoisted_tensor_f32 : tensor<f32>
  %16 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%15 : tensor<?x16xf32>) outs(%5 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %25 = arith.addf %out, %in : f32
    linalg.yield %25 : f32
  } -> tensor<?xf32>
  %17 = linalg.generic {indexing_maps = [#map2, #map3], iterator_types = ["parallel"]} ins(%__hoisted_tensor_f32 : tensor<f32>) outs(%8 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?xf32>
  %18 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel"]} ins(%16, %17 : tensor<?xf32>, tensor<?xf32>) outs(%4 : tensor<?xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %25 = arith.divf %in, %in_2 : f32
    linalg.yield %25 : f32
  } -> tensor<?xf32>
  %19 = tensor.empty() : tensor<i1>
  %20 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = []} ins(%__hoisted_tensor_f32 : tensor<f32>) outs(%19 : tensor<i1>) {
  ^bb0(%in: f32, %out: i1):
    %25 = arith.cmpf ogt, %in, %cst_1 : f32
    linalg.yield %25 : i1
  } -> tensor<i1>
  %21 = linalg.generic {indexing_maps = [#map2, #map3], iterator_types = ["parallel"]} ins(%cst : tensor<f32>) outs(%8 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?xf32>
  %extracted = tensor.extract %20[] : tensor<i1>
  %22 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel"]} ins(%18, %21 : tensor<?xf32>, tensor<?xf32>) outs(%4 : tensor<?xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %25 = arith.select %extracted, %in, %in_2 : f32
    linalg.yield %25 : f32
  } -> tensor<?xf32>
  %23 = iree_tensor_ext.compute_barrier.end %22 : tensor<?xf32>{%0} -> tensor<?xf32>
  %24 = hal.tensor.export %23 "output0" : tensor<?xf32>{%0} -> !hal.buffer_view
  util.return %24 : !hal.buffer_view
}
