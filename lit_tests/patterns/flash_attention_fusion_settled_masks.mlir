// RUN: %mlirfuse-opt %s --split-input-file --target=rocm --pipeline=flash_attention_fusion_v1,flash_attention_fusion_v2 | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=rocm --pipeline=flash_attention_fusion_v1,flash_attention_fusion_v2 --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

// Masks that compare positions: transformers writes `position >= 0` where nothing is masked.

#id = affine_map<(b, m, n) -> (b, m, n)>

// CHECK-LABEL: @no_position_is_below_zero
// CHECK: flow.dispatch.region
// CHECK-NOT: arith.cmpi
// CHECK: iree_linalg_ext.attention
// CHECK: return
// WHY-LABEL: @no_position_is_below_zero
// WHY: flash_attention_fusion_v2
func.func @no_position_is_below_zero(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %first = arith.constant 0 : i64
  %me = tensor.empty() : tensor<16xi1>
  %m = linalg.generic {indexing_maps = [affine_map<(m) -> (m)>], iterator_types = ["parallel"]} outs(%me : tensor<16xi1>) {
  ^bb0(%out: i1):
    %i = linalg.index 0 : index
    %at = arith.index_cast %i : index to i64
    %x = arith.cmpi sge, %at, %first : i64
    linalg.yield %x : i1
  } -> tensor<16xi1>
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (m)>, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m, %qk : tensor<16xi1>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: i1, %b1: f32, %out: f32):
    %x = arith.select %b0, %b1, %low : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// Nor with a dynamic number of queries. The difference is at most 15 - 0, which is below 16.
// CHECK-LABEL: @no_key_is_far_ahead
// CHECK: flow.dispatch.region
// CHECK-NOT: arith.cmpi
// CHECK: iree_linalg_ext.attention
// CHECK: return
// WHY-LABEL: @no_key_is_far_ahead
// WHY: flash_attention_fusion_v2
func.func @no_key_is_far_ahead(%q: tensor<4x?x8xf32>, %k: tensor<4x8x16xf32>, %v: tensor<4x16x8xf32>) -> tensor<4x?x8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %far = arith.constant 16 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %q, %c1 : tensor<4x?x8xf32>
  %se = tensor.empty(%rows) : tensor<4x?x16xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x?x16xf32>) -> tensor<4x?x16xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x?x8xf32>, tensor<4x8x16xf32>) outs(%sf : tensor<4x?x16xf32>) -> tensor<4x?x16xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk : tensor<4x?x16xf32>) outs(%se : tensor<4x?x16xf32>) {
  ^bb0(%b0: f32, %out: f32):
    %row = linalg.index 1 : index
    %key = linalg.index 2 : index
    %ahead = arith.subi %key, %row : index
    %near = arith.cmpi slt, %ahead, %far : index
    %x = arith.select %near, %b0, %low : f32
    linalg.yield %x : f32
  } -> tensor<4x?x16xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x?x16xf32>) outs(%se : tensor<4x?x16xf32>) -> tensor<4x?x16xf32>
  %oe = tensor.empty(%rows) : tensor<4x?x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x?x8xf32>) -> tensor<4x?x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x?x16xf32>, tensor<4x16x8xf32>) outs(%of : tensor<4x?x8xf32>) -> tensor<4x?x8xf32>
  return %o : tensor<4x?x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// A causal mask is kept, and a condition that is always true is dropped.
// CHECK-LABEL: @causal_and_at_least_zero
// CHECK: flow.dispatch.region
// CHECK: arith.cmpi sle
// CHECK-NOT: arith.cmpi sge
// CHECK-NOT: arith.andi
// CHECK: iree_linalg_ext.attention
// CHECK: return
// WHY-LABEL: @causal_and_at_least_zero
// WHY: flash_attention_fusion_v1
func.func @causal_and_at_least_zero(%q: tensor<4x16x8xf32>, %k: tensor<4x8x16xf32>, %v: tensor<4x16x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %first = arith.constant 0 : index
  %se = tensor.empty() : tensor<4x16x16xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x16xf32>) outs(%sf : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk : tensor<4x16x16xf32>) outs(%se : tensor<4x16x16xf32>) {
  ^bb0(%b0: f32, %out: f32):
    %row = linalg.index 1 : index
    %key = linalg.index 2 : index
    %all = arith.cmpi sge, %row, %first : index
    %past = arith.cmpi sle, %key, %row : index
    %both = arith.andi %all, %past : i1
    %x = arith.select %both, %b0, %low : f32
    linalg.yield %x : f32
  } -> tensor<4x16x16xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x16xf32>) outs(%se : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x16xf32>, tensor<4x16x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>

// The first query is masked throughout: its result differs from that without a mask.
// CHECK-LABEL: @no_fusion_one_position_is_below_one
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_one_position_is_below_one
// WHY: wrong_axis
// WHY: the mask does not vary with the keys
func.func @no_fusion_one_position_is_below_one(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %one = arith.constant 1 : index
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %out: f32):
    %row = linalg.index 1 : index
    %kept = arith.cmpi sge, %row, %one : index
    %x = arith.select %kept, %b0, %low : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}
