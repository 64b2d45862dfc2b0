// RUN: %mlirfuse-opt %s --split-input-file --pipeline=inference_swiglu_fusion --target=rocm | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=inference_swiglu_fusion --target=cpu | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=inference_swiglu_fusion --target=rocm --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// OFF-NOT: flow.dispatch.region

#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @two_contractions
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "inference_swiglu_fusion"
// CHECK: %[[C:.*]]:2 = linalg.generic {{.*}} ins(%arg0, %arg1, %arg2 :
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[C]]#0 :
// CHECK: math.exp
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[S]], %[[C]]#1 :
// CHECK: flow.return %[[Y]]
// CHECK: return %[[R]]
func.func @two_contractions(%x: tensor<16x16xf32>, %wg: tensor<16x32xf32>, %wu: tensor<16x32xf32>) -> tensor<16x32xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<16x32xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %g = linalg.matmul ins(%x, %wg : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f1 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %u = linalg.matmul ins(%x, %wu : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f1 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<16x32xf32>) outs(%e0 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %n = arith.negf %i0 : f32
    %p = math.exp %n : f32
    %q = arith.addf %p, %one : f32
    %r = arith.divf %i0, %q : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s, %u : tensor<16x32xf32>, tensor<16x32xf32>) outs(%e0 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}

// -----

#x = affine_map<(m, n, k) -> (m, k)>
#wt = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
#mn = affine_map<(m, n) -> (m, n)>

// PyTorch: F.linear(x, wu) * F.silu(F.linear(x, wg)), SiLU in two ops.
// CHECK-LABEL: @torch_bf16
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]]:2 = linalg.generic {{.*}} ins(%arg0, %arg1, %arg2 :
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[C]]#0 :
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[C]]#0, %[[S]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]]#1, %[[T]] :
// CHECK: flow.return %[[Y]]
func.func @torch_bf16(%x: tensor<16x16xbf16>, %wg: tensor<32x16xbf16>, %wu: tensor<32x16xbf16>) -> tensor<16x32xbf16> {
  %zero = arith.constant 0.0 : bf16
  %one = arith.constant 1.0 : bf16
  %e0 = tensor.empty() : tensor<16x32xbf16>
  %f1 = linalg.fill ins(%zero : bf16) outs(%e0 : tensor<16x32xbf16>) -> tensor<16x32xbf16>
  %g = linalg.matmul indexing_maps = [#x, #wt, #c] ins(%x, %wg : tensor<16x16xbf16>, tensor<32x16xbf16>) outs(%f1 : tensor<16x32xbf16>) -> tensor<16x32xbf16>
  %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<16x32xbf16>) outs(%e0 : tensor<16x32xbf16>) {
  ^bb0(%i0: bf16, %o: bf16):
    %n = arith.negf %i0 : bf16
    %p = math.exp %n : bf16
    %q = arith.addf %p, %one : bf16
    %r = arith.divf %one, %q : bf16
    linalg.yield %r : bf16
  } -> tensor<16x32xbf16>
  %t = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%g, %s : tensor<16x32xbf16>, tensor<16x32xbf16>) outs(%e0 : tensor<16x32xbf16>) {
  ^bb0(%i0: bf16, %i1: bf16, %o: bf16):
    %r = arith.mulf %i0, %i1 : bf16
    linalg.yield %r : bf16
  } -> tensor<16x32xbf16>
  %u = linalg.matmul indexing_maps = [#x, #wt, #c] ins(%x, %wu : tensor<16x16xbf16>, tensor<32x16xbf16>) outs(%f1 : tensor<16x32xbf16>) -> tensor<16x32xbf16>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%u, %t : tensor<16x32xbf16>, tensor<16x32xbf16>) outs(%e0 : tensor<16x32xbf16>) {
  ^bb0(%i0: bf16, %i1: bf16, %o: bf16):
    %r = arith.mulf %i0, %i1 : bf16
    linalg.yield %r : bf16
  } -> tensor<16x32xbf16>
  return %y : tensor<16x32xbf16>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// JAX: jax.nn.silu(x @ wg + bg) * (x @ wu + bu), the end in one body.
// CHECK-LABEL: @biases_in_one_body_f16
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]]:2 = linalg.generic
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[C]]#0, %arg3 :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[D]], %[[C]]#1, %arg4 :
// CHECK: flow.return %[[Y]]
func.func @biases_in_one_body_f16(%x: tensor<16x16xf16>, %wg: tensor<16x32xf16>, %wu: tensor<16x32xf16>, %bg: tensor<32xf16>, %bu: tensor<32xf16>) -> tensor<16x32xf16> {
  %zero = arith.constant 0.0 : f16
  %one = arith.constant 1.0 : f16
  %e0 = tensor.empty() : tensor<16x32xf16>
  %f1 = linalg.fill ins(%zero : f16) outs(%e0 : tensor<16x32xf16>) -> tensor<16x32xf16>
  %g = linalg.matmul ins(%x, %wg : tensor<16x16xf16>, tensor<16x32xf16>) outs(%f1 : tensor<16x32xf16>) -> tensor<16x32xf16>
  %u = linalg.matmul ins(%x, %wu : tensor<16x16xf16>, tensor<16x32xf16>) outs(%f1 : tensor<16x32xf16>) -> tensor<16x32xf16>
  %d = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%g, %bg : tensor<16x32xf16>, tensor<32xf16>) outs(%e0 : tensor<16x32xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16):
    %r = arith.addf %i0, %i1 : f16
    linalg.yield %r : f16
  } -> tensor<16x32xf16>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%d, %u, %bu : tensor<16x32xf16>, tensor<16x32xf16>, tensor<32xf16>) outs(%e0 : tensor<16x32xf16>) {
  ^bb0(%i0: f16, %i1: f16, %i2: f16, %o: f16):
    %n = arith.negf %i0 : f16
    %p = math.exp %n : f16
    %q = arith.addf %p, %one : f16
    %l = arith.divf %one, %q : f16
    %m = arith.mulf %i0, %l : f16
    %v = arith.addf %i1, %i2 : f16
    %r = arith.mulf %m, %v : f16
    linalg.yield %r : f16
  } -> tensor<16x32xf16>
  return %y : tensor<16x32xf16>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// ONNX: Split of a MatMul, no bias.
// CHECK-LABEL: @first_half_through_silu
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "inference_swiglu_fusion"
// CHECK-DAG: %[[L:.*]] = tensor.extract_slice %arg1[0, 0] [16, 32]
// CHECK-DAG: %[[H:.*]] = tensor.extract_slice %arg1[0, 32] [16, 32]
// CHECK: %[[C:.*]]:2 = linalg.generic {{.*}} ins(%arg0, %[[L]], %[[H]] :
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[C]]#0 :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[S]], %[[C]]#1 :
// CHECK: flow.return %[[Y]]
// CHECK: return %[[R]]
func.func @first_half_through_silu(%x: tensor<16x16xf32>, %w: tensor<16x64xf32>) -> tensor<16x32xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<16x64xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %c = linalg.matmul ins(%x, %w : tensor<16x16xf32>, tensor<16x64xf32>) outs(%f1 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %l = tensor.extract_slice %c[0, 0] [16, 32] [1, 1] : tensor<16x64xf32> to tensor<16x32xf32>
  %h = tensor.extract_slice %c[0, 32] [16, 32] [1, 1] : tensor<16x64xf32> to tensor<16x32xf32>
  %e2 = tensor.empty() : tensor<16x32xf32>
  %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%l : tensor<16x32xf32>) outs(%e2 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %n = arith.negf %i0 : f32
    %p = math.exp %n : f32
    %q = arith.addf %p, %one : f32
    %r = arith.divf %i0, %q : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s, %h : tensor<16x32xf32>, tensor<16x32xf32>) outs(%e2 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>
#bsn = affine_map<(b, s, n) -> (b, s, n)>

// PyTorch: l, h = F.linear(x, w, b).chunk(2, -1); F.silu(h) * l, with a batch.
// CHECK-LABEL: @second_half_through_silu_after_reshape
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "inference_swiglu_fusion"
// CHECK-DAG: %[[L:.*]] = tensor.extract_slice %arg1[0, 0] [16, 32]
// CHECK-DAG: %[[H:.*]] = tensor.extract_slice %arg1[0, 32] [16, 32]
// CHECK: %[[C:.*]]:2 = linalg.generic {{.*}} ins(%arg0, %[[L]], %[[H]] :
// CHECK: %[[B0:.*]] = tensor.extract_slice %arg2[0] [32]
// CHECK: %[[D0:.*]] = linalg.generic {{.*}} ins(%[[C]]#0, %[[B0]] :
// CHECK: %[[B1:.*]] = tensor.extract_slice %arg2[32] [32]
// CHECK: %[[D1:.*]] = linalg.generic {{.*}} ins(%[[C]]#1, %[[B1]] :
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[D1]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[S]], %[[D0]] :
// CHECK: flow.return %[[Y]]
// CHECK: %[[E:.*]] = tensor.expand_shape %[[R]] {{\[\[}}0, 1], [2]]
// CHECK: return %[[E]]
func.func @second_half_through_silu_after_reshape(%x: tensor<16x16xf32>, %w: tensor<16x64xf32>, %bias: tensor<64xf32>) -> tensor<4x4x32xf32> {
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
  %e = tensor.expand_shape %d [[0, 1], [2]] output_shape [4, 4, 64] : tensor<16x64xf32> into tensor<4x4x64xf32>
  %l = tensor.extract_slice %e[0, 0, 0] [4, 4, 32] [1, 1, 1] : tensor<4x4x64xf32> to tensor<4x4x32xf32>
  %h = tensor.extract_slice %e[0, 0, 32] [4, 4, 32] [1, 1, 1] : tensor<4x4x64xf32> to tensor<4x4x32xf32>
  %e2 = tensor.empty() : tensor<4x4x32xf32>
  %s = linalg.generic {indexing_maps = [#bsn, #bsn], iterator_types = ["parallel", "parallel", "parallel"]} ins(%h : tensor<4x4x32xf32>) outs(%e2 : tensor<4x4x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %n = arith.negf %i0 : f32
    %p = math.exp %n : f32
    %q = arith.addf %p, %one : f32
    %r = arith.divf %i0, %q : f32
    linalg.yield %r : f32
  } -> tensor<4x4x32xf32>
  %y = linalg.generic {indexing_maps = [#bsn, #bsn, #bsn], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %l : tensor<4x4x32xf32>, tensor<4x4x32xf32>) outs(%e2 : tensor<4x4x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<4x4x32xf32>
  return %y : tensor<4x4x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// A contraction of several results with a dynamic M gets no matrix instructions.
// WHY: no matrix instructions for several contractions of ?x32x16 f16 on rocm:gfx942
// CHECK-LABEL: @no_fusion_dynamic_f16
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_dynamic_f16(%x: tensor<?x16xf16>, %w: tensor<16x64xf16>, %bias: tensor<64xf16>) -> tensor<?x32xf16> {
  %zero = arith.constant 0.0 : f16
  %one = arith.constant 1.0 : f16
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x16xf16>
  %e0 = tensor.empty(%rows) : tensor<?x64xf16>
  %f1 = linalg.fill ins(%zero : f16) outs(%e0 : tensor<?x64xf16>) -> tensor<?x64xf16>
  %c = linalg.matmul ins(%x, %w : tensor<?x16xf16>, tensor<16x64xf16>) outs(%f1 : tensor<?x64xf16>) -> tensor<?x64xf16>
  %d = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<?x64xf16>, tensor<64xf16>) outs(%e0 : tensor<?x64xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16):
    %r = arith.addf %i0, %i1 : f16
    linalg.yield %r : f16
  } -> tensor<?x64xf16>
  %l = tensor.extract_slice %d[0, 0] [%rows, 32] [1, 1] : tensor<?x64xf16> to tensor<?x32xf16>
  %h = tensor.extract_slice %d[0, 32] [%rows, 32] [1, 1] : tensor<?x64xf16> to tensor<?x32xf16>
  %e2 = tensor.empty(%rows) : tensor<?x32xf16>
  %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%l : tensor<?x32xf16>) outs(%e2 : tensor<?x32xf16>) {
  ^bb0(%i0: f16, %o: f16):
    %n = arith.negf %i0 : f16
    %p = math.exp %n : f16
    %q = arith.addf %p, %one : f16
    %r = arith.divf %i0, %q : f16
    linalg.yield %r : f16
  } -> tensor<?x32xf16>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s, %h : tensor<?x32xf16>, tensor<?x32xf16>) outs(%e2 : tensor<?x32xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16):
    %r = arith.mulf %i0, %i1 : f16
    linalg.yield %r : f16
  } -> tensor<?x32xf16>
  return %y : tensor<?x32xf16>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// The slices are two of three.
// WHY: N is 96, the slices are 0 to 32, 32 to 64
// CHECK-LABEL: @no_fusion_parts_do_not_cover
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_parts_do_not_cover(%x: tensor<16x16xf32>, %w: tensor<16x96xf32>) -> tensor<16x32xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<16x96xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x96xf32>) -> tensor<16x96xf32>
  %c = linalg.matmul ins(%x, %w : tensor<16x16xf32>, tensor<16x96xf32>) outs(%f1 : tensor<16x96xf32>) -> tensor<16x96xf32>
  %l = tensor.extract_slice %c[0, 0] [16, 32] [1, 1] : tensor<16x96xf32> to tensor<16x32xf32>
  %h = tensor.extract_slice %c[0, 32] [16, 32] [1, 1] : tensor<16x96xf32> to tensor<16x32xf32>
  %e2 = tensor.empty() : tensor<16x32xf32>
  %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%l : tensor<16x32xf32>) outs(%e2 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %n = arith.negf %i0 : f32
    %p = math.exp %n : f32
    %q = arith.addf %p, %one : f32
    %r = arith.divf %i0, %q : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s, %h : tensor<16x32xf32>, tensor<16x32xf32>) outs(%e2 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// WHY: N is 64, the slices are 0 to 32, 16 to 48
// CHECK-LABEL: @no_fusion_overlapping_parts
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_overlapping_parts(%x: tensor<16x16xf32>, %w: tensor<16x64xf32>) -> tensor<16x32xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<16x64xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %c = linalg.matmul ins(%x, %w : tensor<16x16xf32>, tensor<16x64xf32>) outs(%f1 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %l = tensor.extract_slice %c[0, 0] [16, 32] [1, 1] : tensor<16x64xf32> to tensor<16x32xf32>
  %h = tensor.extract_slice %c[0, 16] [16, 32] [1, 1] : tensor<16x64xf32> to tensor<16x32xf32>
  %e2 = tensor.empty() : tensor<16x32xf32>
  %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%l : tensor<16x32xf32>) outs(%e2 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %n = arith.negf %i0 : f32
    %p = math.exp %n : f32
    %q = arith.addf %p, %one : f32
    %r = arith.divf %i0, %q : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s, %h : tensor<16x32xf32>, tensor<16x32xf32>) outs(%e2 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// Three slices: one of them has another user.
// WHY: 3 slices instead of two
// CHECK-LABEL: @no_fusion_third_part
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_third_part(%x: tensor<16x16xf32>, %w: tensor<16x96xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<16x96xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x96xf32>) -> tensor<16x96xf32>
  %c = linalg.matmul ins(%x, %w : tensor<16x16xf32>, tensor<16x96xf32>) outs(%f1 : tensor<16x96xf32>) -> tensor<16x96xf32>
  %l = tensor.extract_slice %c[0, 0] [16, 32] [1, 1] : tensor<16x96xf32> to tensor<16x32xf32>
  %h = tensor.extract_slice %c[0, 32] [16, 32] [1, 1] : tensor<16x96xf32> to tensor<16x32xf32>
  %z = tensor.extract_slice %c[0, 64] [16, 32] [1, 1] : tensor<16x96xf32> to tensor<16x32xf32>
  %e2 = tensor.empty() : tensor<16x32xf32>
  %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%l : tensor<16x32xf32>) outs(%e2 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %n = arith.negf %i0 : f32
    %p = math.exp %n : f32
    %q = arith.addf %p, %one : f32
    %r = arith.divf %i0, %q : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s, %h : tensor<16x32xf32>, tensor<16x32xf32>) outs(%e2 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  return %y, %z : tensor<16x32xf32>, tensor<16x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// WHY: the contractions do not share their first operand
// CHECK-LABEL: @no_fusion_different_inputs
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_different_inputs(%x: tensor<16x16xf32>, %z: tensor<16x16xf32>, %wg: tensor<16x32xf32>, %wu: tensor<16x32xf32>) -> tensor<16x32xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<16x32xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %g = linalg.matmul ins(%x, %wg : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f1 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %u = linalg.matmul ins(%z, %wu : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f1 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<16x32xf32>) outs(%e0 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %n = arith.negf %i0 : f32
    %p = math.exp %n : f32
    %q = arith.addf %p, %one : f32
    %r = arith.divf %i0, %q : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s, %u : tensor<16x32xf32>, tensor<16x32xf32>) outs(%e0 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// The gate is a sigmoid.
// CHECK-LABEL: @no_fusion_sigmoid
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_sigmoid(%x: tensor<16x16xf32>, %wg: tensor<16x32xf32>, %wu: tensor<16x32xf32>) -> tensor<16x32xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<16x32xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %g = linalg.matmul ins(%x, %wg : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f1 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %u = linalg.matmul ins(%x, %wu : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f1 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<16x32xf32>) outs(%e0 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %n = arith.negf %i0 : f32
    %p = math.exp %n : f32
    %q = arith.addf %p, %one : f32
    %r = arith.divf %one, %q : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s, %u : tensor<16x32xf32>, tensor<16x32xf32>) outs(%e0 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @no_fusion_wrong_constant
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_wrong_constant(%x: tensor<16x16xf32>, %wg: tensor<16x32xf32>, %wu: tensor<16x32xf32>) -> tensor<16x32xf32> {
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2.0 : f32
  %e0 = tensor.empty() : tensor<16x32xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %g = linalg.matmul ins(%x, %wg : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f1 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %u = linalg.matmul ins(%x, %wu : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f1 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<16x32xf32>) outs(%e0 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %n = arith.negf %i0 : f32
    %p = math.exp %n : f32
    %q = arith.addf %p, %two : f32
    %r = arith.divf %i0, %q : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s, %u : tensor<16x32xf32>, tensor<16x32xf32>) outs(%e0 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// WHY: a factor has other users
// CHECK-LABEL: @no_fusion_gate_read_elsewhere
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_gate_read_elsewhere(%x: tensor<16x16xf32>, %wg: tensor<16x32xf32>, %wu: tensor<16x32xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<16x32xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %g = linalg.matmul ins(%x, %wg : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f1 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %u = linalg.matmul ins(%x, %wu : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f1 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<16x32xf32>) outs(%e0 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %n = arith.negf %i0 : f32
    %p = math.exp %n : f32
    %q = arith.addf %p, %one : f32
    %r = arith.divf %i0, %q : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s, %u : tensor<16x32xf32>, tensor<16x32xf32>) outs(%e0 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  return %y, %g : tensor<16x32xf32>, tensor<16x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @no_fusion_silu_of_the_matmul
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_silu_of_the_matmul(%x: tensor<16x16xf32>, %wg: tensor<16x32xf32>, %wu: tensor<16x32xf32>) -> tensor<16x32xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<16x32xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %g = linalg.matmul ins(%x, %wg : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f1 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %u = linalg.matmul ins(%x, %wu : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f1 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %w = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%g, %u : tensor<16x32xf32>, tensor<16x32xf32>) outs(%e0 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<16x32xf32>) outs(%e0 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %n = arith.negf %i0 : f32
    %p = math.exp %n : f32
    %q = arith.addf %p, %one : f32
    %r = arith.divf %i0, %q : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}

// -----

#nm = affine_map<(m, n) -> (n, m)>
#mn = affine_map<(m, n) -> (m, n)>

// One of the factors is transposed.
// WHY: the epilogue reads a contraction through another map
// CHECK-LABEL: @no_fusion_transposed_factor
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_transposed_factor(%x: tensor<32x16xf32>, %wg: tensor<16x32xf32>, %wu: tensor<16x32xf32>) -> tensor<32x32xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<32x32xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<32x32xf32>) -> tensor<32x32xf32>
  %g = linalg.matmul ins(%x, %wg : tensor<32x16xf32>, tensor<16x32xf32>) outs(%f1 : tensor<32x32xf32>) -> tensor<32x32xf32>
  %u = linalg.matmul ins(%x, %wu : tensor<32x16xf32>, tensor<16x32xf32>) outs(%f1 : tensor<32x32xf32>) -> tensor<32x32xf32>
  %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<32x32xf32>) outs(%e0 : tensor<32x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %n = arith.negf %i0 : f32
    %p = math.exp %n : f32
    %q = arith.addf %p, %one : f32
    %r = arith.divf %i0, %q : f32
    linalg.yield %r : f32
  } -> tensor<32x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #nm, #mn], iterator_types = ["parallel", "parallel"]} ins(%s, %u : tensor<32x32xf32>, tensor<32x32xf32>) outs(%e0 : tensor<32x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<32x32xf32>
  return %y : tensor<32x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// The init of one contraction is a tensor.
// WHY: the contractions do not share their first operand
// CHECK-LABEL: @no_fusion_init_is_a_tensor
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_init_is_a_tensor(%x: tensor<16x16xf32>, %wg: tensor<16x32xf32>, %wu: tensor<16x32xf32>, %acc: tensor<16x32xf32>) -> tensor<16x32xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %g = linalg.matmul ins(%x, %wg : tensor<16x16xf32>, tensor<16x32xf32>) outs(%acc : tensor<16x32xf32>) -> tensor<16x32xf32>
  %e0 = tensor.empty() : tensor<16x32xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %u = linalg.matmul ins(%x, %wu : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f1 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<16x32xf32>) outs(%e0 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %n = arith.negf %i0 : f32
    %p = math.exp %n : f32
    %q = arith.addf %p, %one : f32
    %r = arith.divf %i0, %q : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s, %u : tensor<16x32xf32>, tensor<16x32xf32>) outs(%e0 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// WHY: element_type
// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_f64(%x: tensor<16x16xf64>, %wg: tensor<16x32xf64>, %wu: tensor<16x32xf64>) -> tensor<16x32xf64> {
  %zero = arith.constant 0.0 : f64
  %one = arith.constant 1.0 : f64
  %e0 = tensor.empty() : tensor<16x32xf64>
  %f1 = linalg.fill ins(%zero : f64) outs(%e0 : tensor<16x32xf64>) -> tensor<16x32xf64>
  %g = linalg.matmul ins(%x, %wg : tensor<16x16xf64>, tensor<16x32xf64>) outs(%f1 : tensor<16x32xf64>) -> tensor<16x32xf64>
  %u = linalg.matmul ins(%x, %wu : tensor<16x16xf64>, tensor<16x32xf64>) outs(%f1 : tensor<16x32xf64>) -> tensor<16x32xf64>
  %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<16x32xf64>) outs(%e0 : tensor<16x32xf64>) {
  ^bb0(%i0: f64, %o: f64):
    %n = arith.negf %i0 : f64
    %p = math.exp %n : f64
    %q = arith.addf %p, %one : f64
    %r = arith.divf %i0, %q : f64
    linalg.yield %r : f64
  } -> tensor<16x32xf64>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s, %u : tensor<16x32xf64>, tensor<16x32xf64>) outs(%e0 : tensor<16x32xf64>) {
  ^bb0(%i0: f64, %i1: f64, %o: f64):
    %r = arith.mulf %i0, %i1 : f64
    linalg.yield %r : f64
  } -> tensor<16x32xf64>
  return %y : tensor<16x32xf64>
}
