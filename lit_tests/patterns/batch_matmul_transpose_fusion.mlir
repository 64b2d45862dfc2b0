// RUN: %mlirfuse-opt %s --split-input-file --pipeline=batch_matmul_transpose_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=batch_matmul_transpose_fusion --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan:ampere --pipeline=batch_matmul_transpose_fusion --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=VULKAN

#p = affine_map<(b, h, m, d, k) -> (b, h, m, k)>
#v = affine_map<(b, h, m, d, k) -> (b, k, h, d)>
#c = affine_map<(b, h, m, d, k) -> (b, h, m, d)>
#id4 = affine_map<(a, b, c, d) -> (a, b, c, d)>
#heads = affine_map<(a, b, c, d) -> (a, c, b, d)>

// Probabilities times values, heads moved back: (0, 2, 1, 3).
// CHECK-DAG: #[[P:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>
// CHECK-DAG: #[[V:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d1, d3)>
// CHECK-DAG: #[[Y:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d1, d3)>
// CHECK-LABEL: @heads_back
// CHECK-SAME: %[[PP:.*]]: tensor<?x4x8x8xf32>, %[[VV:.*]]: tensor<?x8x4x16xf32>, %[[B:.*]]: index
// CHECK: %[[G:.*]] = flow.dispatch.region -> (tensor<?x8x4x16xf32>{%[[B]]})
// CHECK: %[[E:.*]] = tensor.empty(%[[B]]) : tensor<?x8x4x16xf32>
// CHECK: %[[F:.*]] = linalg.fill {{.*}} outs(%[[E]]
// CHECK: %[[R:.*]] = linalg.generic {indexing_maps = [#[[P]], #[[V]], #[[Y]]], {{.*}} ins(%[[PP]], %[[VV]] {{.*}} outs(%[[F]]
// CHECK-NOT: linalg.generic
// CHECK: flow.return %[[R]]
// CHECK: return %[[G]]
func.func @heads_back(%p: tensor<?x4x8x8xf32>, %v: tensor<?x8x4x16xf32>, %b: index) -> tensor<?x8x4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%b) : tensor<?x4x8x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x4x8x16xf32>) -> tensor<?x4x8x16xf32>
  %c = linalg.generic {indexing_maps = [#p, #v, #c], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%p, %v : tensor<?x4x8x8xf32>, tensor<?x8x4x16xf32>) outs(%f : tensor<?x4x8x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %m, %o : f32
    linalg.yield %s : f32
  } -> tensor<?x4x8x16xf32>
  %et = tensor.empty(%b) : tensor<?x8x4x16xf32>
  %y = linalg.generic {indexing_maps = [#heads, #id4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c : tensor<?x4x8x16xf32>) outs(%et : tensor<?x8x4x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<?x8x4x16xf32>
  return %y : tensor<?x8x4x16xf32>
}

// -----

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>

// CHECK-LABEL: @no_fusion_read_untransposed_too
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]]
// CHECK: return %[[Y]], %[[C]]
// WHY-DAG: the result is read untransposed too
func.func @no_fusion_read_untransposed_too(%x: tensor<8x16xf16>, %w: tensor<32x16xf16>) -> (tensor<32x8xf16>, tensor<8x32xf16>) {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<8x32xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<8x32xf16>) -> tensor<8x32xf16>
  %c = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<8x16xf16>, tensor<32x16xf16>) outs(%f : tensor<8x32xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %m = arith.mulf %i, %j : f16
    %s = arith.addf %m, %o : f16
    linalg.yield %s : f16
  } -> tensor<8x32xf16>
  %et = tensor.empty() : tensor<32x8xf16>
  %y = linalg.generic {indexing_maps = [#ji, #ij], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf16>) outs(%et : tensor<32x8xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<32x8xf16>
  return %y, %c : tensor<32x8xf16>, tensor<8x32xf16>
}

// -----

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>

// CHECK-LABEL: @no_fusion_accumulates_onto_an_argument
// CHECK: %[[C:.*]] = linalg.generic {{.*}} outs(%arg2
// CHECK: linalg.generic {{.*}} ins(%[[C]]
// WHY-DAG: the accumulator does not start as a constant
func.func @no_fusion_accumulates_onto_an_argument(%x: tensor<8x16xf32>, %w: tensor<32x16xf32>, %f: tensor<8x32xf32>) -> tensor<32x8xf32> {
  %c = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<8x16xf32>, tensor<32x16xf32>) outs(%f : tensor<8x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %m, %o : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %et = tensor.empty() : tensor<32x8xf32>
  %y = linalg.generic {indexing_maps = [#ji, #ij], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf32>) outs(%et : tensor<32x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<32x8xf32>
  return %y : tensor<32x8xf32>
}

// -----

// Written with the batch in the middle, for which IREE's code for Vulkan finds no cooperative
// matrices, and fails.

#p = affine_map<(h, m, d, k) -> (h, m, k)>
#v = affine_map<(h, m, d, k) -> (h, k, d)>
#c = affine_map<(h, m, d, k) -> (h, m, d)>
#id3 = affine_map<(a, b, c) -> (a, b, c)>
#heads = affine_map<(a, b, c) -> (b, a, c)>

// CHECK-LABEL: @inner_batch_f16
// CHECK: flow.dispatch.region -> (tensor<32x4x16xf32>)
// VULKAN-LABEL: function @inner_batch_f16
// VULKAN: target_unsupported
// VULKAN: no cooperative matrices for an inner batch loop
func.func @inner_batch_f16(%p: tensor<4x32x32xf16>, %v: tensor<4x32x16xf16>) -> tensor<32x4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x32x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
  %c = linalg.generic {indexing_maps = [#p, #v, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%p, %v : tensor<4x32x32xf16>, tensor<4x32x16xf16>) outs(%f : tensor<4x32x16xf32>) {
  ^bb0(%i: f16, %j: f16, %o: f32):
    %iw = arith.extf %i : f16 to f32
    %jw = arith.extf %j : f16 to f32
    %m = arith.mulf %iw, %jw : f32
    %s = arith.addf %m, %o : f32
    linalg.yield %s : f32
  } -> tensor<4x32x16xf32>
  %et = tensor.empty() : tensor<32x4x16xf32>
  %y = linalg.generic {indexing_maps = [#heads, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c : tensor<4x32x16xf32>) outs(%et : tensor<32x4x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<32x4x16xf32>
  return %y : tensor<32x4x16xf32>
}
