// RUN: %mlirfuse-opt %s --split-input-file --pipeline=gather_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=gather_fusion --explain -o %t 2>&1 | FileCheck %s --check-prefix=WHY

#bs = affine_map<(b, s, d) -> (b, s)>
#sd = affine_map<(b, s, d) -> (s, d)>
#bsd = affine_map<(b, s, d) -> (b, s, d)>

// As it arrives from PyTorch: F.embedding(i, t) + p
//   mlirfuse-compile model:main --pipeline=none --dump-ir-dir=ir
// CHECK-LABEL: @torch
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[G:.*]] = linalg.generic {{.*}} ins(%arg1 :
// CHECK: tensor.extract %arg0
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[G]], %arg2 :
// CHECK: flow.return %[[Y]]
// CHECK: return %[[R]]
func.func @torch(%t: tensor<100x32xf32>, %i: tensor<?x8xi64>, %p: tensor<8x32xf32>, %n: index) -> tensor<?x8x32xf32> {
  %zero = arith.constant 0 : i64
  %rows = arith.constant 100 : index
  %e = tensor.empty(%n) : tensor<?x8x32xf32>
  %g = linalg.generic {indexing_maps = [#bs, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%i : tensor<?x8xi64>) outs(%e : tensor<?x8x32xf32>) {
  ^bb0(%in: i64, %o: f32):
    %row = arith.index_cast %in : i64 to index
    %d = linalg.index 2 : index
    %small = arith.cmpi slt, %row, %rows : index
    cf.assert %small, "index must be smaller than dim size"
    %x = tensor.extract %t[%row, %d] : tensor<100x32xf32>
    linalg.yield %x : f32
  } -> tensor<?x8x32xf32>
  %y = linalg.generic {indexing_maps = [#bsd, #sd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%g, %p : tensor<?x8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<?x8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<?x8x32xf32>
  return %y : tensor<?x8x32xf32>
}

// -----

#s = affine_map<(s) -> (s)>
#row = affine_map<(s, d) -> (s)>
#sd = affine_map<(s, d) -> (s, d)>

// As it arrives from JAX: t[i] + u[j]: indices below zero count from the end; two gathers.
// CHECK-LABEL: @jax_two_gathers_f16
// CHECK: flow.dispatch.region
// CHECK: %[[I:.*]] = linalg.generic {{.*}} ins(%arg1 :
// CHECK: %[[G:.*]] = linalg.generic {{.*}} ins(%[[I]] :
// CHECK: tensor.extract %arg0
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%arg3 :
// CHECK: tensor.extract %arg2
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[G]], %[[H]] :
// CHECK: flow.return %[[Y]]
func.func @jax_two_gathers_f16(%t: tensor<100x32xf16>, %i: tensor<8xi32>, %u: tensor<2x32xf16>, %j: tensor<8xi32>) -> tensor<8x32xf16> {
  %zero = arith.constant 0 : i32
  %rows = arith.constant 100 : i32
  %ei = tensor.empty() : tensor<8xi32>
  %k = linalg.generic {indexing_maps = [#s, #s], iterator_types = ["parallel"]} ins(%i : tensor<8xi32>) outs(%ei : tensor<8xi32>) {
  ^bb0(%in: i32, %o: i32):
    %n = arith.cmpi slt, %in, %zero : i32
    %a = arith.addi %in, %rows : i32
    %r = arith.select %n, %a, %in : i32
    linalg.yield %r : i32
  } -> tensor<8xi32>
  %e = tensor.empty() : tensor<8x32xf16>
  %g = linalg.generic {indexing_maps = [#row, #sd], iterator_types = ["parallel", "parallel"]} ins(%k : tensor<8xi32>) outs(%e : tensor<8x32xf16>) {
  ^bb0(%in: i32, %o: f16):
    %r = arith.index_cast %in : i32 to index
    %d = linalg.index 1 : index
    %x = tensor.extract %t[%r, %d] : tensor<100x32xf16>
    linalg.yield %x : f16
  } -> tensor<8x32xf16>
  %h = linalg.generic {indexing_maps = [#row, #sd], iterator_types = ["parallel", "parallel"]} ins(%j : tensor<8xi32>) outs(%e : tensor<8x32xf16>) {
  ^bb0(%in: i32, %o: f16):
    %r = arith.index_cast %in : i32 to index
    %d = linalg.index 1 : index
    %x = tensor.extract %u[%r, %d] : tensor<2x32xf16>
    linalg.yield %x : f16
  } -> tensor<8x32xf16>
  %y = linalg.generic {indexing_maps = [#sd, #sd, #sd], iterator_types = ["parallel", "parallel"]} ins(%g, %h : tensor<8x32xf16>, tensor<8x32xf16>) outs(%e : tensor<8x32xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %r = arith.addf %a, %b : f16
    linalg.yield %r : f16
  } -> tensor<8x32xf16>
  return %y : tensor<8x32xf16>
}

// -----

#bs = affine_map<(b, s) -> (b, s)>
#row = affine_map<(i, d) -> (i)>
#id = affine_map<(i, d) -> (i, d)>
#sd = affine_map<(b, s, d) -> (s, d)>
#bsd = affine_map<(b, s, d) -> (b, s, d)>

// As it arrives from ONNX: Gather and Add: the indices are merged and the rows split again. The
// gather runs over the split space, where its column is the third loop.
// CHECK-LABEL: @onnx_bf16
// CHECK: flow.dispatch.region
// CHECK: %[[I:.*]] = linalg.generic {{.*}} ins(%arg1 :
// CHECK-NOT: tensor.collapse_shape
// CHECK: %[[G:.*]] = linalg.generic {{.*}} ins(%[[I]] : tensor<2x8xi64>)
// CHECK: %[[D:.*]] = linalg.index 2
// CHECK: tensor.extract %arg0[%{{.*}}, %[[D]]]
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[G]], %arg2 :
// CHECK: flow.return %[[Y]]
func.func @onnx_bf16(%t: tensor<100x32xbf16>, %i: tensor<2x8xi64>, %p: tensor<8x32xbf16>) -> tensor<2x8x32xbf16> {
  %rows = arith.constant 100 : i64
  %ei = tensor.empty() : tensor<2x8xi64>
  %k = linalg.generic {indexing_maps = [#bs, #bs], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<2x8xi64>) outs(%ei : tensor<2x8xi64>) {
  ^bb0(%in: i64, %o: i64):
    %a = arith.remui %in, %rows : i64
    linalg.yield %a : i64
  } -> tensor<2x8xi64>
  %flat = tensor.collapse_shape %k [[0, 1]] : tensor<2x8xi64> into tensor<16xi64>
  %e2 = tensor.empty() : tensor<16x32xbf16>
  %g = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]} ins(%flat : tensor<16xi64>) outs(%e2 : tensor<16x32xbf16>) {
  ^bb0(%in: i64, %o: bf16):
    %r = arith.index_cast %in : i64 to index
    %d = linalg.index 1 : index
    %x = tensor.extract %t[%r, %d] : tensor<100x32xbf16>
    linalg.yield %x : bf16
  } -> tensor<16x32xbf16>
  %x = tensor.expand_shape %g [[0, 1], [2]] output_shape [2, 8, 32] : tensor<16x32xbf16> into tensor<2x8x32xbf16>
  %e = tensor.empty() : tensor<2x8x32xbf16>
  %y = linalg.generic {indexing_maps = [#bsd, #sd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %p : tensor<2x8x32xbf16>, tensor<8x32xbf16>) outs(%e : tensor<2x8x32xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %o: bf16):
    %r = arith.addf %a, %b : bf16
    linalg.yield %r : bf16
  } -> tensor<2x8x32xbf16>
  return %y : tensor<2x8x32xbf16>
}

// -----

#row = affine_map<(i, d) -> (i)>
#id = affine_map<(i, d) -> (i, d)>
#bsd = affine_map<(b, s, d) -> (b, s, d)>

// The row that is read depends on the loop that the reshape splits: it is not moved.
// CHECK-LABEL: @no_fusion_index_of_a_split_loop
// CHECK-NOT: flow.dispatch.region
func.func @no_fusion_index_of_a_split_loop(%t: tensor<16x32xf32>, %i: tensor<16xi64>) -> tensor<2x8x32xf32> {
  %e2 = tensor.empty() : tensor<16x32xf32>
  %g = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<16xi64>) outs(%e2 : tensor<16x32xf32>) {
  ^bb0(%in: i64, %o: f32):
    %r = linalg.index 0 : index
    %d = arith.index_cast %in : i64 to index
    %x = tensor.extract %t[%r, %d] : tensor<16x32xf32>
    linalg.yield %x : f32
  } -> tensor<16x32xf32>
  %x = tensor.expand_shape %g [[0, 1], [2]] output_shape [2, 8, 32] : tensor<16x32xf32> into tensor<2x8x32xf32>
  %e = tensor.empty() : tensor<2x8x32xf32>
  %y = linalg.generic {indexing_maps = [#bsd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x8x32xf32>) outs(%e : tensor<2x8x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.tanh %a : f32
    linalg.yield %r : f32
  } -> tensor<2x8x32xf32>
  return %y : tensor<2x8x32xf32>
}

// -----

#row = affine_map<(i, d) -> (i)>
#id = affine_map<(i, d) -> (i, d)>

// CHECK-LABEL: @no_fusion_read_elsewhere
// CHECK-NOT: flow.dispatch.region
// WHY: extra_users (1)
// WHY: the gather has other users
func.func @no_fusion_read_elsewhere(%t: tensor<100x32xf32>, %i: tensor<16xi64>) -> (tensor<16x32xf32>, tensor<16x32xf32>) {
  %e = tensor.empty() : tensor<16x32xf32>
  %g = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<16xi64>) outs(%e : tensor<16x32xf32>) {
  ^bb0(%in: i64, %o: f32):
    %r = arith.index_cast %in : i64 to index
    %d = linalg.index 1 : index
    %x = tensor.extract %t[%r, %d] : tensor<100x32xf32>
    linalg.yield %x : f32
  } -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<16x32xf32>) outs(%e : tensor<16x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.tanh %a : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  return %y, %g : tensor<16x32xf32>, tensor<16x32xf32>
}

// -----

#m = affine_map<(i, j) -> (i, j)>
#t = affine_map<(i, j) -> (j, i)>

// A transposed user of a merged dimension.
// CHECK-LABEL: @no_fusion_moved
// CHECK-NOT: flow.dispatch.region
// WHY: indexing_map (1)
// WHY: the epilogue permutes the collapsed dimensions
func.func @no_fusion_moved(%x: tensor<4x2x8xf32>) -> tensor<16x4xf32> {
  %one = arith.constant 1 : index
  %e = tensor.empty() : tensor<4x2x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, k, d) -> (i, k, d)>], iterator_types = ["parallel", "parallel", "parallel"]} outs(%e : tensor<4x2x8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %k = linalg.index 1 : index
    %d = linalg.index 2 : index
    %other = arith.subi %one, %k : index
    %v = tensor.extract %x[%i, %other, %d] : tensor<4x2x8xf32>
    linalg.yield %v : f32
  } -> tensor<4x2x8xf32>
  %m = tensor.collapse_shape %r [[0], [1, 2]] : tensor<4x2x8xf32> into tensor<4x16xf32>
  %e2 = tensor.empty() : tensor<16x4xf32>
  %y = linalg.generic {indexing_maps = [#t, #m], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<4x16xf32>) outs(%e2 : tensor<16x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = math.tanh %a : f32
    linalg.yield %t : f32
  } -> tensor<16x4xf32>
  return %y : tensor<16x4xf32>
}

// -----

#sd = affine_map<(s, d) -> (s, d)>
#ds = affine_map<(s, d) -> (d, s)>
#row = affine_map<(s, d) -> (s)>

// The table is a transpose, which IREE computes with its producer.
// CHECK-LABEL: @no_fusion_transposed_table
// CHECK-NOT: flow.dispatch.region
// WHY: left_to_producer (1)
// WHY: the gather reads a transpose
func.func @no_fusion_transposed_table(%t: tensor<32x8xf32>, %i: tensor<8xi64>) -> tensor<8x32xf32> {
  %e = tensor.empty() : tensor<8x32xf32>
  %u = linalg.generic {indexing_maps = [#ds, #sd], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<32x8xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<8x32xf32>
  %g = linalg.generic {indexing_maps = [#row, #sd], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<8xi64>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%in: i64, %o: f32):
    %r = arith.index_cast %in : i64 to index
    %d = linalg.index 1 : index
    %x = tensor.extract %u[%r, %d] : tensor<8x32xf32>
    linalg.yield %x : f32
  } -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#sd, #sd], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.tanh %a : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#i = affine_map<(i, j) -> (i)>
#j = affine_map<(i, j) -> (j)>
#ij = affine_map<(i, j) -> (i, j)>

// The second gather reads rows that other tiles of the first one hold, though the shapes are equal.
// CHECK-LABEL: @no_fusion_gather_of_a_gather
// CHECK-NOT: flow.dispatch.region
func.func @no_fusion_gather_of_a_gather(%t: tensor<6x4xf32>, %r: tensor<3xi64>, %c: tensor<4xi64>) -> tensor<3x4xf32> {
  %e = tensor.empty() : tensor<3x4xf32>
  %g = linalg.generic {indexing_maps = [#i, #j, #ij], iterator_types = ["parallel", "parallel"]} ins(%r, %c : tensor<3xi64>, tensor<4xi64>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%a: i64, %b: i64, %o: f32):
    %k = arith.index_cast %a : i64 to index
    %l = arith.index_cast %b : i64 to index
    %x = tensor.extract %t[%k, %l] : tensor<6x4xf32>
    linalg.yield %x : f32
  } -> tensor<3x4xf32>
  %h = linalg.generic {indexing_maps = [#i, #j, #ij], iterator_types = ["parallel", "parallel"]} ins(%r, %c : tensor<3xi64>, tensor<4xi64>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%a: i64, %b: i64, %o: f32):
    %k = arith.index_cast %a : i64 to index
    %l = arith.index_cast %b : i64 to index
    %x = tensor.extract %g[%k, %l] : tensor<3x4xf32>
    linalg.yield %x : f32
  } -> tensor<3x4xf32>
  return %h : tensor<3x4xf32>
}

// -----

#i = affine_map<(i, j) -> (i)>
#ij = affine_map<(i, j) -> (i, j)>

// The table is computed from the same tensor as the other factor: it is no part of the group.
// CHECK-LABEL: @table_stays_outside
// CHECK: %[[T:.*]] = linalg.generic
// CHECK: math.tanh
// CHECK: flow.dispatch.region
// CHECK: tensor.extract %[[T]]
// CHECK: math.exp
func.func @table_stays_outside(%x: tensor<8x4xf32>, %r: tensor<8xi64>) -> tensor<8x4xf32> {
  %e = tensor.empty() : tensor<8x4xf32>
  %t = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x4xf32>) outs(%e : tensor<8x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = math.tanh %a : f32
    linalg.yield %v : f32
  } -> tensor<8x4xf32>
  %g = linalg.generic {indexing_maps = [#i, #ij], iterator_types = ["parallel", "parallel"]} ins(%r : tensor<8xi64>) outs(%e : tensor<8x4xf32>) {
  ^bb0(%a: i64, %o: f32):
    %k = arith.index_cast %a : i64 to index
    %d = linalg.index 1 : index
    %v = tensor.extract %t[%k, %d] : tensor<8x4xf32>
    linalg.yield %v : f32
  } -> tensor<8x4xf32>
  %y = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<8x4xf32>) outs(%e : tensor<8x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}
