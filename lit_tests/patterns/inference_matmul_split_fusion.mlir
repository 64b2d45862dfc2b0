// RUN: %mlirfuse-opt %s --split-input-file --pipeline=inference_matmul_split_fusion --target=rocm | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=inference_matmul_split_fusion --target=cpu | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=inference_matmul_split_fusion --target=rocm --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// OFF-NOT: flow.dispatch.region

// ONNX: Split of a MatMul.
// CHECK-LABEL: @two_parts
// CHECK: %[[R:.*]]:2 = flow.dispatch.region {{.*}}mlirfuse.pass = "inference_matmul_split_fusion"
// CHECK-DAG: %[[W0:.*]] = tensor.extract_slice %arg1[0, 0] [16, 32]
// CHECK-DAG: %[[W1:.*]] = tensor.extract_slice %arg1[0, 32] [16, 32]
// CHECK: %[[C:.*]]:2 = linalg.generic {{.*}} ins(%arg0, %[[W0]], %[[W1]] :
// CHECK: flow.return %[[C]]#0, %[[C]]#1
// CHECK: return %[[R]]#0, %[[R]]#1
func.func @two_parts(%x: tensor<16x16xf32>, %w: tensor<16x64xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<16x64xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %c = linalg.matmul ins(%x, %w : tensor<16x16xf32>, tensor<16x64xf32>) outs(%f1 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %p0 = tensor.extract_slice %c[0, 0] [16, 32] [1, 1] : tensor<16x64xf32> to tensor<16x32xf32>
  %p1 = tensor.extract_slice %c[0, 32] [16, 32] [1, 1] : tensor<16x64xf32> to tensor<16x32xf32>
  return %p0, %p1 : tensor<16x32xf32>, tensor<16x32xf32>
}

// -----

#x = affine_map<(m, n, k) -> (m, k)>
#wt = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// PyTorch: F.linear(x, w, b).chunk(3, -1) with a batch.
// CHECK-LABEL: @three_parts_bias_reshape
// CHECK: %[[R:.*]]:3 = flow.dispatch.region {{.*}}mlirfuse.pass = "inference_matmul_split_fusion"
// CHECK-DAG: %[[W0:.*]] = tensor.extract_slice %arg1[0, 0] [32, 16]
// CHECK-DAG: %[[W1:.*]] = tensor.extract_slice %arg1[32, 0] [32, 16]
// CHECK-DAG: %[[W2:.*]] = tensor.extract_slice %arg1[64, 0] [32, 16]
// CHECK: %[[C:.*]]:3 = linalg.generic {{.*}} ins(%arg0, %[[W0]], %[[W1]], %[[W2]] :
// CHECK: %[[B0:.*]] = tensor.extract_slice %arg2[0] [32]
// CHECK: %[[D0:.*]] = linalg.generic {{.*}} ins(%[[C]]#0, %[[B0]] :
// CHECK: %[[B1:.*]] = tensor.extract_slice %arg2[32] [32]
// CHECK: %[[D1:.*]] = linalg.generic {{.*}} ins(%[[C]]#1, %[[B1]] :
// CHECK: %[[B2:.*]] = tensor.extract_slice %arg2[64] [32]
// CHECK: %[[D2:.*]] = linalg.generic {{.*}} ins(%[[C]]#2, %[[B2]] :
// CHECK: flow.return %[[D0]], %[[D1]], %[[D2]]
// CHECK-DAG: %[[E0:.*]] = tensor.expand_shape %[[R]]#0
// CHECK-DAG: %[[E1:.*]] = tensor.expand_shape %[[R]]#1
// CHECK-DAG: %[[E2:.*]] = tensor.expand_shape %[[R]]#2
// CHECK: return %[[E0]], %[[E1]], %[[E2]]
func.func @three_parts_bias_reshape(%x: tensor<16x16xf32>, %w: tensor<96x16xf32>, %bias: tensor<96xf32>) -> (tensor<4x4x32xf32>, tensor<4x4x32xf32>, tensor<4x4x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<16x96xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x96xf32>) -> tensor<16x96xf32>
  %c = linalg.matmul indexing_maps = [#x, #wt, #c] ins(%x, %w : tensor<16x16xf32>, tensor<96x16xf32>) outs(%f1 : tensor<16x96xf32>) -> tensor<16x96xf32>
  %d = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<16x96xf32>, tensor<96xf32>) outs(%e0 : tensor<16x96xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.addf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x96xf32>
  %e = tensor.expand_shape %d [[0, 1], [2]] output_shape [4, 4, 96] : tensor<16x96xf32> into tensor<4x4x96xf32>
  %p0 = tensor.extract_slice %e[0, 0, 0] [4, 4, 32] [1, 1, 1] : tensor<4x4x96xf32> to tensor<4x4x32xf32>
  %p1 = tensor.extract_slice %e[0, 0, 32] [4, 4, 32] [1, 1, 1] : tensor<4x4x96xf32> to tensor<4x4x32xf32>
  %p2 = tensor.extract_slice %e[0, 0, 64] [4, 4, 32] [1, 1, 1] : tensor<4x4x96xf32> to tensor<4x4x32xf32>
  return %p0, %p1, %p2 : tensor<4x4x32xf32>, tensor<4x4x32xf32>, tensor<4x4x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// JAX: jnp.split(x @ w + b, 2, -1), one half through jax.nn.silu.
// CHECK-LABEL: @one_part_through_silu_f16
// CHECK: %[[R:.*]]:2 = flow.dispatch.region
// CHECK: %[[C:.*]]:2 = linalg.generic
// CHECK: %[[D0:.*]] = linalg.generic {{.*}} ins(%[[C]]#0,
// CHECK: %[[D1:.*]] = linalg.generic {{.*}} ins(%[[C]]#1,
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[D1]] :
// CHECK: flow.return %[[D0]], %[[S]]
// CHECK: return %[[R]]#0, %[[R]]#1
func.func @one_part_through_silu_f16(%x: tensor<16x16xf16>, %w: tensor<16x64xf16>, %bias: tensor<64xf16>) -> (tensor<16x32xf16>, tensor<16x32xf16>) {
  %zero = arith.constant 0.0 : f16
  %one = arith.constant 1.0 : f16
  %e0 = tensor.empty() : tensor<16x64xf16>
  %f1 = linalg.fill ins(%zero : f16) outs(%e0 : tensor<16x64xf16>) -> tensor<16x64xf16>
  %c = linalg.matmul ins(%x, %w : tensor<16x16xf16>, tensor<16x64xf16>) outs(%f1 : tensor<16x64xf16>) -> tensor<16x64xf16>
  %d = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<16x64xf16>, tensor<64xf16>) outs(%e0 : tensor<16x64xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16):
    %r = arith.addf %i0, %i1 : f16
    linalg.yield %r : f16
  } -> tensor<16x64xf16>
  %p0 = tensor.extract_slice %d[0, 0] [16, 32] [1, 1] : tensor<16x64xf16> to tensor<16x32xf16>
  %p1 = tensor.extract_slice %d[0, 32] [16, 32] [1, 1] : tensor<16x64xf16> to tensor<16x32xf16>
  %e2 = tensor.empty() : tensor<16x32xf16>
  %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p1 : tensor<16x32xf16>) outs(%e2 : tensor<16x32xf16>) {
  ^bb0(%i0: f16, %o: f16):
    %n = arith.negf %i0 : f16
    %p = math.exp %n : f16
    %q = arith.addf %p, %one : f16
    %r = arith.divf %i0, %q : f16
    linalg.yield %r : f16
  } -> tensor<16x32xf16>
  return %p0, %s : tensor<16x32xf16>, tensor<16x32xf16>
}

// -----

// PyTorch: the slices have no dimension for a batch of one.
// CHECK-LABEL: @batch_of_one_drops_out
// CHECK: %[[R:.*]]:2 = flow.dispatch.region
// CHECK: flow.return
// CHECK-NOT: tensor.expand_shape
// CHECK: return %[[R]]#0, %[[R]]#1
func.func @batch_of_one_drops_out(%x: tensor<16x16xf32>, %w: tensor<16x64xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x64xf32>) -> tensor<16x64xf32>
  %c = linalg.matmul ins(%x, %w : tensor<16x16xf32>, tensor<16x64xf32>) outs(%f : tensor<16x64xf32>) -> tensor<16x64xf32>
  %r = tensor.expand_shape %c [[0, 1], [2]] output_shape [1, 16, 64] : tensor<16x64xf32> into tensor<1x16x64xf32>
  %p0 = tensor.extract_slice %r[0, 0, 0] [1, 16, 32] [1, 1, 1] : tensor<1x16x64xf32> to tensor<16x32xf32>
  %p1 = tensor.extract_slice %r[0, 0, 32] [1, 16, 32] [1, 1, 1] : tensor<1x16x64xf32> to tensor<16x32xf32>
  return %p0, %p1 : tensor<16x32xf32>, tensor<16x32xf32>
}

// -----

// One token: such a matmul is faster alone.
// CHECK-LABEL: @no_fusion_vector
// WHY: no matrix instructions for several contractions of 1x32x16 f16 on rocm:gfx942
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_vector(%x: tensor<16xf16>, %w: tensor<16x64xf16>) -> (tensor<32xf16>, tensor<32xf16>) {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<64xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<64xf16>) -> tensor<64xf16>
  %c = linalg.vecmat ins(%x, %w : tensor<16xf16>, tensor<16x64xf16>) outs(%f : tensor<64xf16>) -> tensor<64xf16>
  %r = tensor.expand_shape %c [[0, 1]] output_shape [1, 64] : tensor<64xf16> into tensor<1x64xf16>
  %p0 = tensor.extract_slice %r[0, 0] [1, 32] [1, 1] : tensor<1x64xf16> to tensor<32xf16>
  %p1 = tensor.extract_slice %r[0, 32] [1, 32] [1, 1] : tensor<1x64xf16> to tensor<32xf16>
  return %p0, %p1 : tensor<32xf16>, tensor<32xf16>
}

// -----

// IREE's code generation for GPUs fails on it.
// CHECK-LABEL: @no_fusion_dynamic_parts
// WHY: a dynamic contraction without an epilogue
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_dynamic_parts(%x: tensor<?x16xf32>, %w: tensor<16x64xf32>, %rows: index) -> (tensor<?x32xf32>, tensor<?x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%rows) : tensor<?x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x64xf32>) -> tensor<?x64xf32>
  %c = linalg.matmul ins(%x, %w : tensor<?x16xf32>, tensor<16x64xf32>) outs(%f : tensor<?x64xf32>) -> tensor<?x64xf32>
  %p0 = tensor.extract_slice %c[0, 0] [%rows, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
  %p1 = tensor.extract_slice %c[0, 32] [%rows, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
  return %p0, %p1 : tensor<?x32xf32>, tensor<?x32xf32>
}

// -----

// CHECK-LABEL: @no_fusion_parts_without_columns
// WHY: a slice drops the N dimension
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_parts_without_columns(%x: tensor<16x16xf32>, %w: tensor<16x2xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x2xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x2xf32>) -> tensor<16x2xf32>
  %c = linalg.matmul ins(%x, %w : tensor<16x16xf32>, tensor<16x2xf32>) outs(%f : tensor<16x2xf32>) -> tensor<16x2xf32>
  %p0 = tensor.extract_slice %c[0, 0] [16, 1] [1, 1] : tensor<16x2xf32> to tensor<16xf32>
  %p1 = tensor.extract_slice %c[0, 1] [16, 1] [1, 1] : tensor<16x2xf32> to tensor<16xf32>
  return %p0, %p1 : tensor<16xf32>, tensor<16xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// The slice itself has another user: its SiLU is not fused.
// CHECK-LABEL: @silu_of_a_part_read_elsewhere
// CHECK: %[[R:.*]]:2 = flow.dispatch.region
// CHECK: %[[C:.*]]:2 = linalg.generic
// CHECK: flow.return %[[C]]#0, %[[C]]#1
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[R]]#1 :
// CHECK: return %[[R]]#0, %[[S]], %[[R]]#1
func.func @silu_of_a_part_read_elsewhere(%x: tensor<16x16xbf16>, %w: tensor<16x64xbf16>) -> (tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x32xbf16>) {
  %zero = arith.constant 0.0 : bf16
  %one = arith.constant 1.0 : bf16
  %e0 = tensor.empty() : tensor<16x64xbf16>
  %f1 = linalg.fill ins(%zero : bf16) outs(%e0 : tensor<16x64xbf16>) -> tensor<16x64xbf16>
  %c = linalg.matmul ins(%x, %w : tensor<16x16xbf16>, tensor<16x64xbf16>) outs(%f1 : tensor<16x64xbf16>) -> tensor<16x64xbf16>
  %p0 = tensor.extract_slice %c[0, 0] [16, 32] [1, 1] : tensor<16x64xbf16> to tensor<16x32xbf16>
  %p1 = tensor.extract_slice %c[0, 32] [16, 32] [1, 1] : tensor<16x64xbf16> to tensor<16x32xbf16>
  %e2 = tensor.empty() : tensor<16x32xbf16>
  %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p1 : tensor<16x32xbf16>) outs(%e2 : tensor<16x32xbf16>) {
  ^bb0(%i0: bf16, %o: bf16):
    %n = arith.negf %i0 : bf16
    %p = math.exp %n : bf16
    %q = arith.addf %p, %one : bf16
    %r = arith.divf %i0, %q : bf16
    linalg.yield %r : bf16
  } -> tensor<16x32xbf16>
  return %p0, %s, %p1 : tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x32xbf16>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// WHY: 4 slices instead of two or three
// CHECK-LABEL: @no_fusion_four_parts
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_four_parts(%x: tensor<16x16xf32>, %w: tensor<16x128xf32>, %bias: tensor<128xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<16x128xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x128xf32>) -> tensor<16x128xf32>
  %c = linalg.matmul ins(%x, %w : tensor<16x16xf32>, tensor<16x128xf32>) outs(%f1 : tensor<16x128xf32>) -> tensor<16x128xf32>
  %d = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<16x128xf32>, tensor<128xf32>) outs(%e0 : tensor<16x128xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.addf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x128xf32>
  %p0 = tensor.extract_slice %d[0, 0] [16, 32] [1, 1] : tensor<16x128xf32> to tensor<16x32xf32>
  %p1 = tensor.extract_slice %d[0, 32] [16, 32] [1, 1] : tensor<16x128xf32> to tensor<16x32xf32>
  %p2 = tensor.extract_slice %d[0, 64] [16, 32] [1, 1] : tensor<16x128xf32> to tensor<16x32xf32>
  %p3 = tensor.extract_slice %d[0, 96] [16, 32] [1, 1] : tensor<16x128xf32> to tensor<16x32xf32>
  return %p0, %p1, %p2, %p3 : tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// WHY: N is 64, the slices are 0 to 40, 40 to 64
// CHECK-LABEL: @no_fusion_unequal_parts
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_unequal_parts(%x: tensor<16x16xf32>, %w: tensor<16x64xf32>, %bias: tensor<64xf32>) -> (tensor<16x40xf32>, tensor<16x24xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<16x64xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %c = linalg.matmul ins(%x, %w : tensor<16x16xf32>, tensor<16x64xf32>) outs(%f1 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %d = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<16x64xf32>, tensor<64xf32>) outs(%e0 : tensor<16x64xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.addf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x64xf32>
  %p0 = tensor.extract_slice %d[0, 0] [16, 40] [1, 1] : tensor<16x64xf32> to tensor<16x40xf32>
  %p1 = tensor.extract_slice %d[0, 40] [16, 24] [1, 1] : tensor<16x64xf32> to tensor<16x24xf32>
  return %p0, %p1 : tensor<16x40xf32>, tensor<16x24xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// WHY: N is 96, the slices are 0 to 32, 32 to 64
// CHECK-LABEL: @no_fusion_a_part_is_missing
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_a_part_is_missing(%x: tensor<16x16xf32>, %w: tensor<16x96xf32>, %bias: tensor<96xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<16x96xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x96xf32>) -> tensor<16x96xf32>
  %c = linalg.matmul ins(%x, %w : tensor<16x16xf32>, tensor<16x96xf32>) outs(%f1 : tensor<16x96xf32>) -> tensor<16x96xf32>
  %d = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<16x96xf32>, tensor<96xf32>) outs(%e0 : tensor<16x96xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.addf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x96xf32>
  %p0 = tensor.extract_slice %d[0, 0] [16, 32] [1, 1] : tensor<16x96xf32> to tensor<16x32xf32>
  %p1 = tensor.extract_slice %d[0, 32] [16, 32] [1, 1] : tensor<16x96xf32> to tensor<16x32xf32>
  return %p0, %p1 : tensor<16x32xf32>, tensor<16x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// CHECK-LABEL: @no_fusion_whole_read_elsewhere
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_whole_read_elsewhere(%x: tensor<16x16xf32>, %w: tensor<16x64xf32>, %bias: tensor<64xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<16x64xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %c = linalg.matmul ins(%x, %w : tensor<16x16xf32>, tensor<16x64xf32>) outs(%f1 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %d = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<16x64xf32>, tensor<64xf32>) outs(%e0 : tensor<16x64xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.addf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x64xf32>
  %p0 = tensor.extract_slice %d[0, 0] [16, 32] [1, 1] : tensor<16x64xf32> to tensor<16x32xf32>
  %p1 = tensor.extract_slice %d[0, 32] [16, 32] [1, 1] : tensor<16x64xf32> to tensor<16x32xf32>
  return %p0, %p1, %d : tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x64xf32>
}

// -----

// WHY: a slice has a part of M
// CHECK-LABEL: @no_fusion_rows_are_cut
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_rows_are_cut(%x: tensor<16x16xf32>, %w: tensor<16x64xf32>) -> (tensor<4x32xf32>, tensor<4x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<16x64xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %c = linalg.matmul ins(%x, %w : tensor<16x16xf32>, tensor<16x64xf32>) outs(%f1 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %p0 = tensor.extract_slice %c[0, 0] [4, 32] [1, 1] : tensor<16x64xf32> to tensor<4x32xf32>
  %p1 = tensor.extract_slice %c[0, 32] [4, 32] [1, 1] : tensor<16x64xf32> to tensor<4x32xf32>
  return %p0, %p1 : tensor<4x32xf32>, tensor<4x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// WHY: element_type
// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_f64(%x: tensor<16x16xf64>, %w: tensor<16x64xf64>, %bias: tensor<64xf64>) -> (tensor<16x32xf64>, tensor<16x32xf64>) {
  %zero = arith.constant 0.0 : f64
  %one = arith.constant 1.0 : f64
  %e0 = tensor.empty() : tensor<16x64xf64>
  %f1 = linalg.fill ins(%zero : f64) outs(%e0 : tensor<16x64xf64>) -> tensor<16x64xf64>
  %c = linalg.matmul ins(%x, %w : tensor<16x16xf64>, tensor<16x64xf64>) outs(%f1 : tensor<16x64xf64>) -> tensor<16x64xf64>
  %d = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<16x64xf64>, tensor<64xf64>) outs(%e0 : tensor<16x64xf64>) {
  ^bb0(%i0: f64, %i1: f64, %o: f64):
    %r = arith.addf %i0, %i1 : f64
    linalg.yield %r : f64
  } -> tensor<16x64xf64>
  %p0 = tensor.extract_slice %d[0, 0] [16, 32] [1, 1] : tensor<16x64xf64> to tensor<16x32xf64>
  %p1 = tensor.extract_slice %d[0, 32] [16, 32] [1, 1] : tensor<16x64xf64> to tensor<16x32xf64>
  return %p0, %p1 : tensor<16x32xf64>, tensor<16x32xf64>
}

// -----

// WHY: N is not a dimension of the second operand alone
// CHECK-LABEL: @no_fusion_init_is_a_tensor
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_init_is_a_tensor(%x: tensor<16x16xf32>, %w: tensor<16x64xf32>, %acc: tensor<16x64xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %c = linalg.matmul ins(%x, %w : tensor<16x16xf32>, tensor<16x64xf32>) outs(%acc : tensor<16x64xf32>) -> tensor<16x64xf32>
  %p0 = tensor.extract_slice %c[0, 0] [16, 32] [1, 1] : tensor<16x64xf32> to tensor<16x32xf32>
  %p1 = tensor.extract_slice %c[0, 32] [16, 32] [1, 1] : tensor<16x64xf32> to tensor<16x32xf32>
  return %p0, %p1 : tensor<16x32xf32>, tensor<16x32xf32>
}

// -----

#xx = affine_map<(n, m, k) -> (n, k)>
#ww = affine_map<(n, m, k) -> (m, k)>
#cc = affine_map<(n, m, k) -> (m, n)>

// The slices are along a dimension of the first operand.
// WHY: N is not a dimension of the second operand alone
// CHECK-LABEL: @no_fusion_columns_of_the_first_operand
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_columns_of_the_first_operand(%x: tensor<16x16xf32>, %w: tensor<64x16xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x64xf32>) -> tensor<16x64xf32>
  %c = linalg.generic {indexing_maps = [#xx, #ww, #cc], iterator_types = ["parallel", "parallel", "reduction"]} ins(%w, %x : tensor<64x16xf32>, tensor<16x16xf32>) outs(%f : tensor<16x64xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %p = arith.mulf %i0, %i1 : f32
    %r = arith.addf %o, %p : f32
    linalg.yield %r : f32
  } -> tensor<16x64xf32>
  %p0 = tensor.extract_slice %c[0, 0] [16, 32] [1, 1] : tensor<16x64xf32> to tensor<16x32xf32>
  %p1 = tensor.extract_slice %c[0, 32] [16, 32] [1, 1] : tensor<16x64xf32> to tensor<16x32xf32>
  return %p0, %p1 : tensor<16x32xf32>, tensor<16x32xf32>
}
