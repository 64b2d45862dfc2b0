// Ops between a contraction and a softmax, and which of the two takes them.
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=softmax_fusion | FileCheck %s

// A contraction whose batch the queries of two heads share, and a mask after the reshape that splits the
// heads: IREE cannot compute the mask with the contraction, so it goes with the softmax.
// CHECK-LABEL: @mask_after_shared_heads
// CHECK: linalg.batch_matmul
// CHECK: tensor.expand_shape %{{.*}} into tensor<4x32x32xf32>
// CHECK-NOT: linalg.generic
// CHECK: flow.dispatch.region
// CHECK: arith.select
#none = affine_map<(h, m, n) -> ()>
#mn = affine_map<(h, m, n) -> (m, n)>
#hmn = affine_map<(h, m, n) -> (h, m, n)>
func.func @mask_after_shared_heads(%q: tensor<2x64x16xf32>, %k: tensor<2x16x32xf32>, %keep: tensor<32x32xi1>) -> tensor<4x32x32xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant dense<0xFF800000> : tensor<f32>
  %e2 = tensor.empty() : tensor<2x64x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e2 : tensor<2x64x32xf32>) -> tensor<2x64x32xf32>
  %p = linalg.batch_matmul ins(%q, %k : tensor<2x64x16xf32>, tensor<2x16x32xf32>) outs(%f : tensor<2x64x32xf32>) -> tensor<2x64x32xf32>
  %flat = tensor.collapse_shape %p [[0, 1], [2]] : tensor<2x64x32xf32> into tensor<128x32xf32>
  %heads = tensor.expand_shape %flat [[0, 1], [2]] output_shape [4, 32, 32] : tensor<128x32xf32> into tensor<4x32x32xf32>
  %e = tensor.empty() : tensor<4x32x32xf32>
  %s = linalg.generic {indexing_maps = [#mn, #hmn, #none, #hmn], iterator_types = ["parallel", "parallel", "parallel"]} ins(%keep, %heads, %low : tensor<32x32xi1>, tensor<4x32x32xf32>, tensor<f32>) outs(%e : tensor<4x32x32xf32>) {
  ^bb0(%c: i1, %x: f32, %y: f32, %o: f32):
    %r = arith.select %c, %x, %y : f32
    linalg.yield %r : f32
  } -> tensor<4x32x32xf32>
  %y = linalg.softmax dimension(2) ins(%s : tensor<4x32x32xf32>) outs(%e : tensor<4x32x32xf32>) -> tensor<4x32x32xf32>
  return %y : tensor<4x32x32xf32>
}
