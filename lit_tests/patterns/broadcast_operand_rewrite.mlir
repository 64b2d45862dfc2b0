// RUN: %mlirfuse-opt %s --split-input-file --pipeline=broadcast_operand_rewrite | FileCheck %s

#n = affine_map<(i, j) -> (j)>
#m = affine_map<(i, j) -> (i)>
#mn = affine_map<(i, j) -> (i, j)>
#t = affine_map<(i, j) -> (j, i)>

// The copy has another reader in the same op, and goes.
// CHECK-LABEL: @bias
// CHECK-SAME: %[[C:.*]]: tensor<?x8xf32>, %[[B:.*]]: tensor<8xf32>
// CHECK-COUNT-1: linalg.generic
// CHECK-SAME: ins(%[[C]], %[[B]], %[[B]] : tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>)
// CHECK-NOT: linalg.generic
func.func @bias(%c: tensor<?x8xf32>, %b: tensor<8xf32>) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %c, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %v = linalg.generic {indexing_maps = [#n, #mn], iterator_types = ["parallel", "parallel"]} ins(%b : tensor<8xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<?x8xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %v, %v : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %o: f32):
    %s = arith.mulf %i, %j : f32
    %a = arith.addf %s, %k : f32
    linalg.yield %a : f32
  } -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

#n = affine_map<(i, j) -> (j)>
#mn = affine_map<(i, j) -> (i, j)>
#t = affine_map<(i, j) -> (j, i)>

// The op reads the copy transposed; a return keeps the copy.
// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: @transposed
// CHECK: %[[V:.*]] = linalg.generic
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[ROWS]], #{{.*}}]
// CHECK: return %[[V]]
func.func @transposed(%c: tensor<8x4xf16>, %b: tensor<8xf16>) -> (tensor<4x8xf16>, tensor<8x4xf16>) {
  %e = tensor.empty() : tensor<4x8xf16>
  %v = linalg.generic {indexing_maps = [#n, #mn], iterator_types = ["parallel", "parallel"]} ins(%b : tensor<8xf16>) outs(%e : tensor<4x8xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<4x8xf16>
  %f = tensor.empty() : tensor<8x4xf16>
  %y = linalg.generic {indexing_maps = [#mn, #t, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %v : tensor<8x4xf16>, tensor<4x8xf16>) outs(%f : tensor<8x4xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %a = arith.addf %i, %j : f16
    linalg.yield %a : f16
  } -> tensor<8x4xf16>
  return %v, %y : tensor<4x8xf16>, tensor<8x4xf16>
}

// -----

#n = affine_map<(i, j) -> (j)>
#m = affine_map<(i, j) -> (i)>
#mn = affine_map<(i, j) -> (i, j)>
#t = affine_map<(i, j) -> (j, i)>

// A transpose repeats nothing; a reduction keeps the size of its loop.
// CHECK-LABEL: @no_rewrite
// CHECK-COUNT-4: linalg.generic
func.func @no_rewrite(%c: tensor<8x4xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4x8xf32>
  %v = linalg.generic {indexing_maps = [#t, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x4xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%v : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %a = math.exp %i : f32
    linalg.yield %a : f32
  } -> tensor<4x8xf32>
  %w = linalg.generic {indexing_maps = [#n, #mn], iterator_types = ["parallel", "parallel"]} ins(%b : tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<4x8xf32>
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]} ins(%w : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %a = arith.addf %i, %o : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  return %y, %s : tensor<4x8xf32>, tensor<4xf32>
}
