// RUN: %mlirfuse-opt %s --split-input-file --pipeline=transpose_matmul_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan:ampere --pipeline=transpose_matmul_fusion --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=VULKAN
// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan:rdna2 --pipeline=transpose_matmul_fusion | FileCheck %s --check-prefix=RDNA2

// A transposed right operand, as x @ w.T gives it.
// CHECK-DAG: #[[A:.*]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG: #[[B:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG: #[[C:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: @transposed_right
// CHECK-SAME: %[[X:.*]]: tensor<?x16xf32>, %[[W:.*]]: tensor<32x16xf32>
// CHECK: linalg.generic {indexing_maps = [#[[A]], #[[B]], #[[C]]], iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[X]], %[[W]]
#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>
func.func @transposed_right(%x: tensor<?x16xf32>, %w: tensor<32x16xf32>, %m: index) -> tensor<?x32xf32> {
  %zero = arith.constant 0.0 : f32
  %et = tensor.empty() : tensor<16x32xf32>
  %t = linalg.generic {indexing_maps = [#ji, #ij], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<32x16xf32>) outs(%et : tensor<16x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<16x32xf32>
  %e = tensor.empty(%m) : tensor<?x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x32xf32>) -> tensor<?x32xf32>
  %c = linalg.matmul ins(%x, %t : tensor<?x16xf32>, tensor<16x32xf32>) outs(%f : tensor<?x32xf32>) -> tensor<?x32xf32>
  return %c : tensor<?x32xf32>
}

// -----

// Both operands of q k^T: heads move out (0, 2, 1, 3) and batch and heads merge into one dimension.
// The batch loop splits again; the result's expand folds away.
// CHECK-DAG: #[[Q:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d1, d4)>
// CHECK-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d1, d4)>
// CHECK-DAG: #[[S:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>
// CHECK-LABEL: @heads_and_key_transpose_f16
// CHECK-SAME: %[[Q0:.*]]: tensor<2x8x4x16xf16>, %[[K0:.*]]: tensor<2x8x4x16xf16>
// CHECK: %[[R:.*]] = linalg.generic {indexing_maps = [#[[Q]], #[[K]], #[[S]]], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%[[Q0]], %[[K0]]
// CHECK: return %[[R]] : tensor<2x4x8x8xf16>
#id4 = affine_map<(a, b, c, d) -> (a, b, c, d)>
#heads = affine_map<(a, b, c, d) -> (a, c, b, d)>
#keys = affine_map<(a, b, c, d) -> (a, d, b, c)>
func.func @heads_and_key_transpose_f16(%q: tensor<2x8x4x16xf16>, %k: tensor<2x8x4x16xf16>) -> tensor<2x4x8x8xf16> {
  %zero = arith.constant 0.0 : f16
  %eq = tensor.empty() : tensor<2x4x8x16xf16>
  %qt = linalg.generic {indexing_maps = [#heads, #id4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%q : tensor<2x8x4x16xf16>) outs(%eq : tensor<2x4x8x16xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<2x4x8x16xf16>
  %ek = tensor.empty() : tensor<2x4x16x8xf16>
  %kt = linalg.generic {indexing_maps = [#keys, #id4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%k : tensor<2x8x4x16xf16>) outs(%ek : tensor<2x4x16x8xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<2x4x16x8xf16>
  %qc = tensor.collapse_shape %qt [[0, 1], [2], [3]] : tensor<2x4x8x16xf16> into tensor<8x8x16xf16>
  %kc = tensor.collapse_shape %kt [[0, 1], [2], [3]] : tensor<2x4x16x8xf16> into tensor<8x16x8xf16>
  %e = tensor.empty() : tensor<8x8x8xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<8x8x8xf16>) -> tensor<8x8x8xf16>
  %c = linalg.batch_matmul ins(%qc, %kc : tensor<8x8x16xf16>, tensor<8x16x8xf16>) outs(%f : tensor<8x8x8xf16>) -> tensor<8x8x8xf16>
  %r = tensor.expand_shape %c [[0, 1], [2], [3]] output_shape [2, 4, 8, 8] : tensor<8x8x8xf16> into tensor<2x4x8x8xf16>
  return %r : tensor<2x4x8x8xf16>
}

// -----

// Only one operand is transposed: the other is expanded to match.
// CHECK-LABEL: @one_operand_after_a_merge
// CHECK-SAME: %[[P:.*]]: tensor<8x8x8xbf16>, %[[V:.*]]: tensor<2x8x4x16xbf16>
// CHECK: %[[W:.*]] = tensor.expand_shape %[[P]] {{\[\[}}0, 1], [2], [3]] output_shape [2, 4, 8, 8]
// CHECK: linalg.generic {{.*}} ins(%[[W]], %[[V]]
// CHECK: tensor.collapse_shape {{.*}} into tensor<8x8x16xbf16>
#id4 = affine_map<(a, b, c, d) -> (a, b, c, d)>
#heads = affine_map<(a, b, c, d) -> (a, c, b, d)>
func.func @one_operand_after_a_merge(%p: tensor<8x8x8xbf16>, %v: tensor<2x8x4x16xbf16>) -> tensor<8x8x16xbf16> {
  %zero = arith.constant 0.0 : bf16
  %ev = tensor.empty() : tensor<2x4x8x16xbf16>
  %vt = linalg.generic {indexing_maps = [#heads, #id4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v : tensor<2x8x4x16xbf16>) outs(%ev : tensor<2x4x8x16xbf16>) {
  ^bb0(%i: bf16, %o: bf16):
    linalg.yield %i : bf16
  } -> tensor<2x4x8x16xbf16>
  %vc = tensor.collapse_shape %vt [[0, 1], [2], [3]] : tensor<2x4x8x16xbf16> into tensor<8x8x16xbf16>
  %e = tensor.empty() : tensor<8x8x16xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<8x8x16xbf16>) -> tensor<8x8x16xbf16>
  %c = linalg.batch_matmul ins(%p, %vc : tensor<8x8x8xbf16>, tensor<8x8x16xbf16>) outs(%f : tensor<8x8x16xbf16>) -> tensor<8x8x16xbf16>
  return %c : tensor<8x8x16xbf16>
}

// -----

// The merged dimensions are the reduction of a plain matmul (an output projection): it keeps its
// two-dimensional form, which data tiling packs.
// CHECK-LABEL: @no_fusion_merge_of_reduction_loops
// CHECK: %[[T:.*]] = linalg.generic
// CHECK: %[[M:.*]] = tensor.collapse_shape %[[T]]
// CHECK: linalg.matmul ins(%[[M]]
#id4 = affine_map<(a, b, c, d) -> (a, b, c, d)>
#heads = affine_map<(a, b, c, d) -> (a, c, b, d)>
func.func @no_fusion_merge_of_reduction_loops(%a: tensor<2x4x8x16xf32>, %w: tensor<64x32xf32>) -> tensor<16x32xf32> {
  %zero = arith.constant 0.0 : f32
  %et = tensor.empty() : tensor<2x8x4x16xf32>
  %t = linalg.generic {indexing_maps = [#heads, #id4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a : tensor<2x4x8x16xf32>) outs(%et : tensor<2x8x4x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x8x4x16xf32>
  %m = tensor.collapse_shape %t [[0, 1], [2, 3]] : tensor<2x8x4x16xf32> into tensor<16x64xf32>
  %e = tensor.empty() : tensor<16x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x32xf32>) -> tensor<16x32xf32>
  %c = linalg.matmul ins(%m, %w : tensor<16x64xf32>, tensor<64x32xf32>) outs(%f : tensor<16x32xf32>) -> tensor<16x32xf32>
  return %c : tensor<16x32xf32>
}

// -----

// The op that feeds the contraction computes something: not only a transpose.
// CHECK-LABEL: @no_fusion_scaled_transpose
// CHECK: %[[T:.*]] = linalg.generic
// CHECK: linalg.matmul ins({{.*}}, %[[T]]
#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>
func.func @no_fusion_scaled_transpose(%x: tensor<8x16xf32>, %w: tensor<32x16xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %et = tensor.empty() : tensor<16x32xf32>
  %t = linalg.generic {indexing_maps = [#ji, #ij], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<32x16xf32>) outs(%et : tensor<16x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = arith.negf %i : f32
    linalg.yield %n : f32
  } -> tensor<16x32xf32>
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%x, %t : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  return %c : tensor<8x32xf32>
}

// -----

// No transpose at all.
// CHECK-LABEL: @no_fusion_plain
// CHECK: linalg.matmul
func.func @no_fusion_plain(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  return %c : tensor<8x32xf32>
}

// -----

// Keys that groups of queries share, as repeat_kv writes them: not repeated in memory.
// CHECK-DAG: #[[Q:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>
// CHECK-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d4)>
// CHECK-LABEL: @repeated_heads
// CHECK-SAME: %[[X:.*]]: tensor<4x8x16xf32>, %[[Y:.*]]: tensor<2x8x16xf32>
// CHECK: %[[W:.*]] = tensor.expand_shape %[[X]] {{.*}} into tensor<2x2x8x16xf32>
// CHECK: linalg.generic {indexing_maps = [#[[Q]], #[[K]],{{.*}} ins(%[[W]], %[[Y]] :
#kv = affine_map<(b, g, n, d) -> (b, n, d)>
#all = affine_map<(b, g, n, d) -> (b, g, n, d)>
#bmk = affine_map<(b, m, n, k) -> (b, m, k)>
#bnk = affine_map<(b, m, n, k) -> (b, n, k)>
#bmn = affine_map<(b, m, n, k) -> (b, m, n)>
func.func @repeated_heads(%q: tensor<4x8x16xf32>, %k: tensor<2x8x16xf32>) -> tensor<4x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : tensor<2x2x8x16xf32>
  %r = linalg.generic {indexing_maps = [#kv, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%k : tensor<2x8x16xf32>) outs(%er : tensor<2x2x8x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x2x8x16xf32>
  %h = tensor.collapse_shape %r [[0, 1], [2], [3]] : tensor<2x2x8x16xf32> into tensor<4x8x16xf32>
  %e = tensor.empty() : tensor<4x8x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
  %c = linalg.batch_matmul indexing_maps = [#bmk, #bnk, #bmn] ins(%q, %h : tensor<4x8x16xf32>, tensor<4x8x16xf32>) outs(%f : tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
  return %c : tensor<4x8x8xf32>
}

// -----

// One matrix for all of the batch: no digit of the batch is left to read it by.
// CHECK-LABEL: @no_fusion_broadcast_batch
// CHECK: %[[T:.*]] = linalg.generic
// CHECK: linalg.batch_matmul ins({{.*}}, %[[T]]
#kn = affine_map<(b, k, n) -> (k, n)>
#bkn = affine_map<(b, k, n) -> (b, k, n)>
func.func @no_fusion_broadcast_batch(%x: tensor<4x8x16xf32>, %w: tensor<16x32xf32>) -> tensor<4x8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %et = tensor.empty() : tensor<4x16x32xf32>
  %t = linalg.generic {indexing_maps = [#kn, #bkn], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<16x32xf32>) outs(%et : tensor<4x16x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<4x16x32xf32>
  %e = tensor.empty() : tensor<4x8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
  %c = linalg.batch_matmul ins(%x, %t : tensor<4x8x16xf32>, tensor<4x16x32xf32>) outs(%f : tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
  return %c : tensor<4x8x32xf32>
}

// -----

// The keys would be read with the batch in the middle, for which IREE's code for Vulkan finds no
// cooperative matrices, and fails, where M, N and K are multiples of theirs.

#id3 = affine_map<(a, b, c) -> (a, b, c)>
#keys = affine_map<(a, b, c) -> (c, a, b)>

// CHECK-LABEL: @inner_batch_f16
// CHECK-SAME: %[[Q:.*]]: tensor<4x32x16xf16>, %[[K:.*]]: tensor<32x4x16xf16>
// CHECK: linalg.generic {{.*}} ins(%[[Q]], %[[K]] :
// VULKAN-LABEL: function @inner_batch_f16
// VULKAN: target_unsupported
// VULKAN: transpose_matmul_fusion: linalg.batch_matmul
// VULKAN-NEXT: no cooperative matrices for an inner batch loop
// RDNA2-LABEL: @inner_batch_f16
// RDNA2-SAME: %[[Q:.*]]: tensor<4x32x16xf16>, %[[K:.*]]: tensor<32x4x16xf16>
// RDNA2: linalg.generic {{.*}} ins(%[[Q]], %[[K]] :
func.func @inner_batch_f16(%q: tensor<4x32x16xf16>, %k: tensor<32x4x16xf16>) -> tensor<4x32x32xf32> {
  %zero = arith.constant 0.0 : f32
  %ek = tensor.empty() : tensor<4x16x32xf16>
  %t = linalg.generic {indexing_maps = [#keys, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%k : tensor<32x4x16xf16>) outs(%ek : tensor<4x16x32xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<4x16x32xf16>
  %e = tensor.empty() : tensor<4x32x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x32x32xf32>) -> tensor<4x32x32xf32>
  %c = linalg.batch_matmul ins(%q, %t : tensor<4x32x16xf16>, tensor<4x16x32xf16>) outs(%f : tensor<4x32x32xf32>) -> tensor<4x32x32xf32>
  return %c : tensor<4x32x32xf32>
}

// VULKAN-LABEL: function @few_rows_f16
// VULKAN-NOT: inner batch loop
func.func @few_rows_f16(%q: tensor<4x8x16xf16>, %k: tensor<32x4x16xf16>) -> tensor<4x8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %ek = tensor.empty() : tensor<4x16x32xf16>
  %t = linalg.generic {indexing_maps = [#keys, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%k : tensor<32x4x16xf16>) outs(%ek : tensor<4x16x32xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<4x16x32xf16>
  %e = tensor.empty() : tensor<4x8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
  %c = linalg.batch_matmul ins(%q, %t : tensor<4x8x16xf16>, tensor<4x16x32xf16>) outs(%f : tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
  return %c : tensor<4x8x32xf32>
}
