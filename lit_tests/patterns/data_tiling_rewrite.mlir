// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_elem_biasadd_fusion,data_tiling_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_elem_biasadd_fusion,data_tiling_rewrite --target=cpu:znver4 | FileCheck %s --check-prefix=BF16
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_elem_biasadd_fusion,data_tiling_rewrite --target=cpu:x86-64-v3 | FileCheck %s --check-prefix=WIDENED
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_elem_biasadd_fusion,data_tiling_rewrite --target=cuda:sm_80 | FileCheck %s --check-prefix=OFF
// OFF-NOT: iree.opt.data_tiling
// OFF-NOT: iree_tensor_ext.compute_barrier.start

// Probabilities times values, heads merged, output projection with its bias: the projection is
// marked inside its group, the batched matmul fenced.
// CHECK-LABEL: @output_projection
// CHECK: %[[C:.*]] = linalg.batch_matmul ins
// CHECK: %[[Z:.*]] = iree_tensor_ext.compute_barrier.start %[[C]]
// CHECK: %[[X:.*]] = tensor.collapse_shape %[[Z]]
// CHECK: flow.dispatch.region
// CHECK: linalg.matmul {iree.opt.data_tiling} ins(%[[X]]
#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>
func.func @output_projection(%p: tensor<8x16x16xf32>, %v: tensor<8x16x4xf32>, %w: tensor<4x32xf32>, %bias: tensor<32xf32>) -> tensor<128x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16x4xf32>) -> tensor<8x16x4xf32>
  %c = linalg.batch_matmul ins(%p, %v : tensor<8x16x16xf32>, tensor<8x16x4xf32>) outs(%f : tensor<8x16x4xf32>) -> tensor<8x16x4xf32>
  %x = tensor.collapse_shape %c [[0, 1], [2]] : tensor<8x16x4xf32> into tensor<128x4xf32>
  %ey = tensor.empty() : tensor<128x32xf32>
  %fy = linalg.fill ins(%zero : f32) outs(%ey : tensor<128x32xf32>) -> tensor<128x32xf32>
  %y = linalg.matmul ins(%x, %w : tensor<128x4xf32>, tensor<4x32xf32>) outs(%fy : tensor<128x32xf32>) -> tensor<128x32xf32>
  %b = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%y, %bias : tensor<128x32xf32>, tensor<32xf32>) outs(%ey : tensor<128x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<128x32xf32>
  return %b : tensor<128x32xf32>
}

// -----

// A batched matmul without an unbatched matmul as user is unchanged.
// CHECK-LABEL: @no_rewrite_batched_alone
// CHECK: linalg.batch_matmul ins
// CHECK-NOT: iree_tensor_ext.compute_barrier.start
// CHECK: return
func.func @no_rewrite_batched_alone(%p: tensor<8x16x16xf16>, %v: tensor<8x16x4xf16>) -> tensor<8x16x4xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<8x16x4xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<8x16x4xf16>) -> tensor<8x16x4xf16>
  %c = linalg.batch_matmul ins(%p, %v : tensor<8x16x16xf16>, tensor<8x16x4xf16>) outs(%f : tensor<8x16x4xf16>) -> tensor<8x16x4xf16>
  return %c : tensor<8x16x4xf16>
}

// -----

// Sizes are not visible through a barrier: a batched matmul of dynamic size is not fenced.
// CHECK-LABEL: @no_rewrite_dynamic_batch
// CHECK: linalg.batch_matmul ins
// CHECK-NOT: iree_tensor_ext.compute_barrier.start
// CHECK: linalg.matmul {iree.opt.data_tiling}
func.func @no_rewrite_dynamic_batch(%p: tensor<?x16x16xf32>, %v: tensor<?x16x4xf32>, %w: tensor<4x32xf32>, %b: index, %m: index) -> tensor<?x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%b) : tensor<?x16x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x16x4xf32>) -> tensor<?x16x4xf32>
  %c = linalg.batch_matmul ins(%p, %v : tensor<?x16x16xf32>, tensor<?x16x4xf32>) outs(%f : tensor<?x16x4xf32>) -> tensor<?x16x4xf32>
  %x = tensor.collapse_shape %c [[0, 1], [2]] : tensor<?x16x4xf32> into tensor<?x4xf32>
  %ey = tensor.empty(%m) : tensor<?x32xf32>
  %fy = linalg.fill ins(%zero : f32) outs(%ey : tensor<?x32xf32>) -> tensor<?x32xf32>
  %y = linalg.matmul ins(%x, %w : tensor<?x4xf32>, tensor<4x32xf32>) outs(%fy : tensor<?x32xf32>) -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// -----

// A mask in the epilogue would be packed, and a packed i1 does not compile.
// CHECK-LABEL: @no_rewrite_mask_after
// CHECK: linalg.matmul ins
// CHECK: return
#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
func.func @no_rewrite_mask_after(%x: tensor<48x64xf32>, %w: tensor<64x32xf32>, %mask: tensor<48xi1>) -> tensor<48x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<48x32xf32>) -> tensor<48x32xf32>
  %p = linalg.matmul ins(%x, %w : tensor<48x64xf32>, tensor<64x32xf32>) outs(%f : tensor<48x32xf32>) -> tensor<48x32xf32>
  %q = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<48x32xf32>) outs(%e : tensor<48x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.exp %i : f32
    linalg.yield %s : f32
  } -> tensor<48x32xf32>
  %r = linalg.generic {indexing_maps = [#m, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%mask, %q : tensor<48xi1>, tensor<48x32xf32>) outs(%e : tensor<48x32xf32>) {
  ^bb0(%k: i1, %i: f32, %o: f32):
    %s = arith.select %k, %i, %zero : f32
    linalg.yield %s : f32
  } -> tensor<48x32xf32>
  return %r : tensor<48x32xf32>
}

// -----

// A mask in the prologue is not packed, an i1 result of the matmul is.
// CHECK-LABEL: @mask_before
// CHECK: linalg.matmul {iree.opt.data_tiling}
#mk = affine_map<(m, k) -> (m, k)>
func.func @mask_before(%x: tensor<48x64xf32>, %w: tensor<64x32xf32>, %mask: tensor<48x64xi1>) -> tensor<48x32xi1> {
  %zero = arith.constant 0.0 : f32
  %ex = tensor.empty() : tensor<48x64xf32>
  %y = linalg.generic {indexing_maps = [#mk, #mk, #mk], iterator_types = ["parallel", "parallel"]} ins(%mask, %x : tensor<48x64xi1>, tensor<48x64xf32>) outs(%ex : tensor<48x64xf32>) {
  ^bb0(%k: i1, %i: f32, %o: f32):
    %s = arith.select %k, %i, %zero : f32
    linalg.yield %s : f32
  } -> tensor<48x64xf32>
  %e = tensor.empty() : tensor<48x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<48x32xf32>) -> tensor<48x32xf32>
  %p = linalg.matmul ins(%y, %w : tensor<48x64xf32>, tensor<64x32xf32>) outs(%f : tensor<48x32xf32>) -> tensor<48x32xf32>
  %eb = tensor.empty() : tensor<48x32xi1>
  %b = linalg.generic {indexing_maps = [#mk, #mk], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<48x32xf32>) outs(%eb : tensor<48x32xi1>) {
  ^bb0(%i: f32, %o: i1):
    %s = arith.cmpf ogt, %i, %zero : f32
    linalg.yield %s : i1
  } -> tensor<48x32xi1>
  return %b : tensor<48x32xi1>
}

// -----

// Scores of seven experts: packing would be a dispatch more. Eight fill a register.
// CHECK-LABEL: @no_rewrite_few_columns
// CHECK: linalg.matmul ins(%arg0, %arg1
// CHECK: linalg.matmul {iree.opt.data_tiling} ins(%arg0, %arg2
func.func @no_rewrite_few_columns(%x: tensor<48x64xf32>, %w: tensor<64x7xf32>, %v: tensor<64x8xf32>) -> (tensor<48x7xf32>, tensor<48x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48x7xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<48x7xf32>) -> tensor<48x7xf32>
  %y = linalg.matmul ins(%x, %w : tensor<48x64xf32>, tensor<64x7xf32>) outs(%f : tensor<48x7xf32>) -> tensor<48x7xf32>
  %e8 = tensor.empty() : tensor<48x8xf32>
  %f8 = linalg.fill ins(%zero : f32) outs(%e8 : tensor<48x8xf32>) -> tensor<48x8xf32>
  %z = linalg.matmul ins(%x, %v : tensor<48x64xf32>, tensor<64x8xf32>) outs(%f8 : tensor<48x8xf32>) -> tensor<48x8xf32>
  return %y, %z : tensor<48x7xf32>, tensor<48x8xf32>
}

// -----

// The result of another dispatch is not packed along a dynamic K; an argument is.

#all = affine_map<(i, j) -> (i, j)>

// CHECK-LABEL: @no_rewrite_dynamic_k_of_computed
// CHECK: %[[A:.+]] = linalg.generic
// CHECK: linalg.matmul ins(%[[A]]
// CHECK: linalg.matmul {iree.opt.data_tiling} ins(%{{.+}}, %{{.+}} :
func.func @no_rewrite_dynamic_k_of_computed(%x: tensor<4x?xf32>, %w: tensor<?x16xf32>, %k: index) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  %e = tensor.empty(%k) : tensor<4x?xf32>
  %a = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x?xf32>) outs(%e : tensor<4x?xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.tanh %i : f32
    linalg.yield %r : f32
  } -> tensor<4x?xf32>
  %c = arith.constant 0.0 : f32
  %o = tensor.empty() : tensor<4x16xf32>
  %f = linalg.fill ins(%c : f32) outs(%o : tensor<4x16xf32>) -> tensor<4x16xf32>
  %y = linalg.matmul ins(%a, %w : tensor<4x?xf32>, tensor<?x16xf32>) outs(%f : tensor<4x16xf32>) -> tensor<4x16xf32>
  %z = linalg.matmul ins(%x, %w : tensor<4x?xf32>, tensor<?x16xf32>) outs(%f : tensor<4x16xf32>) -> tensor<4x16xf32>
  return %y, %z : tensor<4x16xf32>, tensor<4x16xf32>
}

// -----

// IREE's microkernel for bf16 needs AVX512-BF16.
// BF16-LABEL: @no_rewrite_bf16
// BF16: linalg.matmul {iree.opt.data_tiling}
// WIDENED-LABEL: @no_rewrite_bf16
// WIDENED: linalg.matmul ins(
func.func @no_rewrite_bf16(%x: tensor<48x64xbf16>, %w: tensor<64x32xbf16>) -> tensor<48x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<48x32xf32>) -> tensor<48x32xf32>
  %y = linalg.matmul ins(%x, %w : tensor<48x64xbf16>, tensor<64x32xbf16>) outs(%f : tensor<48x32xf32>) -> tensor<48x32xf32>
  return %y : tensor<48x32xf32>
}
