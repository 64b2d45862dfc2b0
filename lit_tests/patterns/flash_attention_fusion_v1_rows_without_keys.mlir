// A select or zeros after attention, by a condition that is not computed from the scores.
// RUN: %mlirfuse-opt %s --split-input-file --target=rocm --pipeline=flash_attention_fusion_v1 | FileCheck %s

#id = affine_map<(b, m, n) -> (b, m, n)>
#key = affine_map<(b, m, n) -> (n)>
#none = affine_map<(b, m, n) -> ()>
#swap = affine_map<(m, b, n) -> (b, m, n)>
#one = affine_map<(n) -> (n)>
#any = affine_map<(n) -> ()>

// PyTorch's SDPA with a padding mask of one sequence, as global optimization leaves it: the zeros
// for rows without a key are selected after the matmul with v, before the heads are transposed.
// CHECK: #[[OUT:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d1, d0, d2)>
// CHECK: #[[SCALAR:.*]] = affine_map<(d0, d1, d2) -> ()>
// CHECK-LABEL: @zero_without_a_key_then_transpose
// CHECK-SAME: %[[Q:.*]]: tensor<4x16x8xf32>, %[[K:.*]]: tensor<4x8x24xf32>, %[[V:.*]]: tensor<4x24x8xf32>, %[[KEEP:.*]]: tensor<24xi1>
// CHECK: %[[ANY:.*]] = linalg.generic {{.*}} ["reduction"]} ins(%[[KEEP]] :
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<16x4x8xf32>)
// CHECK: %[[A:.*]] = iree_linalg_ext.attention
// CHECK-SAME: #[[OUT]]]> ins(%[[Q]], %[[K]], %[[V]], %{{.*}}, %[[KEEP]] :
// CHECK: %[[Z:.*]] = linalg.generic {indexing_maps = [#[[SCALAR]],{{.*}} ins(%[[ANY]], %[[A]] :
// CHECK: ^bb0(%[[C:.*]]: i1, %[[X:.*]]: f32,
// CHECK: %[[ZERO:.*]] = arith.constant 0.0
// CHECK: arith.select %[[C]], %[[X]], %[[ZERO]]
// CHECK: flow.return %[[Z]]
// CHECK: return %[[R]]
func.func @zero_without_a_key_then_transpose(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %keep: tensor<24xi1>) -> tensor<16x4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %false = arith.constant false
  %closed = arith.constant dense<0xFF800000> : tensor<f32>
  %nothing = arith.constant dense<0.0> : tensor<f32>
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#key, #id, #none, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%keep, %qk, %closed : tensor<24xi1>, tensor<4x16x24xf32>, tensor<f32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%c: i1, %x: f32, %y: f32, %out: f32):
    %z = arith.select %c, %x, %y : f32
    linalg.yield %z : f32
  } -> tensor<4x16x24xf32>
  %ae = tensor.empty() : tensor<i1>
  %af = linalg.fill ins(%false : i1) outs(%ae : tensor<i1>) -> tensor<i1>
  %some = linalg.generic {indexing_maps = [#one, #any], iterator_types = ["reduction"]} ins(%keep : tensor<24xi1>) outs(%af : tensor<i1>) {
  ^bb0(%x: i1, %out: i1):
    %z = arith.ori %x, %out : i1
    linalg.yield %z : i1
  } -> tensor<i1>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %kept = linalg.generic {indexing_maps = [#none, #id, #none, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%some, %o, %nothing : tensor<i1>, tensor<4x16x8xf32>, tensor<f32>) outs(%oe : tensor<4x16x8xf32>) {
  ^bb0(%c: i1, %x: f32, %y: f32, %out: f32):
    %z = arith.select %c, %x, %y : f32
    linalg.yield %z : f32
  } -> tensor<4x16x8xf32>
  %te = tensor.empty() : tensor<16x4x8xf32>
  %t = linalg.generic {indexing_maps = [#swap, affine_map<(m, b, n) -> (m, b, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%kept : tensor<4x16x8xf32>) outs(%te : tensor<16x4x8xf32>) {
  ^bb0(%x: f32, %out: f32):
    linalg.yield %x : f32
  } -> tensor<16x4x8xf32>
  return %t : tensor<16x4x8xf32>
}

// -----

#id = affine_map<(b, m, n) -> (b, m, n)>
#row = affine_map<(b, m, n) -> (m)>

// The select remains after the region: its other value is one, or it selects zero
// where the condition holds.
// CHECK-LABEL: @no_fusion_of_another_value
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[A:.*]] = iree_linalg_ext.attention
// CHECK: flow.return %[[A]]
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[R]] :
// CHECK: arith.select
func.func @no_fusion_of_another_value(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %t: tensor<4x16x24xf32>, %open: tensor<16xi1>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk, %t : tensor<4x16x24xf32>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %b1: f32, %out: f32):
    %x = arith.addf %b0, %b1 : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %kept = linalg.generic {indexing_maps = [#row, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%open, %o : tensor<16xi1>, tensor<4x16x8xf32>) outs(%oe : tensor<4x16x8xf32>) {
  ^bb0(%c: i1, %x: f32, %out: f32):
    %z = arith.select %c, %x, %one : f32
    linalg.yield %z : f32
  } -> tensor<4x16x8xf32>
  return %kept : tensor<4x16x8xf32>
}

// CHECK-LABEL: @no_fusion_of_zero_where_it_holds
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[A:.*]] = iree_linalg_ext.attention
// CHECK: flow.return %[[A]]
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[R]] :
// CHECK: arith.select
func.func @no_fusion_of_zero_where_it_holds(%q: tensor<4x16x8xf32>, %k: tensor<4x8x24xf32>, %v: tensor<4x24x8xf32>, %t: tensor<4x16x24xf32>, %closed: tensor<16xi1>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<4x16x24xf32>
  %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %qk = linalg.batch_matmul ins(%q, %k : tensor<4x16x8xf32>, tensor<4x8x24xf32>) outs(%sf : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qk, %t : tensor<4x16x24xf32>, tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) {
  ^bb0(%b0: f32, %b1: f32, %out: f32):
    %x = arith.addf %b0, %b1 : f32
    linalg.yield %x : f32
  } -> tensor<4x16x24xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x24xf32>) outs(%se : tensor<4x16x24xf32>) -> tensor<4x16x24xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x24xf32>, tensor<4x24x8xf32>) outs(%of : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %kept = linalg.generic {indexing_maps = [#row, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%closed, %o : tensor<16xi1>, tensor<4x16x8xf32>) outs(%oe : tensor<4x16x8xf32>) {
  ^bb0(%c: i1, %x: f32, %out: f32):
    %z = arith.select %c, %zero, %x : f32
    linalg.yield %z : f32
  } -> tensor<4x16x8xf32>
  return %kept : tensor<4x16x8xf32>
}
