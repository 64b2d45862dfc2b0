// Weights that are NaN become zero.
// RUN: %mlirfuse-opt %s --split-input-file --target=rocm --pipeline=flash_attention_fusion_v1 | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=rocm --pipeline=flash_attention_fusion_v1 --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

#id = affine_map<(b, m, n) -> (b, m, n)>
#key = affine_map<(b, m, n) -> (n)>

// From: PyTorch's SDPA with a boolean mask, exported by torch.onnx: Where(IsNaN(p), 0, p). The rows
// without a key are found by their mask.
// CHECK-LABEL: @zero_where_nan
// CHECK-SAME: %[[Q:.*]]: tensor<4x16x8xf32>, %[[K:.*]]: tensor<4x8x24xf32>, %[[V:.*]]: tensor<4x24x8xf32>, %[[KEEP:.*]]: tensor<24xi1>
// CHECK: linalg.generic {{.*}} ["reduction"]} ins(%[[KEEP]] :
// CHECK: flow.dispatch.region
// CHECK: iree_linalg_ext.attention
// CHECK: arith.select
// CHECK: flow.return
func.func @zero_where_nan(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %keep: tensor<24xi1>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %closed = arith.constant 0xFF800000 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#key, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%keep, %qk : tensor<24xi1>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%c: i1, %x: f32, %out: f32):
    %m = arith.select %c, %zero, %closed : f32
    %z = arith.addf %x, %m : f32
    linalg.yield %z : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%x: f32, %out: f32):
    %c = arith.cmpf une, %x, %x : f32
    %z = arith.select %c, %zero, %x : f32
    linalg.yield %z : f32
  } -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%w, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>
#key = affine_map<(b, m, n) -> (n)>

// The scores are tested, and not the weights: only elements that are NaN themselves become zero.
// CHECK-LABEL: @zero_where_a_score_is_nan
// CHECK-NOT: iree_linalg_ext.attention
// CHECK: linalg.softmax
// WHY: the softmax is zeroed on other rows than those of -inf
func.func @zero_where_a_score_is_nan(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %keep: tensor<24xi1>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %closed = arith.constant 0xFF800000 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#key, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%keep, %qk : tensor<24xi1>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%c: i1, %x: f32, %out: f32):
    %m = arith.select %c, %zero, %closed : f32
    %z = arith.addf %x, %m : f32
    linalg.yield %z : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %w = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %s : tensor<4x16x24xf32>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%x: f32, %t: f32, %out: f32):
    %c = arith.cmpf une, %t, %t : f32
    %z = arith.select %c, %zero, %x : f32
    linalg.yield %z : f32
  } -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%w, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}
